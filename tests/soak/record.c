/* SPDX-License-Identifier: MIT */
#include "soak/record.h"

#include <stdlib.h>
#include <string.h>

#include "harness/resources.h"
#include "harness/test.h"

const char *const seat_names[SEATS] = {
    "writer", "newest", "in_order", "holding", "polling", "third", "opener", "observer", "python",
};

const char *const column_names[COLUMNS] = {
    "frames", "p50_ns", "p99_ns", "rss_kib", "pss_kib", "own_kib", "fds", "mappings", "threads",
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

void record_sample(struct record *record, unsigned seat, pid_t pid)
{
    double *cells = record->cells[record->rows][seat];
    struct process_memory memory = process_memory(pid);

    cells[RSS_KIB] += (double)memory.resident;
    cells[PSS_KIB] += (double)memory.proportional;
    cells[OWN_KIB] += (double)memory.own;
    cells[FDS] = larger(cells[FDS], process_fds(pid));
    cells[MAPPINGS] = larger(cells[MAPPINGS], process_mappings(pid, "memfd:sluice"));
    cells[THREADS] = larger(cells[THREADS], process_threads(pid));
}

/* The latency that `share` of the frames since `before` did not exceed. */
static double percentile(const struct seat *seat, const struct seat *before, double share)
{
    uint64_t all = 0, upto = 0;

    for (unsigned i = 0; i < STEPS; i++)
        all += seat->latency[i] - before->latency[i];
    for (unsigned i = 0; i < STEPS && all; i++) {
        upto += seat->latency[i] - before->latency[i];
        if ((double)upto >= share * (double)all)
            return step_ns(i);
    }
    return 0;
}

void record_row(struct record *record, const struct shared_state *shared)
{
    int row = record->rows;

    for (unsigned s = 0; s < SEATS; s++) {
        const struct seat *seat = &shared->seats[s];
        struct seat *before = &record->before[s];
        double *cells = record->cells[row][s];

        cells[FRAMES] = (double)(seat->frames - before->frames);
        cells[P50_NS] = percentile(seat, before, 0.5);
        cells[P99_NS] = percentile(seat, before, 0.99);
        for (unsigned c = RSS_KIB; c <= OWN_KIB; c++)
            cells[c] /= record->samples ? record->samples : 1;
        record->dropped[row] += (long)(seat->dropped - before->dropped);
        record->openings[row] += (long)(seat->openings - before->openings);
        record->answers[row] += (long)(seat->asked - before->asked);
        memcpy(before, seat, sizeof *before);
    }
    record->samples = 0;
    record->rows++;
}

static int first_row(const struct record *record)
{
    return record->rows / 6;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double record_growth(const struct record *record, unsigned seat, enum column column)
{
    static double slopes[MAX_ROWS * MAX_ROWS / 2];
    int first = first_row(record), count = 0;

    for (int i = first; i < record->rows; i++)
        for (int j = i + 1; j < record->rows; j++)
            slopes[count++] = (record->cells[j][seat][column] - record->cells[i][seat][column]) / (j - i);
    if (count == 0)
        return 0;
    qsort(slopes, (size_t)count, sizeof slopes[0], ascending);
    double median = (slopes[count / 2] + slopes[(count - 1) / 2]) / 2;
    return median * (record->rows - first);
}

double record_mean(const struct record *record, unsigned seat, enum column column)
{
    double sum = 0;
    int first = first_row(record);

    for (int i = first; i < record->rows; i++)
        sum += record->cells[i][seat][column];
    return sum / (record->rows - first);
}

static void write_cells(const double *cells, FILE *out)
{
    for (unsigned c = 0; c < COLUMNS; c++)
        fprintf(out, "%s%.0f", c ? "," : "[", cells[c]);
    fputc(']', out);
}

static void write_row(const struct record *record, int row, const pid_t *pids, FILE *out)
{
    fprintf(out, "{\"row\":%d,\"leases\":%d,\"dropped\":%ld,\"openings\":%ld,\"answers\":%ld", row + 1,
            record->leases[row], record->dropped[row], record->openings[row], record->answers[row]);
    for (unsigned s = 0; s < SEATS; s++) {
        if (!pids[s])
            continue;
        fprintf(out, ",\"%s\":", seat_names[s]);
        write_cells(record->cells[row][s], out);
    }
    fprintf(out, "}%s\n", row + 1 < record->rows ? "," : "");
}

void record_write(const struct record *record, const pid_t *pids)
{
    FILE *out = test_record("SLUICE_SOAK_RECORD");
    const char *comma = "";

    fprintf(out, "\"row_seconds\":%g,\n\"columns\":[", record->row_seconds);
    for (unsigned c = 0; c < COLUMNS; c++)
        fprintf(out, "%s\"%s\"", c ? "," : "", column_names[c]);
    fputs("],\n\"growth\":{", out);
    for (unsigned s = 0; s < SEATS; s++) {
        double growth[COLUMNS];
        if (!pids[s])
            continue;
        for (unsigned c = 0; c < COLUMNS; c++)
            growth[c] = record_growth(record, s, c);
        fprintf(out, "%s\n\"%s\":", comma, seat_names[s]);
        write_cells(growth, out);
        comma = ",";
    }
    fputs("},\n\"rows\":[\n", out);
    for (int row = 0; row < record->rows; row++)
        write_row(record, row, pids, out);
    fputs("]", out);
    test_record_end(out);
}
