/* SPDX-License-Identifier: MIT
 *
 * The names of a kernel's parameters, and what their comments say, from the text of its source. Types are the
 * compiler's affair.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

struct text {
    const char *at;
    const char *comment; /* the last one that was passed over, behind its slashes */
    size_t comment_size;
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void skip_comment(struct text *text)
{
    bool block = text->at[1] == '*';
    const char *end = block ? strstr(text->at + 2, "*/") : strchr(text->at, '\n');

    text->comment = text->at + 2;
    end = end ? end : text->at + strlen(text->at);
    text->comment_size = (size_t)(end - text->comment);
    text->at = end + (block && *end ? 2 : 0);
}

static void skip_quoted(struct text *text)
{
    char quote = *text->at++;

    for (; *text->at && *text->at != quote && *text->at != '\n'; text->at++)
        text->at += *text->at == '\\' && text->at[1];
    text->at += *text->at == quote;
}

/* Passes over spaces, comments and directives. */
static void skip_space(struct text *text)
{
    for (; *text->at; text->at++) {
        while (text->at[0] == '/' && (text->at[1] == '*' || text->at[1] == '/'))
            skip_comment(text);
        if (*text->at == '#')
            text->at += strcspn(text->at, "\n");
        if (!isspace((unsigned char)*text->at))
            return;
    }
}

/* The next name, or one other character. NULL at the end. */
static const char *next(struct text *text, size_t *size)
{
    skip_space(text);
    const char *start = text->at;
    if (*start == '"' || *start == '\'')
        skip_quoted(text);
    else if (is_name(*start))
        while (is_name(*text->at))
            text->at++;
    else if (*start)
        text->at++;
    *size = (size_t)(text->at - start);
    return *size ? start : NULL;
}

static bool is(const char *token, size_t size, const char *word)
{
    return token && strlen(word) == size && memcmp(token, word, size) == 0;
}

/* ---- comments ---- */

static bool read_number(const char *from, size_t size, double *number)
{
    char word[RUN_NAME], *end;
    while (size && isspace((unsigned char)*from)) {
        from++;
        size--;
    }
    if (size == 0 || size >= sizeof word)
        return false;
    memcpy(word, from, size);
    word[size] = 0;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        *number = word[0] == 't';
        return true;
    }
    *number = strtod(word, &end);
    end += *end == 'f';
    return end != word && !*end;
}

/* "= 1 (0..4) and any words": the default, then the range. A comment that does not begin with = says nothing. */
static void read_comment(struct run_parameter *parameter, const char *comment, size_t size)
{
    char text[256];
    size = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, comment, size);
    text[size] = 0;
    const char *at = text + strspn(text, " \t\n");
    if (*at != '=')
        return;
    const char *initial = at + 1 + strspn(at + 1, " \t");
    size_t length = strcspn(initial, " \t\n(");
    bool right = read_number(initial, length, &parameter->initial);
    const char *range = initial + length + strspn(initial + length, " \t");
    if (right && *range == '(') {
        const char *dots = strstr(range, ".."), *end = strchr(range, ')');
        parameter->has_range = right = dots && end && dots < end &&
                                       read_number(range + 1, (size_t)(dots - range - 1), &parameter->min) &&
                                       read_number(dots + 2, (size_t)(end - dots - 2), &parameter->max) &&
                                       parameter->min <= parameter->initial && parameter->initial <= parameter->max;
    }
    if (!right) {
        length = strcspn(at, "\n");
        length = length < sizeof parameter->wrong ? length : sizeof parameter->wrong - 1;
        memcpy(parameter->wrong, at, length);
        parameter->wrong[length] = 0;
    }
}

/* ---- parameters ---- */

/* One in the list, up to its comma or the closing bracket, which is the result. */
static char read_parameter(struct text *text, struct run_parameter *parameter)
{
    const char *token;
    size_t size, depth = 0;
    bool ended = false; /* the name: behind = comes a default of C++ */

    *parameter = (struct run_parameter){ .name = "" };
    text->comment = NULL;
    while ((token = next(text, &size))) {
        if (depth == 0 && (*token == ',' || *token == ')'))
            break;
        depth += *token == '(' || *token == '[' || *token == '<' || *token == '{';
        depth -= depth && (*token == ')' || *token == ']' || *token == '>' || *token == '}');
        ended = ended || *token == '=';
        if (depth == 0 && !ended && is_name(*token) && !isdigit((unsigned char)*token) &&
            size < sizeof parameter->name) {
            memcpy(parameter->name, token, size);
            parameter->name[size] = 0;
        }
    }
    /* A comment behind the comma, in the same line, is of this parameter, too. */
    const char *rest = text->at + strspn(text->at, " \t");
    if (token && *token == ',' && !text->comment && rest[0] == '/' && (rest[1] == '/' || rest[1] == '*')) {
        text->at = rest;
        skip_comment(text);
    }
    if (text->comment)
        read_comment(parameter, text->comment, text->comment_size);
    return token ? *token : 0;
}

static bool read_list(struct text text, uint32_t count, struct run_parameter *parameters)
{
    char end = ',';
    uint32_t found = 0;
    for (; end == ',' && found < count; found++)
        end = read_parameter(&text, &parameters[found]);
    return end == ')' && found == count;
}

bool run_parameters(const char *source, const char *kernel, uint32_t count, struct run_parameter *parameters)
{
    struct text text = { .at = source };
    const char *colons = strrchr(kernel, ':'), *token, *before = NULL;
    const char *name = colons ? colons + 1 : kernel;
    size_t size, before_size = 0;
    bool global = false;

    while ((token = next(&text, &size))) {
        global = (global || is(token, size, "__global__")) && *token != ';' && *token != '{';
        if (global && *token == '(' && is(before, before_size, name) && read_list(text, count, parameters))
            return true;
        before = token;
        before_size = size;
    }
    return false;
}
