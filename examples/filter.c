/* SPDX-License-Identifier: MIT
 *
 * A program between two channels: takes frames of one, finds the edges in them, and publishes the result in the other.
 * The edges are written straight into the slot that readers see; nothing is copied. Writers and readers on either side
 * may be killed and restarted.
 *
 *     filter IN OUT
 *
 * It also checks that each frame is whole: the pixels must be the same at the end of the lease as at its beginning, and
 * if the metadata has a hash ("hash":"..."), it must be theirs.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include <sluice/sluice.h>

#include "edges.h"
#include "hash.h"

struct filter {
    const char *out_name;
    sluice_reader *reader;
    sluice_writer *writer;
    uint32_t width, height;
    uint8_t *luma; /* three rows, used in turn */
    uint64_t torn;
};

static _Atomic bool stop; /* signals arrive on any thread */

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop = true;
}

static int fail(const char *what)
{
    fprintf(stderr, "filter: %s: %s\n", what, sluice_last_error());
    return 1;
}

/* The output channel is opened with the first frame, and reshaped when the size changes. */
static int prepare(struct filter *filter, const struct sluice_image *image)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    if (filter->writer && filter->width == image->width && filter->height == image->height)
        return 0;
    uint8_t *luma = realloc(filter->luma, (size_t)image->width * 3);
    if (!luma)
        return 1;
    filter->luma = luma;
    filter->width = image->width;
    filter->height = image->height;
    if (sluice_format_add_image(&format, "image", SLUICE_PIXEL_RGBA, image->width, image->height))
        return fail("format");
    format.arrays[0].image.colour = image->colour;
    if (filter->writer)
        return sluice_writer_reformat(filter->writer, &format) ? fail(filter->out_name) : 0;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    params.name = filter->out_name;
    params.format = &format;
    return sluice_writer_open(&filter->writer, &params) ? fail(filter->out_name) : 0;
}

static void write_meta(struct filter *filter, struct sluice_frame *frame, const char *in_meta,
                       const struct sluice_array *out, int64_t latency)
{
    const char *index = find_key(in_meta, "\"index\":");
    frame->meta_size = (uint32_t)snprintf(
        frame->meta, SLUICE_MAX_META,
        "{\"index\":%llu,\"hash\":\"%016" PRIx64 "\",\"torn\":%" PRIu64 ",\"latency_ns\":%" PRId64 "}",
        index ? strtoull(index, NULL, 10) : 0, hash_of(out->data, out->nbytes), filter->torn, latency);
}

/* One frame from IN to OUT. Returns 0, or 1 after printing an error. */
static int pass(struct filter *filter, const struct sluice_frame *in, int64_t latency)
{
    struct sluice_frame out;
    struct sluice_array from, to;
    char meta[SLUICE_MAX_META + 1];
    if (sluice_frame_array(in, NULL, &from))
        return fail("frame");
    if (from.image.pixel_format != SLUICE_PIXEL_RGBA) {
        fprintf(stderr, "filter: it takes rgba, not %s\n", sluice_pixel_format_name(from.image.pixel_format));
        return 1;
    }
    uint64_t before = hash_of(from.data, from.nbytes);
    memcpy(meta, in->meta, in->meta_size);
    meta[in->meta_size] = 0;
    const char *said = find_key(meta, "\"hash\":\"");
    if (prepare(filter, &from.image))
        return 1;
    int result = sluice_writer_begin(filter->writer, SLUICE_DEFAULT, &out);
    if (result == SLUICE_NO_SLOT)
        return 0; /* all slots are held: this frame is dropped */
    if (result || sluice_frame_array(&out, NULL, &to))
        return fail("begin");
    edges(filter->luma, filter->width, filter->height, from.data, from.image.planes[0].pitch, to.data,
          to.image.planes[0].pitch);
    sluice_frame_inherit(&out, in);
    if (hash_of(from.data, from.nbytes) != before || (said && strtoull(said, NULL, 16) != before))
        filter->torn++;
    write_meta(filter, &out, meta, &to, latency);
    return sluice_writer_commit(filter->writer, &out, SLUICE_ON_CPU) ? fail("commit") : 0;
}

static int run(struct filter *filter)
{
    struct sluice_frame frame;
    int failed = 0;
    while (!stop && !failed) {
        int result = sluice_reader_acquire(filter->reader, SLUICE_ON_CPU, 100 * SLUICE_MS, &frame);
        if (result == SLUICE_OK) {
            struct sluice_reader_stats stats = { .size = sizeof stats };
            sluice_reader_stats(filter->reader, &stats);
            failed = pass(filter, &frame, (int64_t)stats.latency_ns);
            sluice_reader_release(filter->reader, &frame, SLUICE_ON_CPU);
        } else if (result == SLUICE_CLOSED) {
            /* It returns this at once until a new writer starts. */
            thrd_sleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        } else if (result < 0 && result != SLUICE_E_LOST) {
            failed = fail("acquire");
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct filter filter = { 0 };
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    if (argc != 3) {
        fprintf(stderr, "usage: filter IN OUT\n");
        return 2;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    params.name = argv[1];
    params.open_timeout_ns = SLUICE_LATER; /* the writer may start later */
    filter.out_name = argv[2];
    if (sluice_reader_open(&filter.reader, &params))
        return fail(argv[1]);
    int failed = run(&filter);
    sluice_writer_close(&filter.writer);
    sluice_reader_close(&filter.reader);
    free(filter.luma);
    return failed;
}
