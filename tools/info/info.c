/* SPDX-License-Identifier: MIT
 *
 * sluice info: what a writer knows about its channel and its readers.
 */
#include <inttypes.h>
#include <string.h>

#include <sluice/sluice.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/json.h"
#include "../common/per_system.h"
#include "../common/term.h"
#include "../common/text.h"
#include "info.h"

enum { JSON, TIMEOUT };

static const struct args_option options[] = {
    [JSON] = { 'j', "json", NULL, "print JSON" },
    [TIMEOUT] = { 't', "timeout", "S", "wait up to S seconds for an answer; default 3" },
    { 0 },
};

static const char *policy_name(uint32_t policy)
{
    return policy == SLUICE_WAIT ? "wait" : policy == SLUICE_DROP ? "drop" : "?";
}

static const char *memory_name(uint32_t memory)
{
    static const char *const names[] = { "unknown", "host", "cuda", "cuda ipc" };

    return names[memory < sizeof names / sizeof *names ? memory : 0];
}

static void print_array(const struct sluice_array *array)
{
    char text[FORMAT_TEXT], type[32] = "?", bytes[TERM_TEXT];
    sluice_dtype_format(array->dtype, type, sizeof type);
    printf("  %-12s %s", array->name, text_array(text, array));
    if (array->image.pixel_format)
        printf(", %s", type);
    printf(", %s at %" PRIu64, text_bytes(bytes, array->nbytes), array->offset);
    printf(", strides");
    for (int i = 0; i < array->ndim; i++)
        printf("%s%" PRId64, i ? "," : " ", array->strides[i]);
    printf("\n");
    const struct sluice_image *image = &array->image;
    if (!image->pixel_format)
        return;
    static const char *const ranges[] = { "unknown range", "limited range", "full range" };
    static const char *const alphas[] = { "unknown", "straight", "premultiplied", "opaque" };
    printf("  %-12s planes at", "");
    for (uint32_t i = 0; i < image->plane_count && i < SLUICE_MAX_PLANES; i++)
        printf(" %" PRIu64 " (pitch %" PRIu64 ")", image->planes[i].offset, image->planes[i].pitch);
    printf("; primaries %u, transfer %u, matrix %u, %s; alpha %s; %s\n", image->colour.primaries,
           image->colour.transfer, image->colour.matrix, image->colour.range < 3 ? ranges[image->colour.range] : "?",
           image->alpha < 4 ? alphas[image->alpha] : "?",
           image->row_order == SLUICE_BOTTOM_UP ? "bottom row first" : "top row first");
}

static void print_channel(const struct sluice_channel_info *info)
{
    char text[FORMAT_TEXT], device[DEVICE_TEXT], a[TERM_TEXT], b[TERM_TEXT];
    printf("%s%s%s  %s\n", colour(COLOUR_BOLD), info->name, colour(COLOUR_PLAIN), text_format(text, &info->format));
    printf("writer     %s[%u], uid %u, device %s, in %s\n", info->program, info->pid, info->uid,
           text_device(device, info), info->folder);
    printf("session    %016" PRIx64 ", generation %u, wire version %u, open for %s\n", info->session, info->generation,
           info->wire_version, text_duration(a, info->now_ns - info->opened_ns));
    printf("slots      %u of at most %u, %s each; without a free slot the writer %s\n", info->slots, info->max_slots,
           text_bytes(a, info->format.slot_bytes), info->policy == SLUICE_WAIT ? "waits" : "drops");
    printf("frames     %" PRIu64 " committed (%s), %" PRIu64 " dropped", info->committed, text_bytes(a, info->bytes),
           info->dropped);
    if (info->last_commit_ns)
        printf(", the last %s ago", text_duration(b, info->now_ns - info->last_commit_ns));
    printf("\nreaders    %u of at most %u; %" PRIu64 " died, %" PRIu64 " evicted, %" PRIu64 " refused; %" PRIu64
           " unread frames overwritten\n",
           info->readers, info->max_readers, info->died, info->evicted, info->refused, info->stolen);
    if (info->name_restored)
        printf("%sname       removed and put back %" PRIu64 "x, the last time %s ago%s\n", colour(COLOUR_YELLOW),
               info->name_restored, text_duration(a, info->now_ns - info->name_restored_ns), colour(COLOUR_PLAIN));
    if (info->writable)
        printf("%swritable   readers may change frames, also those that others read%s\n", colour(COLOUR_YELLOW),
               colour(COLOUR_PLAIN));
    if (info->memory == SLUICE_MEMORY_CUDA_IPC)
        printf("%smemory     opened by IPC handles: readers could change frames, and frames are gone when their writer "
               "ends%s\n",
               colour(COLOUR_YELLOW), colour(COLOUR_PLAIN));
    printf("arrays\n");
    for (uint32_t i = 0; i < info->format.array_count && i < SLUICE_MAX_ARRAYS; i++)
        print_array(&info->format.arrays[i]);
}

