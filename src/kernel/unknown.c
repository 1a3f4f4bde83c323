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

/* Finds the next kernel that the compiler does not know, from *log on. */
static bool next_unknown(const struct sl_source *source, const char **log, unsigned *index)
{
    while (**log) {
        const char *line = *log;
        size_t length = strcspn(line, "\n");
        *log += length + (line[length] == '\n');
        if (sscanf(line, SL_KERNEL_LINE, index) == 1 && *index < source->kernel_count && is_unknown(line, length))
            return true;
    }
    return false;
}

bool sl_unknown_kernels(const struct sl_source *source, const char *log)
{
    unsigned index;
    bool found = next_unknown(source, &log, &index);

    if (found)
        sl_say("%s has no kernel '%.200s'", source->name, source->kernels[index]);
    return found;
}

/* The compiler numbers those that stay anew. */
bool sl_unknown_leave_out(struct sl_source *source, const char **kernels)
{
    const char *log = sl_compile_log_text();
    uint32_t stay = 0;
    unsigned index;

    while (next_unknown(source, &log, &index))
        kernels[index] = NULL;
    for (uint32_t i = 0; i < source->kernel_count; i++)
        if (kernels[i])
            kernels[stay++] = kernels[i];
    if (stay == source->kernel_count)
        return false;
    source->kernel_count = stay;
    if (stay == 0)
        sl_say("%s has no kernel: its #if and #ifdef leave all of them out (-D may change that)", source->name);
    return stay > 0;
}
