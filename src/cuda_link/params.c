/* SPDX-License-Identifier: MIT
 *
 * Which parameters a "cipd:" channel honours, and the errors for those that it cannot.
 */
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "util/params.h"
#include "util/result.h"

#define DEFAULT_SLOTS      3
#define DEFAULT_GRACE      (100 * SLUICE_MS)
#define DEFAULT_SPIN       (200 * INT64_C(1000))
#define DEFAULT_READY      (5 * SLUICE_S)
#define DEFAULT_STALL      (2 * SLUICE_S)
#define DEFAULT_FRAME_SPIN (10 * INT64_C(1000))
#define DEFAULT_AHEAD      (2 * SLUICE_S)
#define OWN_FLAGS          (SL_CIPD_FLAG_BFLOAT16 | SL_CIPD_FLAG_MONO_ALPHA | SL_CIPD_FLAG_BGRA)
#define LEAST_WRITER       offsetof(struct sluice_cipd_writer_params, graph)
#define LEAST_READER       offsetof(struct sluice_cipd_reader_params, pair)

static int refuse(const char *name, const char *what, const char *why)
{
    return sl_fail(SLUICE_E_UNSUPPORTED, "channel 'cipd:%s': %s has no meaning here, leave it 0: %s", name, what, why);
}

/* ---- the writer's ---- */

static int check_promises(const char *name, const struct sluice_writer_params *params)
{
    if (params->policy != SLUICE_DROP)
        return refuse(name, "a policy other than SLUICE_DROP", "the writer knows no readers that it could wait for");
    if (params->max_slots && params->max_slots != params->slots)
        return refuse(name, "max_slots", "the number of slots is fixed; sluice_cipd_set_slots changes it");
    if (params->lease_timeout_ns)
        return refuse(name, "lease_timeout_ns", "there are no leases");
    if (params->readers)
        return refuse(name, "readers", "they are not counted");
    if (params->writable)
        return refuse(name, "writable", "nothing keeps readers from writing as it is");
    if (params->uid_count || params->gid_count)
        return refuse(name, "a list of users or groups", "the segment is open to this user alone");
    return 0;
}

static int check_switch(const char *name, const char *what, uint32_t value)
{
    if (value <= SLUICE_CIPD_OFF)
        return 0;
    return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': %s is 0 (as usual), 1 (on) or 2 (off), not %u", name, what,
                   value);
}

static int check_writer(const char *name, const struct sluice_cipd_writer_params *cipd)
{
    int r;

    if (cipd->block > 1 || cipd->mono_alpha > 1 || cipd->holds_barrier > 1 || cipd->strict_device > 1)
        return sl_fail(SLUICE_E_INVALID,
                       "channel 'cipd:%s': block, mono_alpha, holds_barrier and strict_device are 0 or 1", name);
    if (cipd->order > SLUICE_CIPD_BGRA)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': %u is no order of four uint8", name, cipd->order);
    if (cipd->flags > UINT16_MAX || cipd->flags & OWN_FLAGS)
        return sl_fail(
            SLUICE_E_INVALID,
            "channel 'cipd:%s': flags 0x%x: they have 16 bits, and the lowest three follow from the format, order "
            "and mono_alpha",
            name, cipd->flags);
    if (cipd->barrier_stale_ns < 0 || cipd->close_grace_ns < -1)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': a time may not be negative", name);
    if ((r = check_switch(name, "graph", cipd->graph)) != 0 ||
        (r = check_switch(name, "barrier", cipd->barrier)) != 0 ||
        (r = check_switch(name, "priority", cipd->priority)) != 0)
        return r;
    return check_switch(name, "doorbell", cipd->doorbell);
}

int sl_cipd_writer_params(const char *name, const struct sluice_writer_params *params,
                          struct sluice_cipd_writer_params *cipd, uint32_t *slots)
{
    int r = check_promises(name, params);

