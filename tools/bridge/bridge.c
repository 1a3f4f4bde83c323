/* SPDX-License-Identifier: MIT
 *
 * sluice bridge: forwards every frame of one channel to another.
 */
#include "bridge.h"

#include <inttypes.h>
#include <string.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/per_system.h"
#include "../common/term.h"

#define ACQUIRE_TIMEOUT (100 * SLUICE_MS) /* how long a signal to stop may go unnoticed */
#define REOPEN_INTERVAL (20 * SLUICE_MS)  /* between attempts to acquire from a closed channel */

enum {
    DEVICE,
    FROM_DEVICE,
    UNDECLARED,
    SLOTS,
    WAIT,
    NEWEST,
    DEPTH,
    EVERY,
    ARRAY,
    ONCE,
    CLOSE,
    FRAMES,
    SECONDS,
    TIMEOUT,
    STATS,
    QUIET,
};

static const struct args_option options[] = {
    [DEVICE] = { 'd', "device", "host|GPU", "memory of TO's frames; default: the same as FROM's" },
    [FROM_DEVICE] = { 0, "from-device", "GPU", "the GPU of a cipd: FROM; default: its writer's, or cuda:0" },
    [UNDECLARED] = UNDECLARED_OPTION,
    [SLOTS] = { 0, "slots", "N", "initial number of slots of TO; default 4, cipd: 3" },
    [WAIT] = { 'w', "wait", NULL, "wait for TO's slow in-order readers instead of dropping" },
    [NEWEST] = { 0, "newest", NULL, "forward only the newest frame, not all in order" },
    [DEPTH] = { 0, "depth", "N", "unread frames that FROM keeps; default 4" },
    [EVERY] = { 'e', "every", "N", "forward every N-th frame only" },
    [ARRAY] = { 'a', "array", "ARRAY", "forward this array only; default: all" },
    [ONCE] = { 0, "once", NULL, "stop when FROM closes" },
    [CLOSE] = { 0, "close", NULL, "close TO while FROM is closed" },
    [FRAMES] = { 'n', "frames", "N", "stop after N frames" },
    [SECONDS] = { 's', "seconds", "S", "stop after S seconds" },
    [TIMEOUT] = { 't', "timeout", "S", "wait up to S seconds for FROM; default: no limit" },
    [STATS] = { 0, "stats", NULL, "print a line every second: rate, missed, dropped, delay" },
    [QUIET] = { 'q', "quiet", NULL, "print errors only" },
    { 0 },
};

/* ---- the state of FROM ---- */

/* Prints a change of FROM's state once. */
static void report_state(struct bridge *bridge, int result, int *reported)
{
    const char *from = bridge->from;
    if (result == *reported || result == SLUICE_TIMEOUT || result == SLUICE_AGAIN)
        return;
    if (result == SLUICE_CLOSED)
        bridge_note(bridge, "'%s' has closed%s", from, bridge->once ? "." : "; waiting for it to open again.");
    else if (result == SLUICE_NO_WRITER && bridge->sessions)
        bridge_note(bridge, "the writer of '%s' is gone; waiting for the next one.", from);
    else if (result == SLUICE_NO_WRITER)
        bridge_note(bridge, "waiting for '%s'.", from);
    else if (result < 0)
        bridge_note(bridge, "cannot read '%s': %s; waiting for it to change.", from, sluice_last_error());
    else if (result == SLUICE_OK && bridge->sessions > 1 && *reported != SLUICE_OK)
        bridge_note(bridge, "'%s' is back.", from);
    *reported = result;
}

/* A session of a "cipd:" channel that cannot be read; the next one may differ. */
static bool is_unreadable(const struct bridge *bridge, int result)
{
    return bridge->from_cipd && (result == SLUICE_E_UNSUPPORTED || result == SLUICE_E_FORMAT);
}

