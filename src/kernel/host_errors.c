/* SPDX-License-Identifier: MIT
 *
 * Turns a C++ compiler's errors into messages for the author of a CUDA source.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/host_module.h"
#include "util/result.h"

/* ---- the compiler's errors ---- */

struct error {
    unsigned line;
    const char *text;
    int length;
};

/* Reads "NAME:LINE:COLUMN: error: TEXT"; the column may be missing. */
static bool read_error(const char *at, const char *name, struct error *error)
{
    static const char *const words[] = { " error: ", " fatal error: " };
    size_t length = strlen(name);
    char *end;

    if (strncmp(at, name, length) != 0 || at[length] != ':' || !isdigit((unsigned char)at[length + 1]))
        return false;
    error->line = (unsigned)strtoul(at + length + 1, &end, 10);
    if (*end == ':' && isdigit((unsigned char)end[1]))
        strtoul(end + 1, &end, 10);
    for (size_t i = 0; *end == ':' && i < sizeof words / sizeof *words; i++) {
        size_t word = strlen(words[i]);
        if (strncmp(end + 1, words[i], word) != 0)
            continue;
        error->text = end + 1 + word;
        error->length = (int)strcspn(error->text, "\r\n");
        return true;
    }
    return false;
}

/* Finds the next error of the source, from *at on. */
static bool next_error(const char **at, const char *name, struct error *error)
{
    while (**at) {
        const char *line = *at;
        *at += strcspn(*at, "\n");
        *at += **at == '\n';
        if (read_error(line, name, error))
            return true;
    }
    return false;
}

/* ---- what "host" does not run ---- */

static const char *const outside[] = {
    "__shfl_sync",
    "__shfl_up_sync",
    "__shfl_down_sync",
    "__shfl_xor_sync",
    "__shfl",
    "__shfl_up",
    "__shfl_down",
    "__shfl_xor",
    "__ballot_sync",
    "__any_sync",
    "__all_sync",
    "__activemask",
    "__ballot",
    "__any",
    "__all",
    "__syncwarp",
    "__match_any_sync",
    "__match_all_sync",
    "__reduce_add_sync",
    "__reduce_min_sync",
    "__reduce_max_sync",
    "__syncthreads_count",
    "__syncthreads_and",
    "__syncthreads_or",
    "cooperative_groups",
    "nvcuda",
    "__half",
    "__half2",
    "half",
    "half2",
    "__nv_bfloat16",
    "__nv_bfloat162",
    "cuda_fp16",
    "cuda_bf16",
    "tex1D",
    "tex1Dfetch",
    "tex2D",
    "tex2DLod",
    "tex3D",
    "texture",
    "surf2Dread",
    "surf2Dwrite",
    "cudaTextureObject_t",
    "cudaSurfaceObject_t",
    "cudaMalloc",
    "cudaFree",
    "cudaMemcpyAsync",
    "cudaDeviceSynchronize",
    "cudaStream_t",
    "<<<",
    "asm",
    "__asm__",
    "__dp4a",
    "__byte_perm",
    "__nanosleep",
    "clock64",
};

static bool is_outside(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (strlen(outside[i]) == length && memcmp(outside[i], word, length) == 0)
            return true;
    return false;
}

struct word {
    const char *text;
    size_t length;
    unsigned line;
};

struct reader {
    const char *begin, *at, *end;
    unsigned line;
};

static bool starts(const struct reader *reader, const char *what)
{
    size_t length = strlen(what);
    return (size_t)(reader->end - reader->at) >= length && memcmp(reader->at, what, length) == 0;
}

static void skip_to(struct reader *reader, const char *end)
{
    for (; reader->at < reader->end && !starts(reader, end); reader->at++)
        reader->line += *reader->at == '\n';
}

static void skip(struct reader *reader, size_t length)
{
    size_t left = (size_t)(reader->end - reader->at);
    reader->at += length < left ? length : left;
}

static void skip_string(struct reader *reader, char quote)
{
    for (skip(reader, 1); reader->at < reader->end && *reader->at != quote && *reader->at != '\n'; skip(reader, 1))
        if (*reader->at == '\\')
            skip(reader, 1);
    if (reader->at < reader->end && *reader->at == quote)
        skip(reader, 1);
}