    if (r != 0)
        return r;
    memset(cipd, 0, sizeof *cipd);
    if (params->cipd &&
        (r = sl_params_load(cipd, sizeof *cipd, LEAST_WRITER, params->cipd, "struct sluice_cipd_writer_params")) != 0)
        return r;
    if ((r = check_writer(name, cipd)) != 0)
        return r;
    *slots = params->slots ? params->slots : DEFAULT_SLOTS;
    if (*slots > SLUICE_CIPD_MAX_SLOTS)
        return sl_fail(SLUICE_E_LIMIT, "channel 'cipd:%s': %u slots, the protocol has 1 to %d", name, *slots,
                       SLUICE_CIPD_MAX_SLOTS);
    if (params->wait_ns < 0 || params->no_graphs > 1 || params->resize > 1)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': wait_ns is 0 or more, no_graphs and resize are 0 or 1",
                       name);
    if (!params->format)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': no format was given", name);
    if (cipd->graph == SLUICE_CIPD_USUAL)
        cipd->graph = params->no_graphs ? SLUICE_CIPD_OFF : SLUICE_CIPD_ON;
    if (cipd->settle_frames == 0)
        cipd->settle_frames = SL_CIPD_BARRIER_SETTLE;
    if (cipd->barrier_stale_ns == 0)
        cipd->barrier_stale_ns = SL_CIPD_BARRIER_STALE;
    cipd->close_grace_ns = cipd->close_grace_ns < 0 ? 0 : cipd->close_grace_ns ? cipd->close_grace_ns : DEFAULT_GRACE;
    return 0;
}

/* ---- the reader's ---- */

static int check_reader(const char *name, const struct sluice_reader_params *params,
                        const struct sluice_cipd_reader_params *cipd)
{
    int r;

    if (params->mode != SLUICE_NEWEST)
        return refuse(name, "a mode other than SLUICE_NEWEST", "nothing keeps older frames for a reader");
    if (params->depth || params->every > 1)
        return refuse(name, params->depth ? "depth" : "every",
                      "nothing keeps older frames for a reader; it takes the newest");
    if (params->staged)
        return refuse(name, "staged",
                      "copies within the reader's GPU are asked for by `copy` of struct sluice_cipd_reader_params");
    if (params->uid_count)
        return refuse(name, "a list of users", "the segment is open to its writer's user alone");
    if (params->hold > SLUICE_CIPD_MAX_SLOTS && params->hold != SLUICE_MOST)
        return sl_fail(SLUICE_E_LIMIT, "channel 'cipd:%s': hold %u, %d at most", name, params->hold,
                       SLUICE_CIPD_MAX_SLOTS);
    if (params->writable > 1 || params->ahead > 1 || params->reserved || cipd->copy > 1)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': writable, ahead and copy are 0 or 1, reserved is 0", name);
    if (cipd->undeclared > SLUICE_CIPD_BGRA || cipd->pair > SLUICE_CIPD_RED_GREEN)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': undeclared %u and pair %u are 0, 1 or 2", name,
                       cipd->undeclared, cipd->pair);
    if (params->open_timeout_ns < SLUICE_LATER || params->spin_ns < -1 || params->ahead_ns < 0 ||
        cipd->wait_spin_ns < -1 || cipd->wait_ns < 0 || cipd->stall_ns < -1)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': a time may not be negative", name);
    if ((r = check_switch(name, "reconnect", cipd->reconnect)) != 0)
        return r;
    return check_switch(name, "ahead", cipd->ahead);
}

int sl_cipd_reader_params(const char *name, struct sluice_reader_params *params, struct sluice_cipd_reader_params *cipd)
{
    int r;

    memset(cipd, 0, sizeof *cipd);
    if (params->cipd &&
        (r = sl_params_load(cipd, sizeof *cipd, LEAST_READER, params->cipd, "struct sluice_cipd_reader_params")) != 0)
        return r;
    if ((r = check_reader(name, params, cipd)) != 0)
        return r;
    if (params->hold == 0)
        params->hold = 1;
    if (params->hold == SLUICE_MOST)
        params->hold = SLUICE_CIPD_MAX_SLOTS;
    if (params->spin_ns == 0)
        params->spin_ns = DEFAULT_FRAME_SPIN;
    if (params->ahead_ns == 0)
        params->ahead_ns = DEFAULT_AHEAD;
    if (cipd->ahead == SLUICE_CIPD_USUAL)
        cipd->ahead = params->ahead ? SLUICE_CIPD_ON : SLUICE_CIPD_OFF;
    if (cipd->wait_spin_ns == 0)
        cipd->wait_spin_ns = DEFAULT_SPIN;
    if (cipd->wait_ns == 0)
        cipd->wait_ns = DEFAULT_READY;
    if (cipd->stall_ns == 0)
        cipd->stall_ns = DEFAULT_STALL;
    return 0;
}
