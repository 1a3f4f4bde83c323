/* SPDX-License-Identifier: MIT
 *
 * Reads frames that a player publishes.
 */
#include "see.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct program player;
struct seen seen;

void ffmpeg(const char *format, ...)
{
    char line[2000], command[2600];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    snprintf(command, sizeof command, "cd '%s' && ffmpeg -nostdin -v error -y %s", test_dir(), line);
    if (system(command) != 0)
        FAIL("failed: %s", command);
}

static void see_frame(const struct sluice_frame *frame)
{
    struct sluice_array image;
    unsigned i = seen.count++;
    CHECK_LE(seen.count, FRAMES_MAX);
    CHECK_OK(sluice_frame_array(frame, "image", &image));
    seen.image = image.image;
    size_t bytes = image.nbytes < 4 ? image.nbytes : 4;
    memcpy(seen.pixel[i], image.data, bytes);
    CHECK_LE(frame->meta_size, sizeof seen.meta - 1);
    memcpy(seen.meta, frame->meta, frame->meta_size);
    seen.meta[frame->meta_size] = 0;
    CHECK_EQ(sscanf(seen.meta, "{\"pts_ns\":%ld", &seen.pts_ns[i]), 1);
    if (i == 0) {
        seen.data = malloc(image.nbytes);
        memcpy(seen.data, image.data, image.nbytes);
    }
}

const char *player_said(void)
{
    static char text[sizeof player.err];
    size_t used = 0;
    for (const char *line = player.err; *line; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n") + 1;
        if (!memmem(line, length, "still waiting", 13)) {
            memcpy(text + used, line, length);
            used += length;
        }
    }
    text[used] = 0;
    return text;
}

void see_all(void)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;
    int r;
    free(seen.data);
    seen = (struct seen){ .count = 0 };
    params.name = "camera";
    params.mode = SLUICE_IN_ORDER;
    params.open_timeout_ns = 30 * SLUICE_S;
    if (sluice_reader_open(&reader, &params) != SLUICE_OK)
        FAIL("%s; the player says: %s", sluice_last_error(), player.pid ? program_so_far(&player, "err") : "");
    for (;;) {
        struct sluice_frame frame;
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame);
        if (r != SLUICE_OK)
            break;
        see_frame(&frame);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_EQ(r, SLUICE_CLOSED);
    CHECK_OK(sluice_reader_close(&reader));
}
