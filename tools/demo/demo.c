/* SPDX-License-Identifier: MIT
 *
 * sluice demo: runs three programs on two channels and kills two of them. This program starts them, checks each frame
 * that comes out, and reports.
 *
 *     sluice play -> demo-in -> filter -> demo-out -> sluice record, and this program
 */
#include "demo.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/hash.h"
#include "../common/readback.h"
#include "../common/term.h"
#include "../media/media.h"

#define START_TIMEOUT (20 * SLUICE_S) /* for the first frame, and for frames to come back */
#define KILLS         2

enum { CLIP, OUT, SECONDS, FPS, SIZE, DEVICE, FILTER_PATH };

static const struct args_option options[] = {
    [CLIP] = { 'c', "clip", "FILE", "video to play; default: a test picture" },
    [OUT] = { 'o', "out", "FOLDER", "folder for the results; default: demo-out" },
    [SECONDS] = { 's', "seconds", "S", "duration from the first frame; default 24" },
    [FPS] = { 'r', "fps", "N", "frames per second; default 60" },
    [SIZE] = { 0, "size", "WxH", "size of the frames; default 640x360" },
    [DEVICE] = { 'd', "device", "host|GPU", "memory of the frames; default: cuda:0 if there is one" },
    [FILTER_PATH] = { 0, "filter", "PROGRAM", "the program in the middle; default: the built one" },
    { 0 },
};

struct demo {
    const char *clip, *out, *device;
    char filter[4096], program[4096], kernel[4096];
    char size[24], rate[24], recording[4200], sheet_path[4200], histogram_path[4200];
    int64_t length_ns;
    struct member team[TEAM];
    struct tally in, result;
    struct sheet sheet;
    sluice_reader *reader;
    struct readback readback;
    int64_t first_ns, last_ns; /* when the first and the last frame arrived */
    uint64_t seen, index, filter_torn;
    int kills_done;
    bool waiting;      /* for frames to come back after a kill */
    int64_t killed_ns; /* when that was */
    bool failed;
};

/* The number that follows a key in the metadata, which `play` and the filter write as JSON. */
static uint64_t meta_number(const char *meta, const char *key, int base)
{
    const char *at = strstr(meta, key);
    return at ? strtoull(at + strlen(key), NULL, base) : 0;
}

static bool on_gpu(const struct demo *demo)
{
    return strcmp(demo->device, "host") != 0;
}

/* The first GPU if it supports channels, else host memory; prints why. */
static const char *choose_device(void)
{
    const uint32_t all = SLUICE_CAN_MAP | SLUICE_CAN_EXPORT | SLUICE_CAN_QUEUE_WORDS | SLUICE_CAN_REGISTER |
                         SLUICE_CAN_REGISTER_READ_ONLY;
    struct sluice_device_report gpu = { .size = sizeof gpu };
    if (sluice_device_probe(0, &gpu) != SLUICE_OK) {
        printf("demo: using host memory: %s\n", sluice_last_error());
        return "host";
    }
    if ((gpu.can & all) != all || gpu.is & (SLUICE_IS_EXCLUSIVE | SLUICE_IS_CLOSED)) {
        printf("demo: using host memory: the %s lacks features that channels need (see sluice doctor)\n", gpu.model);
        return "host";
    }
    printf("demo: using the %s\n", gpu.model);
    return "cuda:0";
}

/* Looks for a file in the build folder and in the installation; "" if there is none. */
static void find_example(const struct demo *demo, const char *name, int mode, char path[4096])
{
    static const char *const places[] = { "/../examples/", "/" LIBEXEC "/" };
    char *slash = strrchr(demo->program, '/');
    path[0] = 0;
    for (size_t i = 0; slash && !path[0] && i < 2; i++) {
        snprintf(path, 4096, "%.*s%s%s", (int)(slash - demo->program), demo->program, places[i], name);
        if (access(path, mode) != 0)
            path[0] = 0;
    }
}

/* The filter is a kernel for `sluice run`, or a program: on a GPU, without a C++ compiler, and that of --filter. */
static bool find_filter(struct demo *demo)
{
    char compiler[256];
    if (!demo->filter[0] && !on_gpu(demo) && sluice_kernel_compiler("host", compiler, sizeof compiler) == SLUICE_OK)
        find_example(demo, "edges.cu", R_OK, demo->kernel);
    if (!demo->filter[0] && !demo->kernel[0])
        find_example(demo, on_gpu(demo) ? "example-gpu-filter" : "example-filter", X_OK, demo->filter);
    if (demo->kernel[0] || (demo->filter[0] && access(demo->filter, X_OK) == 0))
        return true;
    say_error("demo", "the filter program was not found: run 'make demo' in the source tree, or use --filter.");
    return false;
}

