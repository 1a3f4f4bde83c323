/* SPDX-License-Identifier: MIT
 *
 * H.264, by ffmpeg as a child process: raw pictures go in, packets come out on a thread of their own.
 */
#ifndef TOOLS_WEB_H264_H
#define TOOLS_WEB_H264_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "../common/child.h"
#include "stream.h"

/* Initialise with zeros, and the two first members. */
struct web_h264 {
    const char *encoder; /* ffmpeg's name */
    struct web_stream *stream;
    struct child child;
    pthread_t thread;
    bool running;
    atomic_bool ended; /* ffmpeg closed its output */
    uint32_t width, height;
    void *converter;
    unsigned char *planes; /* YUV 4:2:0 of the next picture */
    size_t size;
    bool filled;
};

/* True if this machine's ffmpeg encodes a picture with it. */
bool web_h264_works(const char *encoder);

/* Converts a picture, of even sizes, to YUV. False if that is not possible. */
bool web_h264_take(struct web_h264 *h264, const struct sluice_array *image);

/* Gives the picture that was taken to ffmpeg, which is started first if need be. Its packets are published as parts:
 * four bytes with the length of the packet, the highest first, one byte that is 1 for a key frame, the packet. False
 * if ffmpeg cannot be started or takes nothing for a second. */
bool web_h264_push(struct web_h264 *h264);

void web_h264_close(struct web_h264 *h264);

#endif
