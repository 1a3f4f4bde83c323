/* SPDX-License-Identifier: MIT
 *
 * Frames at full rate for a long time: the memory and descriptors of all processes early on and at the
 * end. Every other reader waits on its GPU.
 */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "channel.h"

enum { MEMORY_EARLY, MEMORY_LATE, FDS_EARLY, FDS_LATE, FRAMES, LANE_VALUES };
#define POINTS 4000 /* samples over the whole time */

static struct sluice_frame frame;

static int64_t resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        die("/proc/self/statm does not have the resident memory");
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static int64_t descriptors(void)
{
    int64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        die("/proc/self/fd cannot be read");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static int64_t gpu_free(void)
{
    size_t left, total;
    CU(MemGetInfo, &left, &total);
    return (int64_t)left;
}

static void note(int index, bool late)
{
    stage->lanes[index].values[late ? MEMORY_LATE : MEMORY_EARLY] = resident();
    stage->lanes[index].values[late ? FDS_LATE : FDS_EARLY] = descriptors();
}

static int64_t write_for(int64_t until)
{
    int64_t frames = 0, point = clock_ns(), in_point = 0;
    const int64_t every = job->ns / POINTS;
    for (int64_t now = point; now < until; now = clock_ns()) {
        check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame), "begin");
        check(sluice_writer_commit(writer, &frame, stream), "commit");
        frames++;
        in_point++;
        if (now - point >= every) {
            sample("frame", (now - point) / in_point);
            point = now;
            in_point = 0;
        }
    }
    return frames;
}

/* Everything that is allocated once exists after a tenth of the time. */
static void write_frames(void)
{
    int64_t start = clock_ns();
    int64_t frames = write_for(start + job->ns / 10);
    note(0, false);
    int64_t gpu_early = gpu_free();
    atomic_store(&stage->lanes[0].ready, 1);
    frames += write_for(start + job->ns);
    note(0, true);
    int64_t gpu_late = gpu_free();
    atomic_store(&stage->last, 1);
    value("frames", frames);
    value("gpu_memory_growth_bytes", gpu_early - gpu_late);
}

static void read_frames(int index)
{
    struct lane *lane = &stage->lanes[index];
    bool noted = false;
    while (!atomic_load(&stage->last)) {
        int result = sluice_reader_acquire(reader, stream, 50 * SLUICE_MS, &frame);
        if (result == SLUICE_OK) {
            check(sluice_reader_release(reader, &frame, stream), "release");
            lane->values[FRAMES]++;
        } else if (result != SLUICE_TIMEOUT && result != SLUICE_AGAIN) {
            check(result, "acquire");
        }
        if (!noted && atomic_load(&stage->lanes[0].ready)) {
            note(index, false);
            noted = true;
        }
    }
    CU(StreamSynchronize, native);
    note(index, true);
}

static int64_t largest(int early, int late)
{
    int64_t most = INT64_MIN;
    for (int i = 0; i < stage->actors; i++) {
        int64_t grown = stage->lanes[i].values[late] - stage->lanes[i].values[early];
        most = grown > most ? grown : most;
    }
    return most;
}

void sluice_soak(int index)
{
    _Static_assert(LANE_VALUES <= VALUES, "a lane has enough values");
    if (index == 0)
        channel_write(CHANNEL_SLOTS + (uint32_t)job->readers);
    else
        channel_read(1, index % 2 == 0);
    meet();
    if (index == 0)
        write_frames();
    else
        read_frames(index);
    meet();
    if (index == 0) {
        value("memory_growth_bytes", largest(MEMORY_EARLY, MEMORY_LATE));
        value("fd_growth", largest(FDS_EARLY, FDS_LATE));
        for (int i = 1; i < stage->actors && i < 4; i++)
            value(i == 1 ? "taken" : i == 2 ? "taken_ahead" : "taken_more", stage->lanes[i].values[FRAMES]);
    }
    channel_close();
}
