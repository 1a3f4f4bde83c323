/* SPDX-License-Identifier: MIT */
#include "storm/frame_io.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/kit.h"
#include "harness/test.h"

#define FRAME_BYTES (MAX_ROWS * ROW_BYTES + ROW_BYTES) /* the rows, and the tag */
#define SLOTS       128                                /* the highest slot number */
#define MAX_DELAY   (SLUICE_MS / 2)

static struct sluice_device device;

const char *frame_io_device(void)
{
    const char *name = getenv("SLUICE_STORM_DEVICE");
    return name && *name ? name : "host";
}

bool frame_io_is_gpu(void)
{
    return strcmp(frame_io_device(), "host") != 0;
}

bool frame_io_is_slow(void)
{
    return frame_io_is_gpu() && !gpu_is_fake();
}

/* A real driver has a thread of its own, and keeps it: the test's process starts it before the harness counts. */
__attribute__((constructor)) static void start_driver(void)
{
    if (frame_io_is_gpu() && gpu_load() && !gpu_is_fake())
        cu.Init(0);
}

void frame_io_require(void)
{
    if (frame_io_is_gpu())
        gpu_begin();
}

void frame_io_open_device(void)
{
    if (!frame_io_is_gpu())
        return;
    gpu_begin();
    gpu_use(0);
    CHECK_OK(sluice_device_open(&device, frame_io_device()));
    gpu_spin(NULL, 0); /* loads the kernels */
    CU(StreamSynchronize, NULL);
}

void frame_io_close_device(void)
{
    if (!frame_io_is_gpu())
        return;
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

void frame_io_use_device(void)
{
    if (frame_io_is_gpu())
        gpu_use(0);
}

void frame_io_open(struct frame_io *io, uint64_t *random)
{
    *io = (struct frame_io){ .stream = SLUICE_ON_CPU, .random = random };
    if (!frame_io_is_gpu())
        return;
    CHECK_OK(sluice_stream_create(device, NULL, &io->stream));
    CU(MemHostAlloc, (void **)&io->out, SLOTS * FRAME_BYTES, 0);
    CU(MemHostAlloc, (void **)&io->in, FRAME_BYTES, 0);
}

void frame_io_close(struct frame_io *io)
{
    if (!io->out)
        return;
    CHECK_OK(sluice_stream_synchronize(io->stream));
    CU(MemFreeHost, io->out);
    CU(MemFreeHost, io->in);
    CHECK_OK(sluice_stream_destroy(&io->stream));
}

/* Now and then the GPU is slow. */
static void random_delay(struct frame_io *io)
{
    *io->random ^= *io->random << 13;
    *io->random ^= *io->random >> 7;
    *io->random ^= *io->random << 17;
    if (*io->random % 4 == 0)
        gpu_spin(gpu_native(io->stream), (int64_t)((*io->random >> 8) % MAX_DELAY));
}

/* In two halves. */
static void copy_out(struct frame_io *io, void *to, const char *from, size_t size)
{
    size_t half = size / 2;

    CU(MemcpyHtoDAsync, (uintptr_t)to, from, half, gpu_native(io->stream));
    random_delay(io);
    CU(MemcpyHtoDAsync, (uintptr_t)to + half, from + half, size - half, gpu_native(io->stream));
}

void frame_io_fill(struct frame_io *io, struct sluice_frame *frame, const struct label *label, bool meta)
{
    struct content content;
    struct label filled = *label;

    content_shape(frame, label, meta, &content);
    if (!frame_io_is_gpu()) {
        content_fill_rows(content.rows, content.tag, &filled);
        return;
    }
    /* begin gives no slot whose last work has not ended, so that copy is not in use either. */
    char *mine = io->out + (size_t)frame->slot * FRAME_BYTES;
    CHECK_LE(content.bytes, MAX_ROWS * ROW_BYTES);
    uint64_t *tag = (uint64_t *)(mine + MAX_ROWS * ROW_BYTES);
    content_fill_rows(mine, tag, &filled);
    random_delay(io);
    copy_out(io, content.rows, mine, content.bytes);
    copy_out(io, content.tag, (char *)tag, TAG_WORDS * 8);
    random_delay(io);
}

void frame_io_call_after(struct frame_io *io, void (*function)(void *data), void *data)
{
    if (frame_io_is_gpu())
        CU(LaunchHostFunc, gpu_native(io->stream), function, data);
    else
        function(data);
}

void frame_io_begin_check(struct frame_io *io, const struct sluice_frame *frame, struct content *content)
{
    content_find(frame, content);
    if (!frame_io_is_gpu() || content->wrong)
        return;
    char *tag = io->in + MAX_ROWS * ROW_BYTES;
    random_delay(io);
    if (content->bytes > MAX_ROWS * ROW_BYTES)
        content->bytes = MAX_ROWS * ROW_BYTES;
    CU(MemcpyDtoHAsync, io->in, (uintptr_t)content->rows, content->bytes, gpu_native(io->stream));
    CU(MemcpyDtoHAsync, tag, (uintptr_t)content->tag, TAG_WORDS * 8, gpu_native(io->stream));
    content->rows = io->in;
    content->tag = (uint64_t *)tag;
}

bool frame_io_check(struct frame_io *io, const struct sluice_frame *frame, const struct content *content,
                    struct label *label, char *why, unsigned size)
{
    if (frame_io_is_gpu())
        CHECK_OK(sluice_stream_synchronize(io->stream));
    return content_check(frame, content, label, why, size);
}
