/* SPDX-License-Identifier: MIT
 *
 * The options of a source that Sluice reads itself.
 */
#include <string.h>

#include "kernel/kernel.h"

char sl_source_option(const struct sl_source *source, uint32_t *at, const char **value)
{
    static const struct {
        const char *name;
        char kind;
    } options[] = {
        { "-D", 'D' }, { "--define-macro", 'D' }, { "-U", 'U' },       { "--undefine-macro", 'U' },
        { "-I", 'I' }, { "--include-path", 'I' }, { "-include", 'i' }, { "--pre-include", 'i' },
    };
    const char *option = source->options[*at];

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        size_t length = strlen(options[i].name);
        if (strncmp(option, options[i].name, length) != 0)
            continue;
        *value = option + length + (option[length] == '=');
        if (!**value && *at + 1 < source->option_count)
            *value = source->options[++*at];
        return options[i].kind;
    }
    return 0;
}