static void print_readers(const struct sluice_reader_info *readers, uint32_t count)
{
    static const char *const headers[] = { "READER",  "MODE", ">DEPTH",   ">HOLD",  ">EVERY", ">TAKEN",
                                           ">MISSED", ">LAG", ">LATENCY", "LEASES", "PATH" };
    struct table table;
    char text[TERM_TEXT], mode[MODE_TEXT];
    if (count == 0)
        return;
    printf("\n");
    table_begin(&table, headers, 11);
    for (uint32_t i = 0; i < count; i++) {
        const struct sluice_reader_info *reader = &readers[i];
        table_cell(&table, COLOUR_PLAIN, "%s[%u]", reader->program, reader->pid);
        table_cell(&table, COLOUR_PLAIN, "%s", text_mode(mode, reader));
        table_cell(&table, COLOUR_PLAIN, "%u", reader->depth);
        table_cell(&table, COLOUR_PLAIN, "%u", reader->hold);
        table_cell(&table, COLOUR_PLAIN, "%u", reader->every);
        table_cell(&table, COLOUR_PLAIN, "%" PRIu64, reader->taken);
        table_cell(&table, reader->missed ? COLOUR_YELLOW : COLOUR_PLAIN, "%" PRIu64, reader->missed);
        table_cell(&table, COLOUR_PLAIN, "%" PRIu64, reader->lag);
        table_cell(&table, COLOUR_PLAIN, "%s", reader->taken ? text_duration(text, (int64_t)reader->latency_ns) : "-");
        if (reader->held)
            table_cell(&table, COLOUR_PLAIN, "%u for %s", reader->held, text_duration(text, reader->held_ns));
        else
            table_cell(&table, COLOUR_PLAIN, "none");
        table_cell(&table, COLOUR_PLAIN, "%s; %s%s", reader->path,
                   reader->copy_reason[0] ? "copied: " : "nothing is copied", reader->copy_reason);
    }
    table_print(&table);
}

static void json_reader(struct json *json, const struct sluice_reader_info *reader)
{
    json_object(json);
    json_pair_string(json, "program", reader->program);
    json_pair_uint(json, "pid", reader->pid);
    json_pair_uint(json, "uid", reader->uid);
    json_pair_string(json, "mode", reader->mode == SLUICE_IN_ORDER ? "in_order" : "newest");
    json_pair_uint(json, "depth", reader->depth);
    json_pair_uint(json, "hold", reader->hold);
    json_pair_uint(json, "every", reader->every);
    json_pair_bool(json, "writable", reader->writable != 0);
    json_pair_bool(json, "ahead", reader->ahead != 0);
    json_pair_uint(json, "parked", reader->parked);
    json_pair_uint(json, "taken", reader->taken);
    json_pair_uint(json, "missed", reader->missed);
    json_pair_uint(json, "lag", reader->lag);
    json_pair_uint(json, "latency_ns", reader->latency_ns);
    json_pair_uint(json, "latency_total_ns", reader->latency_total_ns);
    json_pair_uint(json, "latency_max_ns", reader->latency_max_ns);
    json_pair_uint(json, "lease_mean_ns", reader->lease_mean_ns);
    json_pair_int(json, "joined_ns", reader->joined_ns);
    json_slots(json, "held_slots", reader->held_slots);
    json_pair_int(json, "held_ns", reader->held_ns);
    json_pair_string(json, "path", reader->path);
    json_pair_string(json, "copy_reason", reader->copy_reason);
    json_close(json);
}

