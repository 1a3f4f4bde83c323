/* SPDX-License-Identifier: MIT
 *
 * Frames of a channel of cuda-link's protocol, from publishing to where acquire has returned in another process, which
 * waits. On Windows and on Linux: see bench/win32/run.
 *
 *     handoff write NAME       sends a frame at each line that it reads
 *     handoff read NAME N      prints "open", and the nanoseconds of each of N frames
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#define CALL(call) ((call) == 0 ? (void)0 : give_up(#call))

static _Noreturn void give_up(const char *call)
{
    fprintf(stderr, "%s: %s\n", call, sluice_last_error());
    exit(1);
}

static int send_frames(const char *name)
{
    static unsigned char pixels[64 * 32 * 4];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;
    char line[8];

    CALL(sluice_format_add_image(&format, "image", SLUICE_PIXEL_BGRA, 64, 32));
    CALL(sluice_format_complete(&format));
    params.name = name;
    params.device = "cuda:0";
    params.format = &format;
    CALL(sluice_writer_open(&writer, &params));
    puts("open");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        struct sluice_array array = format.arrays[0];
        array.data = pixels;
        CALL(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
    }
    CALL(sluice_writer_close(&writer));
    return 0;
}

static int read_frames(const char *name, int count)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;
    sluice_reader *reader;

    params.name = name;
    params.device = "cuda:0";
    params.open_timeout_ns = 20 * SLUICE_S;
    CALL(sluice_reader_open(&reader, &params));
    puts("open");
    fflush(stdout);
    while (count-- > 0) {
        CALL(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CALL(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        CALL(sluice_reader_stats(reader, &stats));
        printf("%llu\n", (unsigned long long)stats.latency_ns);
        fflush(stdout);
    }
    CALL(sluice_reader_close(&reader));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "write") == 0)
        return send_frames(argv[2]);
    if (argc == 4 && strcmp(argv[1], "read") == 0)
        return read_frames(argv[2], atoi(argv[3]));
    fputs("usage: handoff write NAME | handoff read NAME N\n", stderr);
    return 2;
}