static int forward_frame(struct bridge *bridge, struct sluice_frame *frame)
{
    bridge->missed += frame->missed;
    bridge->sessions += frame->session != bridge->session;
    bridge->session = frame->session;
    int code = EXIT_DONE;
    if (bridge->to_skip) {
        bridge->to_skip--;
    } else {
        bridge->to_skip = bridge->from_cipd && bridge->every ? bridge->every - 1 : 0;
        code = bridge_send(bridge, frame);
    }
    int result = sluice_reader_release(bridge->reader, frame, SLUICE_ON_CPU);
    if (result == SLUICE_E_LOST) {
        bridge->lost++;
        bridge_note(bridge, "%s Forwarding continues.", sluice_last_error());
        return code;
    }
    return result && code == EXIT_DONE ? say_result(bridge->command, result, bridge->from) : code;
}

/* ---- statistics ---- */

struct meter {
    int64_t since_ns;
    uint64_t frames;
};

static void print_stats(struct bridge *bridge, struct meter *meter)
{
    int64_t now = now_ns();
    char delay[TERM_TEXT] = "-";
    if (!bridge->quiet)
        progress("bridging '%s' to '%s': %" PRIu64 " frames, %" PRIu64 " missed, %" PRIu64 " dropped", bridge->from,
                 bridge->to, bridge->frames, bridge->missed, bridge->dropped);
    if (!bridge->stats || now - meter->since_ns < SLUICE_S)
        return;
    if (bridge->delays)
        text_duration(delay, bridge->delay_ns / (int64_t)bridge->delays);
    progress_end();
    printf("%.1f fps, %" PRIu64 " frames, %" PRIu64 " missed, %" PRIu64 " dropped, %" PRIu64
           " lost, sessions %u, delay %s\n",
           (double)(bridge->frames - meter->frames) * 1e9 / (double)(now - meter->since_ns), bridge->frames,
           bridge->missed, bridge->dropped, bridge->lost, bridge->sessions, delay);
    fflush(stdout);
    *meter = (struct meter){ .since_ns = now, .frames = bridge->frames };
    bridge->delay_ns = 0;
    bridge->delays = 0;
}

static void print_summary(const struct bridge *bridge)
{
    progress_end();
    printf("bridged %" PRIu64 " frames, missed %" PRIu64 ", dropped %" PRIu64, bridge->frames, bridge->missed,
           bridge->dropped);
    if (bridge->lost)
        printf(", lost %" PRIu64, bridge->lost);
    if (bridge->sessions > 1)
        printf(", over %u sessions of the writer", bridge->sessions);
    printf("\n");
}

/* ---- the loop ---- */

static bool is_done(const struct bridge *bridge)
{
    return stop_asked() || (bridge->max_frames && bridge->frames >= bridge->max_frames) || now_ns() >= bridge->end_ns;
}

static int relay(struct bridge *bridge)
{
    struct meter meter = { .since_ns = now_ns() };
    int code = EXIT_DONE, reported = SLUICE_TIMEOUT;
    while (code == EXIT_DONE && !is_done(bridge)) {
        struct sluice_frame frame;
        int result = sluice_reader_acquire(bridge->reader, SLUICE_ON_CPU, ACQUIRE_TIMEOUT, &frame);
        if (result == SLUICE_OK) {
            code = forward_frame(bridge, &frame);
        } else if (result == SLUICE_E_LOST) {
            bridge->lost++;
            bridge_note(bridge, "%s Forwarding continues.", sluice_last_error());
        } else if (result < 0 && !is_unreadable(bridge, result)) {
            code = say_result(bridge->command, result, bridge->from);
        }
        if (result >= 0 || is_unreadable(bridge, result))
            report_state(bridge, result, &reported);
        if (result == SLUICE_CLOSED && bridge->once)
            break;
        if (result == SLUICE_CLOSED) {
            if (bridge->close)
                bridge_close_output(bridge);
            sleep_until(now_ns() + REOPEN_INTERVAL);
        }
        print_stats(bridge, &meter);
    }
    return code;
}

