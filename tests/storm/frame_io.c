/* SPDX-License-Identifier: MIT */
#include "storm/frame_io.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/kit.h"
#include "harness/test.h"

#define FRAME_BYTES (MAX_ROWS * ROW_BYTES + ROW_BYTES) /* the rows, and the tag */
#define SLOTS       128                                /* numbers that a slot can have */
#define DAWDLE      (SLUICE_MS / 2)

static struct sluice_device device;

const char *desk_device(void)
{
    const char *name = getenv("SLUICE_STORM_DEVICE");
    return name && *name ? name : "host";
}

bool desk_is_gpu(void)
{
    return strcmp(desk_device(), "host") != 0;
}

bool desk_is_slow(void)
{
    return desk_is_gpu() && !gpu_is_fake();
}

/* A real driver has a thread from its start on, and keeps it: in the test's process it is there before the harness
 * counts. */
__attribute__((constructor)) static void start_driver(void)
{
    if (desk_is_gpu() && gpu_load() && !gpu_is_fake())
        cu.Init(0);
}

void desk_look(void)
{
    if (desk_is_gpu())
        gpu_begin();
}

void desk_open_device(void)
{
    if (!desk_is_gpu())
        return;
    gpu_begin();
    gpu_use(0);
    CHECK_OK(sluice_device_open(&device, desk_device()));
    gpu_spin(NULL, 0); /* loads the kernels */
    CU(StreamSynchronize, NULL);
}

void desk_close_device(void)
{
    if (!desk_is_gpu())
        return;
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

void desk_use_device(void)
{
    if (desk_is_gpu())
        gpu_use(0);
}

void desk_open(struct desk *desk, uint64_t *random)
{
    *desk = (struct desk){ .stream = SLUICE_ON_CPU, .random = random };
    if (!desk_is_gpu())
        return;
    CHECK_OK(sluice_stream_create(device, NULL, &desk->stream));
    CU(MemHostAlloc, (void **)&desk->out, SLOTS * FRAME_BYTES, 0);
    CU(MemHostAlloc, (void **)&desk->in, FRAME_BYTES, 0);
}

void desk_close(struct desk *desk)
{
    if (!desk->out)
        return;
    CHECK_OK(sluice_stream_synchronize(desk->stream));
    CU(MemFreeHost, desk->out);
    CU(MemFreeHost, desk->in);
    CHECK_OK(sluice_stream_destroy(&desk->stream));
}

/* Every now and then the GPU is in no hurry. */
static void dawdle(struct desk *desk)
{
    *desk->random ^= *desk->random << 13;
    *desk->random ^= *desk->random >> 7;
    *desk->random ^= *desk->random << 17;
    if (*desk->random % 4 == 0)
        gpu_spin(gpu_native(desk->stream), (int64_t)((*desk->random >> 8) % DAWDLE));
}

/* In two halves. */
static void copy_out(struct desk *desk, void *to, const char *from, size_t size)
{
    size_t half = size / 2;

    CU(MemcpyHtoDAsync, (uintptr_t)to, from, half, gpu_native(desk->stream));
    dawdle(desk);
    CU(MemcpyHtoDAsync, (uintptr_t)to + half, from + half, size - half, gpu_native(desk->stream));
}

void desk_fill(struct desk *desk, struct sluice_frame *frame, const struct label *label, bool meta)
{
    struct content content;
    struct label filled = *label;

    content_shape(frame, label, meta, &content);
    if (!desk_is_gpu()) {
        content_fill_rows(content.rows, content.tag, &filled);
        return;
    }
    /* begin gives no slot whose last work has not ended, so neither is that copy in use. */
    char *mine = desk->out + (size_t)frame->slot * FRAME_BYTES;
    CHECK_LE(content.bytes, MAX_ROWS * ROW_BYTES);
    uint64_t *tag = (uint64_t *)(mine + MAX_ROWS * ROW_BYTES);
    content_fill_rows(mine, tag, &filled);
    dawdle(desk);
    copy_out(desk, content.rows, mine, content.bytes);
    copy_out(desk, content.tag, (char *)tag, TAG_WORDS * 8);
    dawdle(desk);
}

void desk_behind(struct desk *desk, void (*function)(void *data), void *data)
{
    if (desk_is_gpu())
        CU(LaunchHostFunc, gpu_native(desk->stream), function, data);
    else
        function(data);
}

void desk_look_at(struct desk *desk, const struct sluice_frame *frame, struct content *content)
{
    content_find(frame, content);
    if (!desk_is_gpu() || content->wrong)
        return;
    char *tag = desk->in + MAX_ROWS * ROW_BYTES;
    dawdle(desk);
    if (content->bytes > MAX_ROWS * ROW_BYTES)
        content->bytes = MAX_ROWS * ROW_BYTES;
    CU(MemcpyDtoHAsync, desk->in, (uintptr_t)content->rows, content->bytes, gpu_native(desk->stream));
    CU(MemcpyDtoHAsync, tag, (uintptr_t)content->tag, TAG_WORDS * 8, gpu_native(desk->stream));
    content->rows = desk->in;
    content->tag = (uint64_t *)tag;
}

bool desk_check(struct desk *desk, const struct sluice_frame *frame, const struct content *content,
                struct label *label, char *why, unsigned size)
{
    if (desk_is_gpu())
        CHECK_OK(sluice_stream_synchronize(desk->stream));
    return content_check(frame, content, label, why, size);
}
