/* SPDX-License-Identifier: MIT
 *
 * A C++ source as tokens.
 */
#include "kernel/tokens.h"

#include <ctype.h>
#include <string.h>

/* ---- characters ---- */

static bool starts_name(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool is_name(char c)
{
    return starts_name(c) || isdigit((unsigned char)c);
}

static bool begins(const struct sl_tokens *tokens, const char *text)
{
    size_t length = strlen(text);

    return (size_t)(tokens->end - tokens->at) >= length && memcmp(tokens->at, text, length) == 0;
}

static void skip_past(struct sl_tokens *tokens, const char *text, size_t length)
{
    const char *found = memmem(tokens->at, (size_t)(tokens->end - tokens->at), text, length);

    tokens->at = found ? found + length : tokens->end;
}

/* A backslash and the end of its line, which join it to the next one. */
static bool skip_joint(struct sl_tokens *tokens)
{
    size_t length = begins(tokens, "\\\n") ? 2 : begins(tokens, "\\\r\n") ? 3 : 0;

    tokens->at += length;
    return length > 0;
}

static void skip_line(struct sl_tokens *tokens)
{
    while (tokens->at < tokens->end && *tokens->at != '\n')
        if (!skip_joint(tokens))
            tokens->at++;
}

static bool skip_comment(struct sl_tokens *tokens)
{
    if (begins(tokens, "//")) {
        skip_line(tokens);
    } else if (begins(tokens, "/*")) {
        tokens->at += 2;
        skip_past(tokens, "*/", 2);
    } else {
        return false;
    }
    return true;
}

/* "..." or '...', which end with their line at the latest. */
static void skip_quoted(struct sl_tokens *tokens)
{
    char quote = *tokens->at++;

    while (tokens->at < tokens->end && *tokens->at != quote && *tokens->at != '\n')
        if (!skip_joint(tokens))
            tokens->at += *tokens->at == '\\' && tokens->at + 1 < tokens->end && tokens->at[1] != '\n' ? 2 : 1;
    tokens->at += tokens->at < tokens->end && *tokens->at == quote;
}

/* "end( ... )end" of R"end( ... )end". */
static void skip_raw(struct sl_tokens *tokens)
{
    char close[20] = ")";
    size_t length = 1;
    const char *at = tokens->at + 1;

    while (at < tokens->end && *at != '(' && length < 17)
        close[length++] = *at++;
    if (at == tokens->end || *at != '(') {
        skip_quoted(tokens);
        return;
    }
    close[length++] = '"';
    tokens->at = at;
    skip_past(tokens, close, length);
}

/* ---- directives ---- */

bool sl_token_is(struct sl_token token, const char *text)
{
    return token.length == strlen(text) && memcmp(token.at, text, token.length) == 0;
}

static struct sl_token read_name(struct sl_tokens *tokens)
{
    struct sl_token name = { .kind = SL_TOKEN_NAME, .at = tokens->at };

    while (tokens->at < tokens->end && is_name(*tokens->at))
        tokens->at++;
    name.length = (size_t)(tokens->at - name.at);
    return name;
}

/* To the end of the line, with those that are joined. An apostrophe may stand alone, as in #error. */
static void skip_directive(struct sl_tokens *tokens)
{
    while (tokens->at < tokens->end && *tokens->at != '\n') {
        if (skip_joint(tokens) || skip_comment(tokens))
            continue;
        if (begins(tokens, "'\"'"))
            tokens->at += 3;
        else if (*tokens->at == '"')
            skip_quoted(tokens);
        else
            tokens->at++;
    }
}

/* "# word" and the rest of its line. */
static struct sl_token read_directive(struct sl_tokens *tokens)
{
    while (tokens->at < tokens->end &&
           (*tokens->at == ' ' || *tokens->at == '\t' || begins(tokens, "\\\n") || begins(tokens, "/*")))
        if (!skip_joint(tokens) && !skip_comment(tokens))
            tokens->at++;
    struct sl_token token = read_name(tokens);
    token.kind = SL_TOKEN_DIRECTIVE;
    skip_directive(tokens);
    return token;
}

/* ---- tokens ---- */

static bool skip_space(struct sl_tokens *tokens)
{
    if (!isspace((unsigned char)*tokens->at))
        return skip_joint(tokens) || skip_comment(tokens);
    tokens->line_start = tokens->line_start || *tokens->at == '\n';
    tokens->at++;
    return true;
}

static void skip_number(struct sl_tokens *tokens)
{
    while (tokens->at < tokens->end && (is_name(*tokens->at) || *tokens->at == '.' || *tokens->at == '\''))
        tokens->at++;
}

static bool is_raw_prefix(struct sl_token token)
{
    return sl_token_is(token, "R") || sl_token_is(token, "LR") || sl_token_is(token, "uR") ||
           sl_token_is(token, "UR") || sl_token_is(token, "u8R");
}

static struct sl_token read_token(struct sl_tokens *tokens)
{
    struct sl_token token = { .kind = SL_TOKEN_OTHER, .at = tokens->at };
    char c = *tokens->at;

    if (starts_name(c)) {
        token = read_name(tokens);
        if (tokens->at == tokens->end || *tokens->at != '"' || !is_raw_prefix(token))
            return token;
        token.kind = SL_TOKEN_STRING;
        skip_raw(tokens);
    } else if (isdigit((unsigned char)c)) {
        skip_number(tokens);
    } else if (c == '"' || c == '\'') {
        token.kind = SL_TOKEN_STRING;
        skip_quoted(tokens);
    } else {
        tokens->at += begins(tokens, "<<<") ? 3 : begins(tokens, "::") || begins(tokens, "->") ? 2 : 1;
    }
    token.length = (size_t)(tokens->at - token.at);
    return token;
}

struct sl_token sl_token_next(struct sl_tokens *tokens)
{
    while (tokens->at < tokens->end && skip_space(tokens))
        ;
    bool directive = !tokens->whole && tokens->line_start && tokens->at < tokens->end && *tokens->at == '#';
    tokens->line_start = false;
    if (tokens->at == tokens->end)
        return (struct sl_token){ .kind = SL_TOKEN_END, .at = tokens->at };
    if (!directive)
        return read_token(tokens);
    tokens->at++;
    return read_directive(tokens);
}
