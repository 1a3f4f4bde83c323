/* SPDX-License-Identifier: MIT
 *
 * Sluice: `send` copies; begin and commit make the frame in its slot. Every frame in order, as with
 * the other peers; the reader spins for the default 10 us before it sleeps.
 */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "peer.h"

#define WAIT (30 * SLUICE_S)

static const struct sluice_dtype bytes_type = { SLUICE_UINT, 8, 1 };
static sluice_writer *writer;
static sluice_reader *reader;
static struct sluice_frame frame;
static struct sluice_array array;
static int64_t shape[1];

static void check(int result)
{
    if (result != 0)
        die("%s", sluice_last_error());
}

static void use_this_folder(void)
{
    char folder[PATH_MAX];
    if (!getcwd(folder, sizeof folder) || setenv("SLUICE_DIR", folder, 1) != 0)
        die_errno("getcwd");
}

static void writer_open(size_t bytes)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    use_this_folder();
    shape[0] = (int64_t)bytes;
    check(sluice_format_add_tensor(&format, "bytes", bytes_type, 1, shape));
    params.name = "bench";
    params.format = &format;
    params.slots = params.max_slots = SLOTS;
    params.policy = SLUICE_WAIT;
    params.wait_ns = WAIT;
    check(sluice_writer_open(&writer, &params));
}

static void reader_open(size_t bytes)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    (void)bytes;
    use_this_folder();
    params.name = "bench";
    params.mode = SLUICE_IN_ORDER;
    check(sluice_reader_open(&reader, &params));
}

static void *loan(void)
{
    check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
    check(sluice_frame_array(&frame, NULL, &array));
    return array.data;
}

static void send_frame(const void *own)
{
    if (!own) {
        check(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
        return;
    }
    check(sluice_array_wrap(&array, "bytes", (void *)(uintptr_t)own, bytes_type, 1, shape, NULL));
    check(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
}

static const void *receive_frame(void)
{
    check(sluice_reader_acquire(reader, SLUICE_ON_CPU, WAIT, &frame));
    check(sluice_frame_array(&frame, NULL, &array));
    return array.data;
}

static void release_frame(void)
{
    check(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

static void writer_close(void)
{
    sluice_writer_close(&writer);
}

static void reader_close(void)
{
    sluice_reader_close(&reader);
}

const struct peer peer = {
    .in_place = true,
    .writer_open = writer_open,
    .loan = loan,
    .send = send_frame,
    .writer_close = writer_close,
    .reader_open = reader_open,
    .receive = receive_frame,
    .release = release_frame,
    .reader_close = reader_close,
};
