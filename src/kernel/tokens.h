/* SPDX-License-Identifier: MIT
 *
 * The tokens of a C++ source, as far as a scan of its declarations needs them. Macros are not expanded.
 */
#ifndef SL_KERNEL_TOKENS_H
#define SL_KERNEL_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

enum sl_token_kind {
    SL_TOKEN_END,
    SL_TOKEN_NAME,
    SL_TOKEN_STRING,
    SL_TOKEN_DIRECTIVE, /* of the preprocessor: its word, as "if" */
    SL_TOKEN_OTHER,     /* a number, "::", "->", "<<<", a character */
};

struct sl_token {
    enum sl_token_kind kind;
    const char *at;
    size_t length;
};

struct sl_tokens {
    const char *at, *end;
    bool line_start; /* true at first */
    bool whole;      /* directives are tokens like all else */
};

/* Skips comments, and what follows the word of a directive. */
struct sl_token sl_token_next(struct sl_tokens *tokens);
bool sl_token_is(struct sl_token token, const char *text);

#endif
