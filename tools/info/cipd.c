/* SPDX-License-Identifier: MIT
 *
 * sluice info: a channel of cuda-link's protocol, as far as its segment describes it.
 */
#include "info.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/json.h"
#include "../common/per_system.h"
#include "../common/term.h"

#define FLAG_BFLOAT16   0x0001
#define FLAG_MONO_ALPHA 0x0002
#define FLAG_BGRA       0x0004

static const char *order_name(const struct sluice_cipd_info *info)
{
    return info->order == SLUICE_CIPD_BGRA ? "bgra" : info->order == SLUICE_CIPD_RGBA ? "rgba" : "unknown";
}

static char *text_flags(char text[128], uint32_t flags)
{
    snprintf(text, 128, "%s%s%s%s", flags & FLAG_BFLOAT16 ? ", bfloat16" : "",
             flags & FLAG_MONO_ALPHA ? ", two components are mono and alpha" : "", flags & FLAG_BGRA ? ", BGRA" : "",
             flags & ~(uint32_t)(FLAG_BFLOAT16 | FLAG_MONO_ALPHA | FLAG_BGRA) ? ", unknown flags" : "");
    return text;
}

/* The number of the newest frame in a slot; 0: none yet. */
static uint32_t frame_in(const struct sluice_cipd_info *info, uint32_t slot)
{
    if (!info->index || !info->slot_count)
        return 0;
    uint32_t back = ((info->index - 1) % info->slot_count + info->slot_count - slot) % info->slot_count;
    return info->index > back ? info->index - back : 0;
}

static void print_frame(const struct sluice_cipd_info *info)
{
    char type[32] = "?", bytes[TERM_TEXT], flags[128];
    sluice_dtype_format(info->dtype, type, sizeof type);
    printf("frame      %u rows of %u pixels of %u %s, %s; flags 0x%04x%s\n", info->height, info->width,
           info->components, type, text_bytes(bytes, info->frame_bytes), info->flags, text_flags(flags, info->flags));
    if (cipd_has_order(info) && !info->order_declared)
        printf("%sorder      not declared: BGRA if TouchDesigner's component writes, RGBA for most other writers%s\n",
               colour(COLOUR_YELLOW), colour(COLOUR_PLAIN));
    else if (cipd_has_order(info))
        printf("order      %s, by its flags\n", order_name(info));
}

static void print_slots(const struct sluice_cipd_info *info)
{
    for (uint32_t i = 0; i < info->slot_count && i < SLUICE_CIPD_MAX_SLOTS; i++) {
        const struct sluice_cipd_slot_info *slot = &info->slots[i];
        uint32_t number = frame_in(info, i);
        printf("slot %-5u ", i);
        if (number)
            printf(" frame %" PRIu32 "%s", number, number == info->index ? ", the newest" : "");
        else
            printf(" no frame yet");
        printf("%s%s%s\n", info->index % info->slot_count == i ? "; written next" : "",
               slot->memory_open ? "" : "; no memory handle",
               slot->event_open ? "" : "; no event: frames are complete when published");
    }
}

static void print_session(const struct sluice_cipd_info *info)
{
    char a[TERM_TEXT], b[TERM_TEXT];
    printf("segment    " SEGMENT_AT "%s, %u bytes; cuda-link's protocol\n", info->name, info->segment_bytes);
    if (info->by_sluice && info->writer_pid)
        printf("writer     Sluice, process %u\n", info->writer_pid);
    else
        printf("writer     %s\n", info->by_sluice ? "Sluice" : "not Sluice; the protocol does not identify it");
    printf("session    version %" PRIu64 ", %" PRIu32 " frames published", info->version, info->index);
    if (info->last_frame_ns)
        printf(", the last %s ago", text_duration(a, now_ns() - info->last_frame_ns));
    printf("\n");
    print_frame(info);
    printf("slots      %u, at least %s each\n", info->slot_count, text_bytes(b, info->frame_bytes));
    print_slots(info);
}

static void print_cipd(const struct sluice_cipd_info *info)
{
    printf("%scipd:%s%s  %s\n", colour(COLOUR_BOLD), info->name, colour(COLOUR_PLAIN), cipd_state_name(info->state));
    if (info->why[0])
        printf("%sstate      %s%s\n", colour(COLOUR_YELLOW), info->why, colour(COLOUR_PLAIN));
    if (info->slot_count)
        print_session(info);
    else
        printf("segment    " SEGMENT_AT "%s\n", info->name); /* its contents could not be read */
    printf("readers    unknown: the protocol does not count them\n"
           "%slimits     no leases: a frame may be overwritten while it is read; no waiting for readers; no read-only "
           "mappings: "
           "readers could change frames; frames are gone when their writer ends%s\n",
           colour(COLOUR_YELLOW), colour(COLOUR_PLAIN));
}