static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The mark in 1'000 does not begin a character. */
static bool follows_word(const struct reader *reader)
{
    return reader->at > reader->begin && is_of_word(reader->at[-1]);
}

/* Finds the next identifier or "<<<" of a source, outside comments and strings. */
static bool next_word(struct reader *reader, struct word *word)
{
    while (reader->at < reader->end) {
        const char *first = reader->at;
        if (starts(reader, "//")) {
            skip_to(reader, "\n");
        } else if (starts(reader, "/*")) {
            skip_to(reader, "*/");
            skip(reader, 2);
        } else if (*first == '"' || (*first == '\'' && !follows_word(reader))) {
            skip_string(reader, *first);
        } else if (starts(reader, "<<<") || is_of_word(*first)) {
            do
                skip(reader, *reader->at == '<' ? 3 : 1);
            while (reader->at < reader->end && is_of_word(*reader->at) && *first != '<');
            *word = (struct word){ first, (size_t)(reader->at - first), reader->line };
            return true;
        } else {
            reader->line += *first == '\n';
            reader->at++;
        }
    }
    return false;
}

/* ---- the message ---- */

static bool is(const struct word *word, const char *text)
{
    return word->length == strlen(text) && memcmp(word->text, text, word->length) == 0;
}

/* Does an error in the word's line name the word? The source may define its own `half`. */
static bool is_error(const char *log, const char *name, const struct word *word)
{
    bool named = !is(word, "<<<") && !is(word, "asm") && !is(word, "__asm__");
    struct error error;

    while (next_error(&log, name, &error))
        if (error.line == word->line && (!named || memmem(error.text, (size_t)error.length, word->text, word->length)))
            return true;
    return false;
}

/* Finds a word that "host" does not run in a line with an error, or in any line if the assembler or the linker reported
 * the error. */
static bool find_outside(const struct sl_source *source, const char *log, bool anywhere, struct word *found)
{
    struct reader reader = { source->text, source->text, source->text + source->bytes, 1 };
    struct word before = { "", 0, 0 };

    while (next_word(&reader, found)) {
        bool shared = is(found, "__shared__") && is(&before, "extern");
        if ((shared || is_outside(found->text, found->length)) && (anywhere || is_error(log, source->name, found))) {
            if (shared)
                *found = (struct word){ "extern __shared__", strlen("extern __shared__"), found->line };
            return true;
        }
        before = *found;
    }
    return false;
}

static int say_outside(const struct sl_source *source, const struct word *word)
{
    if (is(word, "extern __shared__"))
        return sl_fail(
            SLUICE_E_COMPILE,
            "%s(%u): extern __shared__ does not run on \"host\": write SLUICE_SHARED(type, name) of <sluice.cuh>, "
            "which works there and on a GPU",
            source->name, word->line);
    return sl_fail(SLUICE_E_COMPILE,
                   "%s(%u): %.*s does not run on \"host\", only on a GPU: docs/kernels.md#on-the-cpu lists what does",
                   source->name, word->line, (int)word->length, word->text);
}

/* Reports a failure that belongs to no line of the source: by the linker's text, or the first line. */
static int say_other(const struct sl_source *source, const char *log, int status)
{
    const char *undefined = strstr(log, "undefined reference to"), *error = strstr(log, "error: ");
    const char *text = undefined ? undefined : error ? error + strlen("error: ") : log;
    int length = (int)strcspn(text, "\r\n");

    if (length > 0)
        return sl_fail(SLUICE_E_COMPILE, "%s: error: %.*s", source->name, length, text);
    return sl_fail(SLUICE_E_COMPILE, "%s: the C++ compiler failed with status %d and wrote nothing", source->name,
                   status);
}

int sl_host_compile_failed(const struct sl_source *source, const char *log, int status)
{
    const char *at = log;
    struct error first;
    struct word word;
    bool any = next_error(&at, source->name, &first);

    if (find_outside(source, log, !any, &word))
        return say_outside(source, &word);
    if (!any && sl_unknown_kernels(source, log))
        return SLUICE_E_INVALID;
    if (!any)
        return say_other(source, log, status);
    return sl_fail(SLUICE_E_COMPILE, "%s(%u): error: %.*s", source->name, first.line, first.length, first.text);
}
