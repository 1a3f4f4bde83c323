/* SPDX-License-Identifier: MIT */
#include "fake/cipd_kit.h"

#include <stdio.h>
#include <unistd.h>

#include "harness/test.h"

static char name[64];

void cipd_set_name(const char *channel)
{
    snprintf(name, sizeof name, "%s", channel);
}

const char *cipd_channel(void)
{
    if (!name[0])
        snprintf(name, sizeof name, "cipd:sluice-test- fake %d", (int)getpid());
    return name;
}

struct sluice_format cipd_format(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 3,
                                      (int64_t[]){ 8, 16, 4 }));
    CHECK_OK(sluice_format_complete(&format));
    return format;
}

int cipd_open_writer_so(sluice_writer **writer, const struct sluice_format *format, bool block, bool graph)
{
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;

    cipd.barrier = SLUICE_CIPD_OFF;
    cipd.block = block;
    cipd.close_grace_ns = -1;
    params.name = cipd_channel();
    params.device = "cuda:0";
    params.format = format;
    params.slots = 2;
    params.wait_ns = 20 * SLUICE_S; /* however long the machine is suspended */
    cipd.graph = graph ? SLUICE_CIPD_ON : SLUICE_CIPD_OFF;
    params.cipd = &cipd;
    return sluice_writer_open(writer, &params);
}

int cipd_open_writer(sluice_writer **writer, const struct sluice_format *format, bool block)
{
    return cipd_open_writer_so(writer, format, block, true);
}

int cipd_open_reader(sluice_reader **reader, bool copy, int64_t timeout_ns)
{
    struct sluice_cipd_reader_params cipd = SLUICE_CIPD_READER_PARAMS_INIT;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    cipd.copy = copy;
    cipd.wait_ns = 20 * SLUICE_S;
    params.name = cipd_channel();
    params.device = "cuda:0";
    params.open_timeout_ns = timeout_ns;
    params.cipd = &cipd;
    return sluice_reader_open(reader, &params);
}
