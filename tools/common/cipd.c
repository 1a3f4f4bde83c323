/* SPDX-License-Identifier: MIT
 *
 * Channels of cuda-link's protocol.
 */
#include "cipd.h"

#include <stdio.h>
#include <string.h>

#include "describe.h"
#include "term.h"

bool is_cipd(const char *name)
{
    return strncmp(name, "cipd:", 5) == 0;
}

bool cipd_parse_order(const struct args *args, uint32_t *order)
{
    *order = strcmp(args->value, "rgba") == 0   ? SLUICE_CIPD_RGBA
             : strcmp(args->value, "bgra") == 0 ? SLUICE_CIPD_BGRA
                                                : SLUICE_CIPD_UNKNOWN;
    if (*order == SLUICE_CIPD_UNKNOWN)
        say_error(args->command->name, "--undeclared takes rgba or bgra, not '%s'.", args->value);
    return *order != SLUICE_CIPD_UNKNOWN;
}

int cipd_init_reader(const char *command, struct sluice_reader_params *params, struct sluice_cipd_reader_params *cipd,
                     uint32_t undeclared)
{
    if (!is_cipd(params->name)) {
        if (undeclared)
            say_error(command, "--undeclared is for cipd: channels only; '%s' declares its format.", params->name);
        return undeclared ? EXIT_USAGE : EXIT_DONE;
    }
    if (params->depth || params->every > 1) {
        say_error(command, "--%s does not work with '%s': cipd: channels keep and count no unread frames.",
                  params->depth ? "depth" : "every", params->name);
        return EXIT_USAGE;
    }
    *cipd = (struct sluice_cipd_reader_params)SLUICE_CIPD_READER_PARAMS_INIT;
    int result = sluice_cipd_environment(NULL, cipd);
    if (result)
        return say_result(command, result, NULL);
    cipd->undeclared = undeclared;
    cipd->reconnect = SLUICE_CIPD_ON;
    cipd->copy = 1;
    params->mode = SLUICE_NEWEST;
    params->cipd = cipd;
    return EXIT_DONE;
}

int cipd_init_writer(const char *command, struct sluice_writer_params *params, struct sluice_cipd_writer_params *cipd)
{
    if (!is_cipd(params->name))
        return EXIT_DONE;
    *cipd = (struct sluice_cipd_writer_params)SLUICE_CIPD_WRITER_PARAMS_INIT;
    int result = sluice_cipd_environment(cipd, NULL);
    params->cipd = cipd;
    return result ? say_result(command, result, NULL) : EXIT_DONE;
}

/* The library also uses variables for readers that do not copy or reconnect, and for senders that hold the barrier; no
 * command does that. */
const char *cipd_commands_using(const char *variable)
{
    static const struct {
        const char *variable, *commands;
    } all[] = {
        { "CUDALINK_EXPORT_SYNC", "play bridge" },
        { "CUDALINK_USE_GRAPHS", "play bridge" },
        { "CUDALINK_STRICT_DEVICE", "bridge" },
        { "CUDALINK_LIB_STREAM_PRIO", "play bridge" },
        { "CUDALINK_ACTIVATION_BARRIER", "play bridge" },
        { "CUDALINK_BARRIER_STALE_NS", "play bridge" },
        { "CUDALINK_WAIT_SPIN_US", "bridge record snap view" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].variable, variable) == 0)
            return all[i].commands;
    return "";
}

int cipd_channel_info(const char *name, int64_t timeout_ns, struct sluice_channel_info *info, char *reason, size_t size)
{
    struct sluice_cipd_info look = { .size = sizeof look };
    int result = sluice_cipd_look(name, &look);
    bool unfinished = result == SLUICE_OK && look.state == SLUICE_CIPD_UNFINISHED;
    if (unfinished)
        result = SLUICE_NOT_READY;
    else if (result == SLUICE_OK)
        result = sluice_channel_info(name, timeout_ns, info, NULL, 0);
    if (result != SLUICE_OK)
        snprintf(reason, size, "%s", unfinished ? look.why : sluice_last_error());
    return result;
}

const char *cipd_state_name(uint32_t state)
{
    static const char *const names[] = { "absent", "unfinished", "running", "stalled", "shut" };
    return state < sizeof names / sizeof *names ? names[state] : "?";
}

bool cipd_has_order(const struct sluice_cipd_info *info)
{
    return info->components == 4 && info->dtype.code == SLUICE_UINT && info->dtype.bits == 8;
}

char *cipd_text_frame(char *text, const struct sluice_cipd_info *info)
{
    char type[32] = "?";
    sluice_dtype_format(info->dtype, type, sizeof type);
    snprintf(text, FORMAT_TEXT, "%ux%ux%u %s%s", info->width, info->height, info->components, type,
             !cipd_has_order(info)             ? ""
             : !info->order_declared           ? " rgba?bgra?"
             : info->order == SLUICE_CIPD_BGRA ? " bgra"
                                               : " rgba");
    return text;
}
