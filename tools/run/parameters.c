/* SPDX-License-Identifier: MIT
 *
 * The names of a kernel's parameters, and what their comments say, from the text of its source. Types are the
 * compiler's affair.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* A name, a comment, a quoted text, a directive, or one other character. */
struct token {
    const char *at;
    size_t size; /* 0: the source ends here */
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool is_comment(struct token token)
{
    return token.size > 1 && *token.at == '/';
}

static bool is_word(struct token token, const char *word)
{
    return token.size == strlen(word) && memcmp(token.at, word, token.size) == 0;
}

/* The first token at `at` or behind it. */
static struct token next(const char *at)
{
    at += strspn(at, " \t\r\n\v\f");
    size_t size = *at != 0;
    if (at[0] == '/' && at[1] == '*') {
        const char *end = strstr(at + 2, "*/");
        size = end ? (size_t)(end + 2 - at) : strlen(at);
    } else if (*at == '#' || (at[0] == '/' && at[1] == '/')) {
        size = strcspn(at, "\n");
    } else if (*at == '"' || *at == '\'') {
        while (at[size] && at[size] != *at && at[size] != '\n')
            size += at[size] == '\\' && at[size + 1] ? 2 : 1;
        size += at[size] == *at;
    } else if (is_name(*at)) {
        while (is_name(at[size]))
            size++;
    }
    return (struct token){ at, size };
}

static struct token after(struct token token)
{
    return next(token.at + token.size);
}

/* ---- comments ---- */

static bool read_number(const char *word, double *number)
{
    char *end;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        *number = word[0] == 't';
        return true;
    }
    *number = strtod(word, &end);
    return end != word && (!*end || strcmp(end, "f") == 0);
}

/* "= 1 (0..4) and any words": the default, then the range. A comment that does not begin with = says nothing. */
static void read_comment(struct run_parameter *parameter, struct token comment)
{
    char text[256], initial[RUN_NAME], open[2], min[RUN_NAME], max[RUN_NAME], close[2];
    const char *at = comment.at + 2, *end = comment.at + comment.size - (comment.at[1] == '*' ? 2 : 0);
    at += strspn(at, " \t\n");
    if (at >= end || *at != '=')
        return;
    snprintf(text, sizeof text, "%.*s", (int)(end - at), at);
    text[strcspn(text, "\n")] = 0;
    snprintf(parameter->wrong, sizeof parameter->wrong, "%.*s", RUN_NAME - 1, text);

    char *bracket = strchr(text, '('), *dots = bracket ? strstr(bracket, "..") : NULL;
    if (dots)
        memcpy(dots, "  ", 2); /* or they would be read as a part of the number */
    int found = sscanf(text, "= %63[^ \t(] %1[(] %63[^ \t)] %63[^ \t)] %1[)]", initial, open, min, max, close);
    bool right = (found == 1 || (found == 5 && dots)) && read_number(initial, &parameter->initial);
    if (right && found == 5) {
        right = read_number(min, &parameter->min) && read_number(max, &parameter->max) &&
                parameter->min <= parameter->initial && parameter->initial <= parameter->max;
        parameter->has_range = right;
    }
    if (right)
        parameter->wrong[0] = 0;
}

/* ---- parameters ---- */

/* One in the list, from `at` to its comma or the closing bracket, which is *end. Returns what follows. */
static const char *read_parameter(const char *at, struct run_parameter *parameter, char *end)
{
    struct token token, comment = { NULL, 0 };
    size_t depth = 0;
    bool ended = false; /* the name: behind = comes a default of C++ */

    *parameter = (struct run_parameter){ .name = "" };
    for (token = next(at); token.size; token = after(token)) {
        char c = *token.at;
        if (is_comment(token))
            comment = token;
        if (depth == 0 && (c == ',' || c == ')'))
            break;
        depth += strchr("([<{", c) != NULL;
        depth -= depth && strchr(")]>}", c);
        ended = ended || c == '=';
        if (depth == 0 && !ended && is_name(c) && !isdigit((unsigned char)c))
            snprintf(parameter->name, sizeof parameter->name, "%.*s", (int)token.size, token.at);
    }
    *end = *token.at;
    /* A comment behind the comma, in the same line, is of this parameter, too. */
    struct token behind = after(token);
    if (*end == ',' && !comment.size && is_comment(behind) && !memchr(token.at, '\n', (size_t)(behind.at - token.at)))
        token = comment = behind;
    if (comment.size)
        read_comment(parameter, comment);
    return token.at + token.size;
}

static bool read_list(const char *at, uint32_t count, struct run_parameter *parameters)
{
    char end = ',';
    uint32_t found = 0;
    for (; end == ',' && found < count; found++)
        at = read_parameter(at, &parameters[found], &end);
    return end == ')' && found == count;
}

bool run_parameters(const char *source, const char *kernel, uint32_t count, struct run_parameter *parameters)
{
    const char *colons = strrchr(kernel, ':'), *name = colons ? colons + 1 : kernel;
    struct token before = { source, 0 };
    bool global = false;

    for (struct token token = next(source); token.size; token = after(token)) {
        if (is_comment(token) || *token.at == '#')
            continue;
        global = (global || is_word(token, "__global__")) && *token.at != ';' && *token.at != '{';
        if (global && *token.at == '(' && is_word(before, name) && read_list(token.at + 1, count, parameters))
            return true;
        before = token;
    }
    return false;
}