static int open_from(struct bridge *bridge)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_cipd_reader_params cipd;
    params.name = bridge->from;
    params.device = bridge->from_device;
    params.mode = bridge->newest ? SLUICE_NEWEST : SLUICE_IN_ORDER;
    params.depth = bridge->depth;
    params.every = bridge->from_cipd ? 0 : bridge->every; /* of a cipd: channel forward_frame() skips frames */
    int code = cipd_init_reader(bridge->command, &params, &cipd, bridge->undeclared);
    if (code != EXIT_DONE)
        return code;
    if (bridge->open_timeout_ns >= 0)
        return open_reader(bridge->command, &params, bridge->open_timeout_ns, &bridge->reader);
    params.open_timeout_ns = SLUICE_LATER;
    int result = sluice_reader_open(&bridge->reader, &params);
    return result ? say_result(bridge->command, result, bridge->from) : EXIT_DONE;
}

/* Checks options that only one of the two protocols supports. */
static int check_kinds(struct bridge *bridge)
{
    bridge->from_cipd = is_cipd(bridge->from);
    bridge->to_cipd = is_cipd(bridge->to);
    if (!bridge->from_cipd && bridge->from_device) {
        say_error(bridge->command, "--from-device works only if FROM is a cipd: channel.");
        return EXIT_USAGE;
    }
    bool waits = bridge->to_cipd && bridge->wait;
    if (waits || (bridge->to_cipd && bridge->slots > SLUICE_CIPD_MAX_SLOTS)) {
        say_error(bridge->command, waits ? "--wait does not work with a cipd: channel, which cannot wait for readers."
                                         : "a cipd: channel has at most 10 slots.");
        return EXIT_USAGE;
    }
    if (!bridge->to_cipd && bridge->slots && bridge->slots < 3) {
        say_error(bridge->command, "--slots takes a whole number from 3 to 64, except for a cipd: channel.");
        return EXIT_USAGE;
    }
    bridge->to_params = (struct sluice_cipd_writer_params)SLUICE_CIPD_WRITER_PARAMS_INIT;
    int result = sluice_cipd_environment(&bridge->to_params, NULL);
    return result ? say_result(bridge->command, result, NULL) : EXIT_DONE;
}

static const char *without_scheme(const char *name)
{
    return strncmp(name, "sluice:", 7) == 0 ? name + 7 : name;
}

/* True if the segment certainly has a live writer: Sluice's by its session, another program's by its frames. In doubt
 * the library watches the segment when TO opens, before it takes it over. */
static bool has_live_writer(const struct sluice_cipd_info *info)
{
    if (info->by_sluice)
        return info->state == SLUICE_CIPD_RUNNING || info->state == SLUICE_CIPD_STALLED;
    return info->state == SLUICE_CIPD_RUNNING && info->index && info->last_frame_ns;
}

