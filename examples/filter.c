/* SPDX-License-Identifier: MIT
 *
 * A program in the middle: takes frames of one channel, finds the edges in them, and publishes the
 * result in another. The edges are written straight into the slot that readers will see; nothing is
 * copied. Writers and readers on either side may be killed and come back.
 *
 *     filter IN OUT
 *
 * It also checks that each frame is whole: the pixels must be the same at the end of the lease as
 * at its beginning, and if the metadata names a hash ("hash":"..."), they must have that.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include <sluice/sluice.h>

struct filter {
    const char *out_name;
    sluice_reader *reader;
    sluice_writer *writer;
    uint32_t width, height;
    uint8_t *luma; /* three rows, used in turn */
    uint64_t torn;
};

static volatile sig_atomic_t stop;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

static int fail(const char *what)
{
    fprintf(stderr, "filter: %s: %s\n", what, sluice_last_error());
    return 1;
}

static uint64_t step(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return lane << 29 | lane >> 35;
}

/* The 64-bit hash of docs/recording.md. */
static uint64_t hash_of(const void *data, size_t size)
{
    uint64_t lane[4], word[4], hash = size;
    for (uint64_t i = 0; i < 4; i++)
        lane[i] = UINT64_C(0x9E3779B97F4A7C15) * (i + 1);
    for (size_t at = 0; at < size; at += 32) {
        memset(word, 0, sizeof word);
        memcpy(word, (const uint8_t *)data + at, size - at < 32 ? size - at : 32);
        for (int i = 0; i < 4; i++)
            lane[i] = step(lane[i], word[i]);
    }
    for (int i = 0; i < 4; i++) {
        hash = (hash ^ lane[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return hash;
}

static void luma_row(const struct filter *filter, const struct sluice_array *image, uint32_t y)
{
    const uint8_t *pixel = (const uint8_t *)image->data + y * image->image.planes[0].pitch;
    uint8_t *luma = filter->luma + (size_t)(y % 3) * filter->width;
    for (uint32_t x = 0; x < filter->width; x++, pixel += 4)
        luma[x] = (uint8_t)((pixel[0] * 54 + pixel[1] * 183 + pixel[2] * 19) >> 8);
}

/* Sobel: the steeper the brightness, the brighter the pixel; a little of the colours stays. */
static void edges(const struct filter *filter, const struct sluice_array *in,
                  struct sluice_array *out)
{
    uint32_t w = filter->width, h = filter->height;
    luma_row(filter, in, 0);
    for (uint32_t y = 0; y < h; y++) {
        if (y + 1 < h)
            luma_row(filter, in, y + 1);
        const uint8_t *above = filter->luma + (size_t)((y ? y - 1 : 0) % 3) * w;
        const uint8_t *here = filter->luma + (size_t)(y % 3) * w;
        const uint8_t *below = filter->luma + (size_t)((y + 1 < h ? y + 1 : y) % 3) * w;
        const uint8_t *from = (const uint8_t *)in->data + y * in->image.planes[0].pitch;
        uint8_t *to = (uint8_t *)out->data + y * out->image.planes[0].pitch;
        for (uint32_t x = 0; x < w; x++) {
            uint32_t l = x ? x - 1 : 0, r = x + 1 < w ? x + 1 : x;
            int across = above[r] + 2 * here[r] + below[r] - above[l] - 2 * here[l] - below[l];
            int down = below[l] + 2 * below[x] + below[r] - above[l] - 2 * above[x] - above[r];
            int edge = abs(across) + abs(down);
            for (int c = 0; c < 3; c++) {
                int value = edge + from[4 * x + c] / 4;
                to[4 * x + c] = (uint8_t)(value < 255 ? value : 255);
            }
            to[4 * x + 3] = 255;
        }
    }
}

/* The channel out is opened with the first frame, and reshaped when the size changes. */
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

/* What stands behind "key": in the metadata, which is JSON made by `sluice play`. */
static const char *find_key(const char *meta, const char *key)
{
    const char *at = strstr(meta, key);
    return at ? at + strlen(key) : NULL;
}

static void write_meta(struct filter *filter, struct sluice_frame *frame, const char *in_meta,
                       const struct sluice_array *out, int64_t latency)
{
    const char *index = find_key(in_meta, "\"index\":");
    frame->meta_size = (uint32_t)snprintf(frame->meta, SLUICE_MAX_META,
                                          "{\"index\":%llu,\"hash\":\"%016" PRIx64
                                          "\",\"torn\":%" PRIu64 ",\"latency_ns\":%" PRId64 "}",
                                          index ? strtoull(index, NULL, 10) : 0,
                                          hash_of(out->data, out->nbytes), filter->torn, latency);
}

/* One frame from IN to OUT. Returns 0, or 1 for a failure that was said. */
static int pass(struct filter *filter, const struct sluice_frame *in, int64_t latency)
{
    struct sluice_frame out;
    struct sluice_array from, to;
    char meta[SLUICE_MAX_META + 1];
    if (sluice_frame_array(in, NULL, &from))
        return fail("frame");
    if (from.image.pixel_format != SLUICE_PIXEL_RGBA) {
        fprintf(stderr, "filter: it takes rgba, not %s\n",
                sluice_pixel_format_name(from.image.pixel_format));
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
    edges(filter, &from, &to);
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
            /* It says so at once, again and again until a new writer comes. */
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
    params.open_timeout_ns = SLUICE_LATER; /* the writer may come later */
    filter.out_name = argv[2];
    if (sluice_reader_open(&filter.reader, &params))
        return fail(argv[1]);
    int failed = run(&filter);
    sluice_writer_close(&filter.writer);
    sluice_reader_close(&filter.reader);
    free(filter.luma);
    return failed;
}