static bool prepare(struct demo *demo)
{
    ssize_t size = readlink("/proc/self/exe", demo->program, sizeof demo->program - 1);
    if (size <= 0) {
        say_error("demo", "cannot find this program's path: /proc is not mounted.");
        return false;
    }
    if (!find_filter(demo))
        return false;
    if (mkdir(demo->out, 0777) < 0 && errno != EEXIST) {
        say_error("demo", "cannot create the folder %s: %s.", demo->out, strerror(errno));
        return false;
    }
    bool video = child_find(media_ffmpeg(), NULL, 0);
    snprintf(demo->recording, sizeof demo->recording, "%.4000s/demo.%s", demo->out, video ? "mp4" : "slr");
    snprintf(demo->sheet_path, sizeof demo->sheet_path, "%.4000s/contact-sheet.png", demo->out);
    snprintf(demo->histogram_path, sizeof demo->histogram_path, "%.4000s/latency.svg", demo->out);
    demo->team[PLAYER].title = "player";
    child_add(&demo->team[PLAYER].args, demo->program, "play", demo->clip, DEMO_IN, "--loop", "--fps", demo->rate,
              "--size", demo->size, "--device", demo->device, "--hash", "--quiet", NULL);
    demo->team[FILTER].title = "filter";
    if (demo->kernel[0])
        child_add(&demo->team[FILTER].args, demo->program, "run", demo->kernel, DEMO_IN, DEMO_OUT, "--hash", "--quiet",
                  NULL);
    else
        child_add(&demo->team[FILTER].args, demo->filter, DEMO_IN, DEMO_OUT, NULL);
    if (on_gpu(demo))
        child_add(&demo->team[FILTER].args, demo->device, NULL);
    demo->team[RECORDER].title = "recorder";
    child_add(&demo->team[RECORDER].args, demo->program, "record", DEMO_OUT, demo->recording, "--follow", "--timeout",
              "20", "--quiet", NULL);
    if (video)
        child_add(&demo->team[RECORDER].args, "--fps", demo->rate, NULL);
    else /* uncompressed frames take much space */
        child_add(&demo->team[RECORDER].args, "--every", "20", NULL);
    return true;
}

/* Kills a program or adds a tile to the contact sheet when it is time. Tiles are spread evenly over the demo, except
 * for those of the last frame before a kill and the first one after it. */
static void kill_or_snapshot(struct demo *demo, const struct sluice_array *image)
{
    static const int victims[KILLS] = { PLAYER, FILTER };
    int64_t at = demo->last_ns - demo->first_ns;
    if (demo->waiting)
        return;
    if (demo->kills_done < KILLS && at >= demo->length_ns * (demo->kills_done + 1) / (KILLS + 1)) {
        sheet_add(&demo->sheet, image, TILE_LAST_BEFORE, at, demo->index);
        tally_update(&demo->in);
        tally_update(&demo->result);
        member_kill(&demo->team[victims[demo->kills_done++]]);
        demo->waiting = true;
        demo->killed_ns = now_ns();
    } else if (demo->sheet.count < TILES && at >= demo->length_ns * demo->sheet.count / TILES) {
        sheet_add(&demo->sheet, image, TILE_PLAIN, at, demo->index);
    }
}

/* Hashes the pixels; false if they cannot be read. */
static bool hash_pixels(struct demo *demo, const struct sluice_frame *frame, struct sluice_array *image, uint64_t *hash)
{
    if (sluice_frame_array(frame, NULL, image) != SLUICE_OK ||
        readback_fetch(&demo->readback, demo->reader, frame) != SLUICE_OK)
        return false;
    readback_map(&demo->readback, image);
    *hash = hash_of(image->data, image->nbytes);
    return true;
}

