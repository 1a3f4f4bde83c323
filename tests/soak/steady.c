/* SPDX-License-Identifier: MIT
 *
 * A channel in use for SLUICE_SOAK_SECONDS (12; an hour by tests/soak/run --long). Every process must end as large as
 * it began: descriptors, mappings, threads and memory show no trend. Latencies are recorded, and do not fail the test.
 * SLUICE_SOAK_RECORD names a file for the rows; SLUICE_SOAK_PYTHON a Python that has the package, for one more reader.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "harness/resources.h"
#include "harness/test.h"
#include "soak/record.h"

#define SAMPLES  (CHAPTERS * 2) /* in a row */
#define MIN_ROWS 6

struct soak {
    struct shared_state *shared;
    struct child children[SEATS];
    pid_t pids[SEATS];
    struct record record;
};

static void start_all(struct soak *soak)
{
    const char *python = getenv("SLUICE_SOAK_PYTHON");

    test_dir();
    soak->children[SEAT_WRITER] = role_start_at("roles.c", "writer", NULL);
    for (unsigned seat = SEAT_NEWEST; seat <= SEAT_THIRD; seat++) {
        char number[8];
        snprintf(number, sizeof number, "%u", seat);
        soak->children[seat] = role_start_at("roles.c", "reader", number, NULL);
    }
    soak->children[SEAT_OPENER] = role_start_at("roles.c", "opener", NULL);
    soak->children[SEAT_OBSERVER] = role_start_at("roles.c", "observer", NULL);
    if (python && *python) {
        const char *const argv[] = { python, SOAK_SOURCE "/reader.py", CHANNEL, NULL };
        soak->children[SEAT_PYTHON] = child_start(argv);
    }
    for (unsigned seat = 0; seat < SEATS; seat++)
        soak->pids[seat] = soak->children[seat].pid;
}

/* Leases as the writer sees them; between two sessions there are none. */
static void count_leases(struct soak *soak)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[SEATS * 2];
    int leases = 0;

    int r = sluice_channel_info(CHANNEL, SLUICE_DEFAULT, &info, readers, SEATS * 2);
    if (r == SLUICE_E_NOT_FOUND || r == SLUICE_TIMEOUT)
        return;
    CHECK_OK(r);
    CHECK_LE(info.readers, SEATS * 2);
    for (uint32_t i = 0; i < info.readers; i++) {
        CHECK_LE(readers[i].held, readers[i].hold);
        leases += (int)readers[i].held;
    }
    CHECK_LE(leases, MOST_LEASES);
    if (leases > soak->record.leases[soak->record.rows])
        soak->record.leases[soak->record.rows] = leases;
}

static void look(struct soak *soak)
{
    for (unsigned seat = 0; seat < SEATS; seat++) {
        if (!soak->pids[seat])
            continue;
        if (child_ended(&soak->children[seat]))
            FAIL("the process '%s' has ended with status %d", seat_names[seat], soak->children[seat].status);
        record_sample(&soak->record, seat, soak->pids[seat]);
    }
    count_leases(soak);
    soak->record.samples++;
}

static void fill_rows(struct soak *soak, int rows, int64_t row_ns)
{
    int64_t next = test_now();

    for (int sample = 1; sample <= rows * SAMPLES; sample++) {
        next += row_ns / SAMPLES;
        int64_t now = test_now();
        if (next > now)
            test_nap(next - now);
        look(soak);
        if (sample % SAMPLES == 0)
            record_row(&soak->record, soak->shared);
    }
}

/* Readers first: their leases must end while the writer sees it. */
static void end_all(struct soak *soak)
{
    struct sluice_channel_info info = { .size = sizeof info };

    atomic_store(&soak->shared->stage, READERS_LEAVE);
    for (unsigned seat = SEAT_NEWEST; seat < SEATS; seat++)
        if (soak->pids[seat])
            role_stop(&soak->children[seat]);
    CHECK_SOON(sluice_channel_info(CHANNEL, SLUICE_DEFAULT, &info, NULL, 0) == 0 && !info.readers, 10);
    atomic_store(&soak->shared->stage, ALL_LEAVE);
    role_stop(&soak->children[SEAT_WRITER]);
    folder_check(true);
    shm_check();
}

/* The growth over a whole soak that counts as a trend: this much, and this part of what there is. Few rows show less
 * than many, so the part is for six, and half of it for twelve. */
static const struct {
    enum column column;
    double most, part;
} limits[] = {
    { FDS, 3.5, .3 },     { MAPPINGS, 3.5, .5 }, { THREADS, 0.5, 0 },
    { OWN_KIB, 256, .3 }, { RSS_KIB, 2048, .5 }, { PSS_KIB, 2048, .5 },
};

static bool check_trend(const struct soak *soak, unsigned seat)
{
    bool flat = true;

    for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        double grown = record_growth(&soak->record, seat, limits[i].column);
        double mean = record_mean(&soak->record, seat, limits[i].column);
        if (grown <= limits[i].most + limits[i].part * mean * MIN_ROWS / soak->record.rows)
            continue;
        fprintf(stderr, "%s: %s grew by %.1f, at %.1f on average\n", seat_names[seat], column_names[limits[i].column],
                grown, mean);
        /* A sanitizer keeps freed memory for a while. */
        flat = flat && limits[i].column < FDS && test_slowness() > 1;
    }
    return flat;
}

static void check_done(const struct soak *soak, unsigned seat)
{
    const struct seat *counts = &soak->shared->seats[seat];

    if (seat == SEAT_OBSERVER)
        CHECK_GE(counts->asked, 1);
    else if (seat != SEAT_PYTHON)
        CHECK_GE(counts->frames, 1);
}

TEST_TIMEOUT(steady, 86400)
{
    static struct soak soak; /* too large for a stack */
    const char *wanted = getenv("SLUICE_SOAK_SECONDS");
    double seconds = wanted && *wanted ? strtod(wanted, NULL) : (double)test_scale(12);
    int rows = seconds < 3 ? MIN_ROWS : seconds > 30 ? MAX_ROWS : (int)(seconds * 2);

    soak.shared = test_shared_memory(sizeof *soak.shared);
    soak.record.row_seconds = (seconds < 3 ? 3 : seconds) / rows;
    int64_t row_ns = (int64_t)(soak.record.row_seconds * 1e9);
    atomic_store(&soak.shared->chapter_ns, row_ns / CHAPTERS);
    start_all(&soak);
    fill_rows(&soak, rows, row_ns);
    record_write(&soak.record, soak.pids);
    end_all(&soak);
    bool flat = true;
    for (unsigned seat = 0; seat < SEATS; seat++) {
        if (!soak.pids[seat])
            continue;
        check_done(&soak, seat);
        flat = check_trend(&soak, seat) && flat;
    }
    CHECK(flat);
}
