/* SPDX-License-Identifier: MIT
 *
 * Finds the kernels of a source by a scan of its tokens: each __global__ function that is not a template, with its
 * namespaces. It does not expand macros, and reads all branches of an #if; unknown.c drops what the compiler leaves
 * out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "kernel/tokens.h"
#include "util/result.h"

#define MOST_KERNELS  1024
#define MOST_SCOPES   32 /* namespaces and extern "C", one in the other; deeper ones are skipped */
#define MOST_BRANCHES 32 /* of #if */
#define NAME          256

/* A name with its namespaces. */
struct name {
    size_t length;
    char text[NAME];
    bool too_long;
};

/* The state of the scan. An #else goes back to the state at its #if, because each branch may open a block that is
 * closed only once. */
struct place {
    unsigned scopes;
    size_t outer[MOST_SCOPES]; /* the length of `path` around each */
    struct name path;          /* "fx::" */
    size_t braces, brackets;   /* open brackets in the declaration; nothing inside braces matters */
    size_t angles;             /* of template <...> */
    /* the declaration so far */
    struct sl_token before;                                           /* the last token */
    struct name chain;                                                /* the last name, with its qualifiers */
    struct name kernel;                                               /* the function's name */
    bool is_kernel, is_template, is_namespace, is_inline, is_linkage; /* the last token is the string of extern "C" */
};

/* What is found: one block, which the caller gets. */
struct found {
    const char *list[MOST_KERNELS];
    char names[MOST_KERNELS][NAME];
};

struct scan {
    struct place place;
    struct place branches[MOST_BRANCHES]; /* at each #if */
    size_t level;
    struct found *found;
    uint32_t count;
    bool too_many;
};

/* ---- #if ---- */

static void read_directive(struct scan *scan, struct sl_token word)
{
    size_t at = scan->level - 1;

    if (sl_token_is(word, "if") || sl_token_is(word, "ifdef") || sl_token_is(word, "ifndef")) {
        if (scan->level < MOST_BRANCHES)
            scan->branches[scan->level] = scan->place;
        scan->level++;
    } else if (sl_token_is(word, "endif")) {
        scan->level -= scan->level > 0;
    } else if (at < MOST_BRANCHES && (sl_token_is(word, "else") || sl_token_is(word, "elif") ||
                                      sl_token_is(word, "elifdef") || sl_token_is(word, "elifndef"))) {
        scan->place = scan->branches[at];
    }
}

/* ---- names ---- */

static void append(struct name *name, const char *text, size_t length)
{
    if (length >= sizeof name->text - name->length) {
        name->too_long = true;
        return;
    }
    memcpy(name->text + name->length, text, length);
    name->length += length;
    name->text[name->length] = 0;
}

static bool is_known(const struct scan *scan, const char *name)
{
    for (uint32_t i = 0; i < scan->count; i++)
        if (strcmp(scan->found->names[i], name) == 0)
            return true;
    return false;
}

/* Adds a kernel, unless it is a template. Its declarations and its definition count once. */
static void add_kernel(struct scan *scan)
{
    const struct place *place = &scan->place;
    struct name full = place->path;

    if (!place->is_kernel || place->is_template || place->kernel.length == 0)
        return;
    append(&full, place->kernel.text, place->kernel.length);
    if (is_known(scan, full.text))
        return;
    if (full.too_long || place->kernel.too_long || scan->count == MOST_KERNELS) {
        scan->too_many = true;
        return;
    }
    char *name = scan->found->names[scan->count];
    scan->found->list[scan->count++] = memcpy(name, full.text, full.length + 1);
}

/* Words that take brackets and are not the function's name. Any other word before it may be a macro. */
static bool is_attribute(struct sl_token token)
{
    static const char *const names[] = {
        "__launch_bounds__", "__attribute__", "__attribute", "__maxnreg__", "__cluster_dims__",
        "__block_size__",    "__align__",     "__declspec",  "__asm__",     "asm",
        "alignas",           "decltype",      "noexcept",    "throw",       "requires"
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sl_token_is(token, names[i]))
            return true;
    return false;
}

static void read_name(struct place *place, struct sl_token token)
{
    if (sl_token_is(token, "__global__")) {
        place->is_kernel = true;
    } else if (sl_token_is(token, "template")) {
        place->is_template = true;
    } else if (sl_token_is(token, "inline")) {
        place->is_inline = place->is_inline || !place->is_namespace;
    } else if (sl_token_is(token, "namespace")) {
        place->is_namespace = true;
        place->chain.length = 0;
    } else if (!is_attribute(token) && !(place->is_namespace && sl_token_is(place->before, "inline"))) {
        if (!sl_token_is(place->before, "::"))
            place->chain.length = 0;
        else if (place->chain.length > 0)
            append(&place->chain, "::", 2);
        append(&place->chain, token.at, token.length);
    }
}

