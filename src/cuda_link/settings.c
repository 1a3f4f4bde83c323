/* SPDX-License-Identifier: MIT
 *
 * cuda-link's environment variables, for programs and for display.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "cuda_link/wire/settings.h"
#include "util/params.h"
#include "util/result.h"

static uint32_t as_switch(bool on)
{
    return on ? SLUICE_CIPD_ON : SLUICE_CIPD_OFF;
}

#define HOLDS_END (offsetof(struct sluice_cipd_writer_params, holds_barrier) + sizeof(uint32_t))

/* Whether a writer holds the barrier is only set by its parameters, not by a variable. */
static uint32_t holds(const struct sluice_cipd_writer_params *writer, const struct sl_cipd_settings *settings)
{
    return writer && writer->size >= HOLDS_END && settings->barrier_hold ? writer->holds_barrier : 0;
}

int sl_cipd_environment(struct sluice_cipd_writer_params *writer, struct sluice_cipd_reader_params *reader)
{
    const struct sl_cipd_settings *settings = sl_cipd_settings();
    struct sluice_cipd_writer_params mine = SLUICE_CIPD_WRITER_PARAMS_INIT;
    struct sluice_cipd_reader_params other = SLUICE_CIPD_READER_PARAMS_INIT;
    int r = 0;

    mine.block = settings->export_sync;
    mine.graph = as_switch(settings->use_graphs);
    /* With a limit of 0 every timestamp would be stale, so the barrier would never be up. */
    mine.barrier = as_switch(settings->barrier_check && settings->barrier_stale_ns > 0);
    mine.holds_barrier = holds(writer, settings);
    mine.settle_frames = settings->barrier_settle ? settings->barrier_settle : UINT32_MAX;
    mine.strict_device = settings->strict_device;
    mine.priority = as_switch(settings->high_priority);
    mine.doorbell = SLUICE_CIPD_ON;
    mine.barrier_stale_ns = settings->barrier_stale_ns;
    other.reconnect = as_switch(settings->reconnect);
    other.ahead = as_switch(settings->gpu_wait);
    other.wait_spin_ns = settings->wait_spin_ns > 0 ? settings->wait_spin_ns : -1;
    if (writer)
        r = sl_params_store(writer, &mine, sizeof mine, offsetof(struct sluice_cipd_writer_params, graph),
                            "struct sluice_cipd_writer_params");
    if (r == 0 && reader)
        r = sl_params_store(reader, &other, sizeof other, offsetof(struct sluice_cipd_reader_params, pair),
                            "struct sluice_cipd_reader_params");
    return r;
}

static uint32_t used(enum sl_cipd_use use)
{
    switch (use) {
    case SL_CIPD_HONOURED: return SLUICE_CIPD_USED;
    case SL_CIPD_TOUCHDESIGNER: return SLUICE_CIPD_OTHERS;
    case SL_CIPD_IN_PYTHON: return SLUICE_CIPD_IN_PYTHON;
    default: return SLUICE_CIPD_UNUSED;
    }
}

void sl_cipd_list_variables(struct sluice_cipd_variable *variables, size_t capacity, size_t *number)
{
    size_t n = 0;

    for (const struct sl_cipd_variable *one = sl_cipd_variables; one->name; one++, n++) {
        if (n >= capacity)
            continue;
        const char *value = getenv(one->name);
        struct sluice_cipd_variable *to = &variables[n];
        memset(to, 0, sizeof *to);
        snprintf(to->name, sizeof to->name, "%s", one->name);
        snprintf(to->value, sizeof to->value, "%s", value ? value : "");
        snprintf(to->usual, sizeof to->usual, "%s", one->standard);
        snprintf(to->what, sizeof to->what, "%s", one->note);
        to->set = value != NULL;
        to->used = used(one->use);
        to->reading = value ? sl_cipd_reading(one, value) : SLUICE_CIPD_READ_AS_IT_IS;
        if (one->kind == SL_CIPD_NUMBER)
            snprintf(to->range, sizeof to->range, "%" PRId64 " to %" PRId64, one->least, one->most);
    }
    *number = n;
}