/* Checks that a frame is whole when it arrives, and still before it is released. */
static void check_frame(struct demo *demo, const struct sluice_frame *frame)
{
    struct sluice_array image;
    char meta[SLUICE_MAX_META + 1];
    int64_t now = now_ns();
    memcpy(meta, frame->meta, frame->meta_size);
    meta[frame->meta_size] = 0;
    uint64_t expected = meta_number(meta, "\"hash\":\"", 16), first, last;
    if (!hash_pixels(demo, frame, &image, &first)) {
        demo->result.torn++;
        return;
    }
    demo->index = meta_number(meta, "\"index\":", 10);
    demo->last_ns = now;
    if (!demo->first_ns)
        demo->first_ns = now;
    demo->seen++;
    tally_latency(&demo->result, now - frame->commit_ns);
    tally_latency(&demo->in, (int64_t)meta_number(meta, "\"latency_ns\":", 10));
    uint64_t torn = meta_number(meta, "\"torn\":", 10); /* counted since the filter started */
    if (torn > demo->filter_torn)
        demo->in.torn += torn - demo->filter_torn;
    demo->filter_torn = torn;

    team_frame_seen(demo->team, frame->capture_ns);
    bool back = demo->waiting && !demo->team[PLAYER].killed_ns && !demo->team[FILTER].killed_ns;
    if (back) {
        demo->waiting = false;
        sheet_add(&demo->sheet, &image, TILE_FIRST_AFTER, now - demo->first_ns, demo->index);
    } else {
        kill_or_snapshot(demo, &image);
    }
    bool whole = first == expected && hash_pixels(demo, frame, &image, &last) && last == expected;
    demo->result.torn += !whole;
}

static bool open_result(struct demo *demo)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    params.name = DEMO_OUT;
    params.open_timeout_ns = SLUICE_LATER;
    int result = sluice_reader_open(&demo->reader, &params);
    if (result)
        say_result("demo", result, NULL);
    return result == SLUICE_OK;
}

static bool demo_fail(struct demo *demo, const char *message)
{
    say_error("demo", "%s", message);
    demo->failed = true;
    return false;
}

/* After its time, but not before both programs were killed and are back, which may be later on a busy machine. */
static bool is_done(const struct demo *demo)
{
    return demo->first_ns && now_ns() - demo->first_ns >= demo->length_ns && demo->kills_done == KILLS &&
           !demo->waiting;
}

/* Checks frames and restarts programs until the demo is done. */
static void run_loop(struct demo *demo)
{
    int64_t last_frame_ns = now_ns(), updated_ns = 0;
    bool going = true;
    while (going && !stop_asked() && !is_done(demo)) {
        struct sluice_frame frame;
        int result = sluice_reader_acquire(demo->reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame);
        if (result == SLUICE_OK) {
            check_frame(demo, &frame);
            result = sluice_reader_release(demo->reader, &frame, SLUICE_ON_CPU);
            last_frame_ns = now_ns();
        } else if (result == SLUICE_CLOSED) {
            sleep_until(now_ns() + 5 * SLUICE_MS);
        }
        if (result < 0) {
            say_result("demo", result, NULL);
            going = demo_fail(demo, "cannot read the result.");
        }
        if (!team_watch(demo->team, demo->index))
            going = demo_fail(demo, "a program keeps failing.");
        if (now_ns() - last_frame_ns > START_TIMEOUT)
            going = demo_fail(demo, demo->first_ns ? "frames stopped arriving." : "no frame arrived.");
        if (going && demo->waiting && now_ns() - demo->killed_ns > START_TIMEOUT)
            going = demo_fail(demo, "frames did not come back after a kill.");
        if (now_ns() - updated_ns > SLUICE_S / 2) {
            tally_update(&demo->in);
            tally_update(&demo->result);
            updated_ns = now_ns();
            progress("demo: %" PRIu64 " frames, %" PRIu64 " torn, %.0f of %.0f s", demo->seen,
                     demo->in.torn + demo->result.torn,
                     demo->first_ns ? (double)(now_ns() - demo->first_ns) / 1e9 : 0.0, (double)demo->length_ns / 1e9);
        }
    }
    tally_update(&demo->in);
    tally_update(&demo->result);
}

