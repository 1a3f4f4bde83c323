/* SPDX-License-Identifier: MIT
 *
 * The channel that is played into: opening it, and publishing frames on time.
 */
#include <inttypes.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/hash.h"
#include "../common/term.h"
#include "play.h"

int play_open(struct play *play, const struct sluice_format *format)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_cipd_writer_params cipd;
    params.name = play->channel;
    params.device = play->device;
    params.format = format;
    params.slots = play->slots;
    params.resize = 1; /* a played recording's frames may have their own sizes */
    params.policy = play->wait ? SLUICE_WAIT : SLUICE_DROP;
    int code = cipd_init_writer(play->command, &params, &cipd);
    if (code != EXIT_DONE)
        return code;
    cipd.strict_device = 0; /* the CPU makes the frames */
    int result = sluice_writer_open(&play->writer, &params);
    if (result == SLUICE_OK)
        result = upload_open(&play->upload, play->writer, play->device);
    if (result)
        return say_result(play->command, result, NULL);
    struct sluice_writer_stats stats = { .size = sizeof stats };
    while (play->readers && !stop_asked() && sluice_writer_stats(play->writer, &stats) == SLUICE_OK &&
           stats.readers < play->readers) {
        progress("waiting for %u readers of '%s', %u connected", play->readers, play->channel, stats.readers);
        sleep_until(now_ns() + 5 * SLUICE_MS);
    }
    return EXIT_DONE;
}

int play_begin(struct play *play, struct sluice_frame *frame)
{
    for (;;) {
        if (play->wait && !play->upload.on_gpu)
            wait_for_slot(play->writer);
        int result = upload_begin(&play->upload, frame);
        if (result != SLUICE_NO_SLOT)
            return result;
        if (!play->wait)
            play->dropped++;
        if (!play->wait || stop_asked())
            return result;
    }
}

void play_pace(struct play *play, int64_t due_ns)
{
    int64_t now = now_ns();
    if (play->start_ns == 0)
        play->start_ns = now - due_ns;
    if (play->fps == FPS_MAX)
        return;
    /* After a long pause (stopped, or waiting for a reader) continue from now instead of catching up. */
    if (now - (play->start_ns + due_ns) > SLUICE_S / 2)
        play->start_ns = now - due_ns;
    sleep_until(play->start_ns + due_ns);
}

int play_commit(struct play *play, struct sluice_frame *frame)
{
    int result;
    do {
        if (play->wait && play->upload.on_gpu)
            wait_for_slot(play->writer);
        result = upload_commit(&play->upload, frame);
    } while (result == SLUICE_NO_SLOT && play->wait && !stop_asked());
    if (result != SLUICE_OK && result != SLUICE_NO_SLOT)
        return say_result(play->command, result, NULL);
    play->committed += result == SLUICE_OK;
    play->dropped += result == SLUICE_NO_SLOT && !play->wait;
    if (!play->quiet)
        progress("playing '%s': %" PRIu64 " frames, %" PRIu64 " dropped", play->channel, play->committed,
                 play->dropped);
    return EXIT_DONE;
}

bool play_is_done(const struct play *play)
{
    return stop_asked() || (play->limit && play->committed + play->dropped >= play->limit);
}

uint64_t play_hash(struct play *play, const struct sluice_frame *frame)
{
    uint64_t hash = 0;
    struct sluice_array array;
    for (uint32_t i = 0; i < frame->array_count; i++)
        if (upload_array_at(&play->upload, frame, i, &array) == SLUICE_OK)
            hash = hash * 31 + hash_of(array.data, array.nbytes);
    return hash;
}