/* ---- declarations ---- */

static void end_declaration(struct place *place)
{
    place->chain.length = place->kernel.length = 0;
    place->chain.too_long = place->kernel.too_long = false;
    place->braces = place->brackets = place->angles = 0;
    place->is_kernel = place->is_template = place->is_namespace = place->is_inline = place->is_linkage = false;
}

/* The names in an inline namespace, and in one without a name, also belong to the namespace around it. */
static void open_scope(struct place *place)
{
    if (place->scopes == MOST_SCOPES) {
        place->braces = 1;
        return;
    }
    place->outer[place->scopes++] = place->path.length;
    if (place->is_namespace && !place->is_inline && place->chain.length > 0) {
        append(&place->path, place->chain.text, place->chain.length);
        append(&place->path, "::", 2);
    }
    end_declaration(place);
}

static void close_scope(struct place *place)
{
    if (place->scopes > 0)
        place->path.length = place->outer[--place->scopes];
    place->path.text[place->path.length] = 0;
    end_declaration(place);
}

/* Within braces, brackets or template <...>. */
static void read_nested(struct place *place, char c)
{
    if (place->braces > 0) {
        place->braces += c == '{';
        place->braces -= c == '}';
        if (place->braces == 0 && place->brackets == 0 && place->angles == 0)
            end_declaration(place);
    } else if (c == '{') {
        place->braces = 1;
    } else if (c == ';') {
        end_declaration(place); /* a macro closes them */
    } else if (c == '(' || c == '[') {
        place->brackets++;
    } else if (place->brackets > 0) {
        place->brackets -= c == ')' || c == ']';
    } else {
        place->angles += c == '<';
        place->angles -= c == '>';
    }
}

static void read_character(struct scan *scan, char c)
{
    struct place *place = &scan->place;

    switch (c) {
    case '(':
        if (place->is_kernel && ((place->before.kind == SL_TOKEN_NAME && !is_attribute(place->before)) ||
                                 sl_token_is(place->before, "]"))) /* name [[attribute]] ( */
            place->kernel = place->chain;
        place->brackets = 1;
        break;
    case '[': place->brackets = 1; break;
    case '<': place->angles = sl_token_is(place->before, "template"); break;
    case ';':
        add_kernel(scan);
        end_declaration(place);
        break;
    case '{':
        add_kernel(scan);
        if (place->is_namespace || place->is_linkage)
            open_scope(place);
        else
            place->braces = 1;
        break;
    case '}': close_scope(place); break;
    default: break;
    }
}

static void read_token(struct scan *scan, struct sl_token token)
{
    struct place *place = &scan->place;
    char c = token.kind == SL_TOKEN_OTHER && token.length == 1 ? *token.at : 0;

    if (place->braces > 0 || place->brackets > 0 || place->angles > 0)
        read_nested(place, c);
    else if (token.kind == SL_TOKEN_NAME)
        read_name(place, token);
    else
        read_character(scan, c);
    place->is_linkage = token.kind == SL_TOKEN_STRING && sl_token_is(place->before, "extern");
    place->before = token;
}

/* ---- the list ---- */

static int check(const struct scan *scan, const char *name)
{
    if (scan->too_many)
        return sl_fail(SLUICE_E_INVALID,
                       "%s has more than %d kernels, or one with a name of more than %d bytes: give a list of those "
                       "that are needed",
                       name, MOST_KERNELS, NAME - 1);
    if (scan->count == 0)
        return sl_fail(SLUICE_E_INVALID,
                       "%s has no kernel: none of its functions is __global__; name those that are templates "
                       "(\"scale<float>\") or made by macros",
                       name);
    return 0;
}

int sl_source_kernels(const char *name, const char *text, size_t bytes, const char *const **kernels, uint32_t *count)
{
    struct sl_tokens tokens = { .at = text, .end = text + bytes, .line_start = true };
    struct scan scan = { .found = malloc(sizeof *scan.found) };
    struct sl_token token;

    if (!scan.found)
        return sl_fail(SLUICE_E_NO_MEMORY, "%s: no memory for the names of its kernels", name);
    while ((token = sl_token_next(&tokens)).kind != SL_TOKEN_END) {
        if (token.kind == SL_TOKEN_DIRECTIVE)
            read_directive(&scan, token);
        else
            read_token(&scan, token);
    }
    int r = check(&scan, name);
    if (r != 0) {
        free(scan.found);
        return r;
    }
    *kernels = scan.found->list;
    *count = scan.count;
    return 0;
}