static int print_report(struct demo *demo)
{
    uint64_t torn = demo->in.torn + demo->result.torn;
    double seconds = (double)(demo->last_ns - demo->first_ns) / 1e9;
    progress_end();
    printf("\n");
    demo->in.read = tally_committed(&demo->result) + tally_dropped(&demo->result); /* the filter makes one of each */
    demo->result.read = demo->seen;
    report_table(&demo->in, &demo->result, seconds > 0 ? seconds : 1);
    printf("\n");
    if (demo->seen && !sheet_write(&demo->sheet, demo->sheet_path))
        demo->failed = true;
    if (demo->seen && !histogram_write(demo->histogram_path, &demo->in, &demo->result))
        demo->failed = true;
    printf("recording      %s\n", demo->recording);
    printf("contact sheet  %s (red: the last frame before a kill, green: the first after)\n", demo->sheet_path);
    printf("latency        %s\n", demo->histogram_path);
    const char *why = demo->failed ? "see above" : stop_asked() ? "it was interrupted" : NULL;
    if (torn == 0 && !why) {
        printf("demo: ok, %" PRIu64 " frames, 0 torn\n", demo->seen);
        return EXIT_DONE;
    }
    printf("demo: FAILED, %" PRIu64 " frames, %" PRIu64 " torn%s%s\n", demo->seen, torn, why ? ": " : "",
           why ? why : "");
    return EXIT_FAILED;
}

static bool parse_option(struct demo *demo, const struct args *args, int option)
{
    uint32_t width, height;
    double rate;
    switch (option) {
    case CLIP: demo->clip = args->value; return true;
    case OUT: demo->out = args->value; return true;
    case SECONDS: return args_duration(args, &demo->length_ns);
    case DEVICE: demo->device = args->value; return true;
    case FPS: snprintf(demo->rate, sizeof demo->rate, "%s", args->value); return args_number(args, 1, 1000, &rate);
    case SIZE: snprintf(demo->size, sizeof demo->size, "%s", args->value); return args_size(args, &width, &height);
    default: snprintf(demo->filter, sizeof demo->filter, "%s", args->value); return true;
    }
}

static int run_demo(struct demo *demo)
{
    int code = EXIT_FAILED;
    printf("demo: %s at %s fps through %s and %s, device %s, in %s\n"
           "demo: to watch it from a second terminal: watch %s ls\n",
           demo->clip, demo->rate, DEMO_IN, DEMO_OUT, demo->device, sluice_registry_folder(), demo->program);
    fflush(stdout);
    bool started = open_result(demo);
    for (int i = 0; started && i < TEAM; i++)
        started = member_start(&demo->team[i]);
    if (started) {
        run_loop(demo);
        team_stop(demo->team);
        code = print_report(demo);
    } else {
        team_stop(demo->team);
        printf("demo: FAILED to start\n");
    }
    readback_close(&demo->readback);
    sluice_reader_close(&demo->reader);
    for (uint32_t i = 0; i < demo->sheet.count; i++)
        free(demo->sheet.tiles[i].rgb);
    free(demo->in.latency);
    free(demo->result.latency);
    return code;
}

static int demo_run(const struct command *command, int argc, char **argv)
{
    struct demo *demo = calloc(1, sizeof *demo);
    struct args args;
    int option, code = EXIT_USAGE;
    if (!demo) {
        say_error(command->name, "out of memory.");
        return EXIT_FAILED;
    }
    demo->clip = "test";
    demo->out = "demo-out";
    demo->length_ns = 24 * SLUICE_S;
    demo->in.name = DEMO_IN;
    demo->result.name = DEMO_OUT;
    snprintf(demo->size, sizeof demo->size, "640x360");
    snprintf(demo->rate, sizeof demo->rate, "60");
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0 && parse_option(demo, &args, option))
        continue;
    if (option == ARGS_HELP) {
        code = EXIT_DONE;
    } else if (option == ARGS_END) {
        stop_on_signals();
        if (!demo->device)
            demo->device = choose_device();
        code = prepare(demo) ? run_demo(demo) : EXIT_FAILED;
    }
    free(demo);
    return code;
}

const struct command demo_command = {
    .name = "demo",
    .arguments = "",
    .summary = "demonstrate Sluice: three programs, two of which are killed",
    .details = "One program plays a clip into the channel demo-in, one detects edges and writes them to\n"
               "demo-out, and one records demo-out, while the demo checks that every frame is whole. The\n"
               "player and then the filter are killed and restarted; you may kill any of them, too. On\n"
               "a GPU frames are in its memory, and a CUDA kernel of the filter detects the edges. On the\n"
               "CPU the filter is 'sluice run' with a kernel, if there is a C++ compiler. The demo ends\n"
               "with a table, a contact sheet and a histogram of latencies.\n",
    .examples = "  sluice demo\n"
                "  sluice demo --device host\n"
                "  sluice demo --clip clip.mp4 --seconds 60\n",
    .options = options,
    .run = demo_run,
};