/* Two writers of one segment would overwrite each other's frames unnoticed. */
static int check_cipd_output(const struct bridge *bridge)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    int result = sluice_cipd_look(bridge->to, &info);
    if (result == SLUICE_E_NAME || result == SLUICE_E_INVALID)
        return say_result(bridge->command, result, NULL);
    if (result == SLUICE_OK && has_live_writer(&info)) {
        say_error(bridge->command, "'%s' already has a writer: stop it, or choose another TO.", bridge->to);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

/* Checks TO before there is a frame. */
static int check_output(const struct bridge *bridge)
{
    struct sluice_channel_info info = { .size = sizeof info };
    if (strcmp(without_scheme(bridge->from), without_scheme(bridge->to)) == 0) {
        say_error(bridge->command, "FROM and TO are both '%s'.", bridge->to);
        return EXIT_USAGE;
    }
    if (bridge->to_cipd)
        return check_cipd_output(bridge);
    int result = sluice_channel_info(bridge->to, WRITER_TIMEOUT, &info, NULL, 0);
    if (result == SLUICE_E_NAME || result == SLUICE_E_INVALID)
        return say_result(bridge->command, result, NULL);
    if (result == SLUICE_OK) {
        say_error(bridge->command, "'%s' already has a writer, %s[%u]: stop it, or choose another TO.", bridge->to,
                  info.program, info.pid);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static bool parse_option(struct bridge *bridge, const struct args *args, int option)
{
    switch (option) {
    case DEVICE: bridge->device = args->value; return true;
    case FROM_DEVICE: bridge->from_device = args->value; return true;
    case UNDECLARED: return cipd_parse_order(args, &bridge->undeclared);
    case SLOTS: return args_u32(args, 1, SLUICE_MAX_SLOTS, &bridge->slots);
    case WAIT: return bridge->wait = true;
    case NEWEST: return bridge->newest = true;
    case DEPTH: return args_u32(args, 1, SLUICE_MAX_SLOTS, &bridge->depth);
    case EVERY: return args_u32(args, 1, 1000000, &bridge->every);
    case ARRAY: bridge->array = args->value; return true;
    case ONCE: return bridge->once = true;
    case CLOSE: return bridge->close = true;
    case FRAMES: return args_u32(args, 1, UINT32_MAX, &bridge->max_frames);
    case SECONDS: return args_duration(args, &bridge->duration_ns);
    case TIMEOUT: return args_duration(args, &bridge->open_timeout_ns);
    case STATS: return bridge->stats = true;
    case QUIET: return bridge->quiet = true;
    default: return false;
    }
}

static int bridge_run(const struct command *command, int argc, char **argv)
{
    struct bridge bridge = { .command = command->name, .open_timeout_ns = -1 };
    struct args args;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        if (!parse_option(&bridge, &args, option))
            return EXIT_USAGE;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    bridge.from = args.rest[0];
    bridge.to = args.rest[1];

    stop_on_signals();
    int code = check_kinds(&bridge);
    if (code == EXIT_DONE)
        code = check_output(&bridge);
    if (code == EXIT_DONE)
        code = open_from(&bridge);
    if (code != EXIT_DONE)
        return code;
    bridge.end_ns = bridge.duration_ns ? now_ns() + bridge.duration_ns : INT64_MAX;
    code = relay(&bridge);
    readback_close(&bridge.readback);
    sluice_reader_close(&bridge.reader);
    bridge_close_output(&bridge);
    if (!bridge.quiet)
        print_summary(&bridge);
    return code;
}

const struct command bridge_command = {
    .name = "bridge",
    .arguments = "FROM TO",
    .summary = "forward the frames of one channel to another",
    .details = "Frames keep their format, times, metadata and byte order. TO opens with the first frame,\n"
               "and changes its format when FROM does. Frames that arrive too fast are counted as\n"
               "missed, those that find no free slot in TO as dropped. If FROM closes or is killed, TO\n"
               "stays open until FROM is back. Ctrl-C stops. A channel \"cipd:NAME\" uses cuda-link's\n"
               "protocol, as TouchDesigner and Python programs do.\n",
    .examples = PER_SYSTEM("  sluice bridge camera preview                  a second channel with its own slots\n"
                           "  sluice bridge camera gpu --device cuda:0      from host memory to a GPU\n"
                           "  sluice bridge gpu camera --device host        from a GPU to host memory\n"
                           "  sluice bridge camera preview --every 4 --array image --stats\n"
                           "  sluice bridge 'cipd:cudalink_ipc_TD>>Python' td --undeclared bgra\n"
                           "  sluice bridge camera 'cipd:cudalink_ipc_Python>>TD' --device cuda:0\n",
                           "  sluice bridge cipd:camera cipd:preview        a second channel with its own slots\n"
                           "  sluice bridge \"cipd:cudalink_ipc_TD>>Python\" cipd:preview --undeclared bgra\n"
                           "  sluice bridge cipd:camera cipd:other --device cuda:1 --every 2 --stats\n"),
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = bridge_run,
};
