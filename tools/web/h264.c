/* SPDX-License-Identifier: MIT
 *
 * Packets come as NUT, which says how long each is, so that none waits for the start of the next one.
 */
#include "h264.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <turbojpeg.h>

#include "../common/term.h"
#include "../media/media.h"
#include "jpeg.h"

#define PACKET_MAX  (16u << 20)
#define PUSH_TIME   SLUICE_S
#define CLOSE_TIME  (SLUICE_S / 2)
#define WORKS_TIME  (10 * SLUICE_S)
#define KEY_EVERY   "30" /* frames */
#define COLOUR_NAME "smpte170m"

/* ---- what comes out ---- */

static size_t read_child(void *from, void *to, size_t size)
{
    int fd = *(int *)from;
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, (char *)to + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

/* True if the packet, which is a byte stream of NAL units, has a picture that needs no other. */
static bool is_key(const uint8_t *packet, size_t size)
{
    for (size_t i = 0; i + 3 < size; i++)
        if (packet[i] == 0 && packet[i + 1] == 0 && packet[i + 2] == 1 && (packet[i + 3] & 31) == 5)
            return true;
    return false;
}

static void *read_packets(void *context)
{
    struct web_h264 *h264 = context;
    struct nut_reader nut = { .read = read_child, .from = &h264->child.out };
    enum nut_result result = nut_open(&nut);
    while (result == NUT_OK && (result = nut_next(&nut)) == NUT_OK && nut.left <= PACKET_MAX) {
        size_t size = (size_t)nut.left;
        struct web_part *part = web_part_new(size + 5);
        if (!part)
            break;
        if (!nut_read(&nut, part->bytes + 5, size)) {
            web_part_drop(part);
            break;
        }
        for (int i = 0; i < 4; i++)
            part->bytes[i] = (uint8_t)(size >> (24 - 8 * i));
        part->key = is_key(part->bytes + 5, size);
        part->bytes[4] = part->key;
        web_stream_publish(h264->stream, part);
    }
    atomic_store(&h264->ended, true);
    return NULL;
}

/* ---- ffmpeg ---- */

static void add_encoder(struct child_args *args, const char *encoder)
{
    child_add(args, "-c:v", encoder, "-g", KEY_EVERY, "-bf", "0", NULL);
    if (strcmp(encoder, "libx264") == 0)
        child_add(args, "-preset", "ultrafast", "-tune", "zerolatency", "-crf", "24", NULL);
    else if (strstr(encoder, "nvenc"))
        child_add(args, "-preset", "p1", "-tune", "ull", "-zerolatency", "1", "-delay", "0", NULL);
}

bool web_h264_works(const char *encoder)
{
    struct child_args args = { 0 };
    struct child child = { 0 };
    child_add(&args, media_ffmpeg(), "-nostdin", "-v", "error", "-f", "lavfi", "-i", "color=size=256x256", "-frames:v",
              "1", "-pix_fmt", "yuv420p", NULL);
    add_encoder(&args, encoder);
    child_add(&args, "-f", "null", "-", NULL);
    if (child_start(&child, args.list, CHILD_STDERR | CHILD_KILL))
        return false;
    return child_finish(&child, WORKS_TIME);
}

static int start_child(struct web_h264 *h264)
{
    struct child_args args = { 0 };
    char size[32];
    snprintf(size, sizeof size, "%ux%u", h264->width, h264->height);
    child_add(&args, media_ffmpeg(), "-nostats", "-hide_banner", "-v", "error", "-probesize", "32", "-analyzeduration",
              "0", "-fflags", "nobuffer", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-color_range", "pc", "-s", size,
              "-r", "30", NULL);
    child_add(&args, "-i", "pipe:0", "-fps_mode", "passthrough", NULL);
    add_encoder(&args, h264->encoder);
    child_add(&args, "-pix_fmt", "yuv420p", "-color_range", "pc", "-colorspace", COLOUR_NAME, "-color_primaries",
              "bt709", "-color_trc", "iec61966-2-1", "-bsf:v", "dump_extra=freq=keyframe", "-flush_packets", "1", NULL);
    child_add(&args, "-write_index", "0", "-f", "nut", "pipe:1", NULL);
    return child_start(&h264->child, args.list, CHILD_READ | CHILD_WRITE | CHILD_STDERR | CHILD_KILL);
}

static bool start(struct web_h264 *h264)
{
    int error = start_child(h264);
    if (error) {
        media_say_start_error("web", media_ffmpeg(), error);
        return false;
    }
    fcntl(h264->child.in, F_SETFL, O_NONBLOCK);
    fcntl(h264->child.in, F_SETPIPE_SZ, 1 << 20);
    atomic_store(&h264->ended, false);
    if (pthread_create(&h264->thread, NULL, read_packets, h264) != 0) {
        child_kill(&h264->child);
        return false;
    }
    h264->running = true;
    return true;
}

/* Ends ffmpeg and the thread that reads from it. */
static void stop(struct web_h264 *h264)
{
    if (!h264->running)
        return;
    close(h264->child.in);
    h264->child.in = -1;
    kill(h264->child.pid, SIGKILL); /* what it has not written yet is of no use */
    pthread_join(h264->thread, NULL);
    child_finish(&h264->child, CLOSE_TIME);
    h264->child = (struct child){ 0 };
    h264->running = false;
}

/* ---- what goes in ---- */

bool web_h264_take(struct web_h264 *h264, const struct sluice_array *image)
{
    const struct sluice_plane *plane = &image->image.planes[0];
    uint32_t width = image->image.width & ~1u, height = image->image.height & ~1u;
    if (width < 16 || height < 16)
        return false;
    if (!h264->converter && !(h264->converter = tjInitCompress()))
        return false;
    if (width != h264->width || height != h264->height) {
        stop(h264);
        free(h264->planes);
        h264->width = width;
        h264->height = height;
        h264->size = (size_t)width * height * 3 / 2;
        h264->planes = malloc(h264->size);
    }
    if (!h264->planes)
        return false;
    size_t luma = (size_t)width * height;
    unsigned char *planes[3] = { h264->planes, h264->planes + luma, h264->planes + luma + luma / 4 };
    int format = web_jpeg_pixels(image->image.pixel_format);
    bool gray = format == TJPF_GRAY;
    if (gray)
        memset(planes[1], 128, luma / 2);
    int flags = image->image.row_order == SLUICE_BOTTOM_UP ? TJFLAG_BOTTOMUP : 0;
    h264->filled = tjEncodeYUVPlanes(h264->converter, (const unsigned char *)image->data + plane->offset, (int)width,
                                     (int)plane->pitch, (int)height, format, planes, NULL,
                                     gray ? TJSAMP_GRAY : TJSAMP_420, flags) == 0;
    return h264->filled;
}

static bool write_planes(struct web_h264 *h264)
{
    int64_t until = now_ns() + PUSH_TIME;
    for (size_t done = 0; done < h264->size;) {
        struct pollfd in = { .fd = h264->child.in, .events = POLLOUT };
        if (poll(&in, 1, 100) > 0) {
            ssize_t put = write(in.fd, h264->planes + done, h264->size - done);
            if (put < 0 && errno != EAGAIN && errno != EINTR)
                return false;
            done += put > 0 ? (size_t)put : 0;
        }
        if (now_ns() > until)
            return false;
    }
    return true;
}

bool web_h264_push(struct web_h264 *h264)
{
    if (!h264->filled)
        return true;
    h264->filled = false;
    if (h264->running && atomic_load(&h264->ended))
        stop(h264);
    if (!h264->running && !start(h264))
        return false;
    if (write_planes(h264))
        return true;
    stop(h264);
    return false;
}

void web_h264_close(struct web_h264 *h264)
{
    stop(h264);
    if (h264->converter)
        tjDestroy(h264->converter);
    free(h264->planes);
    *h264 = (struct web_h264){ .size = 0 };
}
