/* SPDX-License-Identifier: MIT
 *
 * Turns a C++ compiler's errors into messages for the author of a CUDA source.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/host_module.h"
#include "kernel/tokens.h"
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
    size_t length = strlen(name);
    char *end;

    if (strncmp(at, name, length) != 0 || at[length] != ':' || !isdigit((unsigned char)at[length + 1]))
        return false;
    error->line = (unsigned)strtoul(at + length + 1, &end, 10);
    end += strspn(end, ":0123456789 ");
    end += strncmp(end, "fatal ", 6) == 0 ? 6 : 0;
    if (strncmp(end, "error: ", 7) != 0)
        return false;
    error->text = end + 7;
    error->length = (int)strcspn(error->text, "\r\n");
    return true;
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

/* clang-format off */
static const char *const outside[] = {
    "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__shfl", "__shfl_up", "__shfl_down",
    "__shfl_xor", "__ballot_sync", "__any_sync", "__all_sync", "__activemask", "__ballot", "__any", "__all", "__syncwarp",
    "__match_any_sync", "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync",
    "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "cooperative_groups", "nvcuda",
    "__half", "__half2", "half", "half2", "__nv_bfloat16", "__nv_bfloat162", "cuda_fp16", "cuda_bf16",
    "tex1D", "tex1Dfetch", "tex2D", "tex2DLod", "tex3D", "texture", "surf2Dread", "surf2Dwrite",
    "cudaTextureObject_t", "cudaSurfaceObject_t", "cudaMalloc", "cudaFree", "cudaMemcpyAsync", "cudaDeviceSynchronize",
    "cudaStream_t", "<<<", "asm", "__asm__", "__dp4a", "__byte_perm", "__nanosleep", "clock64",
};
/* clang-format on */

static bool is_outside(struct sl_token word)
{
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (sl_token_is(word, outside[i]))
            return true;
    return false;
}

/* Does an error in the word's line name the word? The source may define its own `half`. */
static bool is_error(const char *log, const char *name, unsigned line, struct sl_token word)
{
    bool named = !sl_token_is(word, "<<<") && !sl_token_is(word, "asm") && !sl_token_is(word, "__asm__");
    struct error error;

    while (next_error(&log, name, &error))
        if (error.line == line && (!named || memmem(error.text, (size_t)error.length, word.at, word.length)))
            return true;
    return false;
}

static unsigned line_of(const struct sl_source *source, const char *at)
{
    unsigned line = 1;

    for (const char *c = source->text; c < at; c++)
        line += *c == '\n';
    return line;
}

/* Finds a word that "host" does not run in a line with an error, or in any line if the assembler or the linker reported
 * the error. */
static bool find_outside(const struct sl_source *source, const char *log, bool anywhere, struct sl_token *found)
{
    struct sl_tokens tokens = { .at = source->text, .end = source->text + source->bytes, .whole = true };
    struct sl_token before = { .kind = SL_TOKEN_OTHER };

    while ((*found = sl_token_next(&tokens)).kind != SL_TOKEN_END) {
        bool shared = sl_token_is(*found, "__shared__") && sl_token_is(before, "extern");
        if ((shared || is_outside(*found)) &&
            (anywhere || is_error(log, source->name, line_of(source, found->at), *found)))
            return true;
        before = *found;
    }
    return false;
}

static int say_outside(const struct sl_source *source, struct sl_token word)
{
    unsigned line = line_of(source, word.at);

    if (sl_token_is(word, "__shared__"))
        return sl_fail(
            SLUICE_E_COMPILE,
            "%s(%u): extern __shared__ does not run on \"host\": write SLUICE_SHARED(type, name) of <sluice.cuh>, "
            "which works there and on a GPU",
            source->name, line);
    return sl_fail(SLUICE_E_COMPILE,
                   "%s(%u): %.*s does not run on \"host\", only on a GPU: docs/kernels.md#on-the-cpu lists what does",
                   source->name, line, (int)word.length, word.at);
}

/* ---- the message ---- */

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
    struct sl_token word;
    bool any = next_error(&at, source->name, &first);

    if (find_outside(source, log, !any, &word))
        return say_outside(source, word);
    if (!any && sl_unknown_kernels(source, log))
        return SLUICE_E_INVALID;
    if (!any)
        return say_other(source, log, status);
    return sl_fail(SLUICE_E_COMPILE, "%s(%u): error: %.*s", source->name, first.line, first.length, first.text);
}