static void json_slot(struct json *json, const struct sluice_cipd_info *info, uint32_t i)
{
    json_object(json);
    json_pair_uint(json, "slot", i);
    json_pair_bool(json, "memory", info->slots[i].memory_open != 0);
    json_pair_bool(json, "event", info->slots[i].event_open != 0);
    json_pair_uint(json, "frame", frame_in(info, i));
    json_pair_bool(json, "next", info->index % info->slot_count == i);
    json_close(json);
}

static void json_cipd(const struct sluice_cipd_info *info)
{
    struct json json;
    char type[32] = "?", name[sizeof info->name + 8];
    snprintf(name, sizeof name, "cipd:%s", info->name);
    sluice_dtype_format(info->dtype, type, sizeof type);
    json_begin(&json, stdout, false);
    json_object(&json);
    json_pair_string(&json, "name", name);
    json_pair_string(&json, "wire", "cipd");
    json_pair_string(&json, "state", cipd_state_name(info->state));
    json_pair_string(&json, "why", info->why[0] ? info->why : NULL);
    json_pair_uint(&json, "segment_bytes", info->segment_bytes);
    json_pair_bool(&json, "by_sluice", info->by_sluice != 0);
    json_pair_uint(&json, "pid", info->writer_pid);
    json_pair_uint(&json, "version", info->version);
    json_pair_uint(&json, "frames", info->index);
    json_pair_uint(&json, "width", info->width);
    json_pair_uint(&json, "height", info->height);
    json_pair_uint(&json, "components", info->components);
    json_pair_string(&json, "dtype", info->slot_count ? type : NULL);
    json_pair_uint(&json, "frame_bytes", info->frame_bytes);
    json_pair_uint(&json, "flags", info->flags);
    json_pair_string(&json, "order", cipd_has_order(info) ? order_name(info) : NULL);
    json_pair_bool(&json, "order_declared", info->order_declared != 0);
    json_pair_bool(&json, "mono_alpha", info->mono_alpha != 0);
    json_pair_int(&json, "last_frame_ns", info->last_frame_ns);
    json_pair_int(&json, "now_ns", now_ns());
    json_pair_bool(&json, "leases", false);
    json_pair_bool(&json, "waits_for_readers", false);
    json_pair_bool(&json, "read_only", false);
    json_key(&json, "slots");
    json_array(&json);
    for (uint32_t i = 0; i < info->slot_count && i < SLUICE_CIPD_MAX_SLOTS; i++)
        json_slot(&json, info, i);
    json_close_array(&json);
    json_close(&json);
    json_end(&json);
}

/* ---- deleted segments ---- */

static bool process_maps(const char *pid, const char *ending)
{
    char path[300], *line = NULL;
    size_t capacity = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%s/maps", pid);
    FILE *maps = fopen(path, "re");
    while (!found && maps && getline(&line, &capacity, maps) > 0) {
        const char *at = strchr(line, '/');
        found = at && strcmp(at, ending) == 0;
    }
    free(line);
    if (maps)
        fclose(maps);
    return found;
}

/* A deleted segment is still used by the processes that mapped it, but no other can find it. */
static void report_deleted_segment(const char *command, const char *channel)
{
    char ending[SLUICE_CIPD_MAX_NAME + 40];
    unsigned long first = 0, count = 0;
    DIR *proc = opendir("/proc");
    snprintf(ending, sizeof ending, SEGMENT_AT "%s (deleted)\n", channel + strlen("cipd:"));
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        unsigned long pid = strtoul(entry->d_name, NULL, 10);
        if (!pid || !process_maps(entry->d_name, ending))
            continue;
        first = count++ ? first : pid;
    }
    if (proc)
        closedir(proc);
    if (count)
        say_error(command,
                  "%lu %s a deleted segment of this name (process %lu%s); its writer was probably killed. "
                  "Sluice's readers switch to the next segment.",
                  count, count > 1 ? "programs still use" : "program still uses", first,
                  count > 1 ? " and others" : "");
}

int info_cipd(const char *command, const char *channel, bool json)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    int result = sluice_cipd_look(channel, &info);
    if (result) {
        int code = say_result(command, result, channel);
        if (result == SLUICE_E_NOT_FOUND && has_own_channels()) /* sections of Windows are never deleted */
            report_deleted_segment(command, channel);
        return code;
    }
    if (json)
        json_cipd(&info);
    else
        print_cipd(&info);
    return EXIT_DONE;
}
