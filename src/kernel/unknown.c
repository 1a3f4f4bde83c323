/* SPDX-License-Identifier: MIT
 *
 * Kernels that a compiler does not know: the scan of a source finds those, too, that the preprocessor leaves out.
 */
#include <stdio.h>
#include <string.h>

#include "kernel/kernel.h"
#include "util/result.h"

/* NVRTC's words, gcc's and clang's. */
static bool is_unknown(const char *line, size_t length)
{
    static const char *const words[] = { "is undefined",     "has no member",     "must be a class or namespace name",
                                         "was not declared", "not been declared", "is not a member",
                                         "undeclared",       "no member named" };

    if (!memmem(line, length, "error", 5))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(line, length, words[i], strlen(words[i])))
            return true;
    return false;
}

bool sl_unknown_kernels(const struct sl_source *source, const char *log)
{
    const char *first = NULL;
    unsigned index;

    for (size_t length; *log; log += length + (log[length] == '\n')) {
        length = strcspn(log, "\n");
        if (sscanf(log, SL_KERNEL_LINE, &index) != 1 || index >= source->kernel_count || !is_unknown(log, length))
            continue;
        if (!first)
            first = source->kernels[index];
        if (source->unknown)
            source->unknown[index] = true;
    }
    if (first)
        sl_say("%s has no kernel '%.200s'", source->name, first);
    return first != NULL;
}

/* The compiler numbers those that stay anew. */
bool sl_unknown_leave_out(struct sl_source *source, const char **kernels)
{
    uint32_t stay = 0;

    for (uint32_t i = 0; i < source->kernel_count; i++)
        if (!source->unknown[i])
            kernels[stay++] = kernels[i];
    if (stay == source->kernel_count)
        return false;
    if (stay == 0) {
        sl_say("%s has no kernel: its #if and #ifdef leave all of them out (-D may change that)", source->name);
        return false;
    }
    memset(source->unknown, 0, source->kernel_count * sizeof *source->unknown);
    source->kernel_count = stay;
    return true;
}