static void print_json(const struct sluice_channel_info *info, const struct sluice_reader_info *readers, uint32_t count)
{
    struct json json;
    char session[20], uuid[UUID_TEXT];
    text_uuid(uuid, info);
    snprintf(session, sizeof session, "%016" PRIx64, info->session);
    json_begin(&json, stdout, false);
    json_object(&json);
    json_pair_string(&json, "name", info->name);
    json_pair_string(&json, "folder", info->folder);
    json_pair_string(&json, "program", info->program);
    json_pair_uint(&json, "pid", info->pid);
    json_pair_uint(&json, "uid", info->uid);
    json_pair_string(&json, "device", info->device);
    json_pair_string(&json, "memory", memory_name(info->memory));
    json_pair_string(&json, "device_uuid", uuid[0] ? uuid : NULL);
    json_pair_uint(&json, "wire_version", info->wire_version);
    json_pair_string(&json, "session", session); /* 64 bits do not fit a JSON number */
    json_pair_uint(&json, "generation", info->generation);
    json_pair_uint(&json, "slots", info->slots);
    json_pair_uint(&json, "max_slots", info->max_slots);
    json_pair_string(&json, "policy", policy_name(info->policy));
    json_pair_bool(&json, "writable", info->writable != 0);
    json_pair_uint(&json, "max_readers", info->max_readers);
    json_pair_uint(&json, "frames", info->committed);
    json_pair_uint(&json, "dropped", info->dropped);
    json_pair_uint(&json, "stolen", info->stolen);
    json_pair_uint(&json, "bytes", info->bytes);
    json_pair_uint(&json, "readers_evicted", info->evicted);
    json_pair_uint(&json, "readers_died", info->died);
    json_pair_uint(&json, "readers_refused", info->refused);
    json_pair_uint(&json, "name_restored", info->name_restored);
    json_pair_int(&json, "name_restored_ns", info->name_restored_ns);
    json_pair_int(&json, "opened_ns", info->opened_ns);
    json_pair_int(&json, "last_commit_ns", info->last_commit_ns);
    json_pair_int(&json, "now_ns", info->now_ns);
    json_key(&json, "format");
    json_format(&json, &info->format);
    json_key(&json, "readers");
    json_array(&json);
    for (uint32_t i = 0; i < count; i++)
        json_reader(&json, &readers[i]);
    json_close_array(&json);
    json_close(&json);
    json_end(&json);
}

static int info_run(const struct command *command, int argc, char **argv)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[SLUICE_MAX_READERS];
    int64_t timeout = WRITER_TIMEOUT;
    bool json = false;
    struct args args;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0) {
        if (option == JSON)
            json = true;
        else if (!args_duration(&args, &timeout))
            return EXIT_USAGE;
    }
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    if (is_cipd(args.rest[0]))
        return info_cipd(command->name, args.rest[0], json);
    int result = sluice_channel_info(args.rest[0], timeout, &info, readers, SLUICE_MAX_READERS);
    if (result)
        return say_result(command->name, result, args.rest[0]);
    uint32_t count = info.readers < SLUICE_MAX_READERS ? info.readers : SLUICE_MAX_READERS;
    if (json) {
        print_json(&info, readers, count);
    } else {
        text_clean(info.program);
        text_clean(info.device);
        print_channel(&info);
        print_readers(readers, count);
    }
    return EXIT_DONE;
}

const struct command info_command = {
    .name = "info",
    .arguments = "CHANNEL",
    .summary = "show one channel and its readers in detail",
    .details = "For each reader: how frames reach it, why any are copied, how many it missed, how far it\n"
               "is behind, which leases it holds and for how long, the time from commit to acquire of\n"
               "its last frame, and as \"parked\" the GPU streams that wait for frames acquired ahead.\n"
               "This costs the writer nothing per frame and creates no CUDA context. For a channel of\n"
               "cuda-link's protocol (cipd:NAME) it shows what its segment contains.\n",
    .examples = PER_SYSTEM("  sluice info camera\n"
                           "  sluice info camera --json | jq '.readers[] | {program, lag, missed}'\n",
                           "  sluice info cipd:camera\n"
                           "  sluice info \"cipd:cudalink_ipc_TD>>Python\" --json\n"),
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = info_run,
};
