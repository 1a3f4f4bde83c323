/* SPDX-License-Identifier: MIT
 *
 * Conversions on the CPU: each row of the target is made of rows of the source, first between the rows and then between
 * the columns, on all cores.
 */
#include <stdlib.h>
#include <string.h>

#include "convert/convert.h"
#include "kernel/kernel.h"
#include "os/os.h"
#include "util/atomic.h"
#include "util/result.h"

#define UNIT (1 << 16) /* pixels that are worth another core */

/* ---- weights ---- */

/* For each pixel of the target that shows the picture, the pixels of the source it depends on. They add up to 1. */
struct weights {
    int most;   /* at most so many: an even number */
    int copies; /* how often each weight is there, side by side */
    int *first, *count;
    float *weights; /* `most` for each; those behind `count` are 0 */
};

static bool make_weights(const struct sl_axis *axis, int copies, struct weights *w)
{
    size_t size = (size_t)axis->size;

    w->most = 2 * (int)axis->radius + 2;
    w->copies = copies;
    w->first = malloc(size * sizeof *w->first);
    w->count = malloc(size * sizeof *w->count);
    w->weights = calloc(size * (size_t)(w->most * copies), sizeof *w->weights);
    for (int i = 0; w->first && w->count && w->weights && i < axis->size; i++) {
        struct sl_taps taps = sl_taps_at(axis, axis->at + i);
        float *weights = w->weights + (size_t)i * (size_t)(w->most * copies), sum = 0;
        w->first[i] = taps.first;
        w->count[i] = taps.count;
        for (int k = 0; k < taps.count; k++)
            sum += sl_weight(axis, taps, k);
        for (int k = 0; k < taps.count * copies; k++)
            weights[k] = sl_weight(axis, taps, k / copies) / sum;
    }
    return w->first && w->count && w->weights;
}

static void free_weights(struct weights *w)
{
    free(w->first);
    free(w->count);
    free(w->weights);
}

/* ---- one thread's rows ---- */

struct conversion {
    const struct sl_job *job;
    struct weights x, y; /* of SL_TRIANGLE */
    int group;           /* rows of the target that share chroma: 1 or 2 */
    sl_word32 no_memory;
};

#define RING 4 /* rows of chroma between which a row of the target's is */

struct worker {
    const struct conversion *conversion;
    const struct sl_job *job;
    int begin, end;  /* rows of the target to be written */
    int first, span; /* columns of the flipped crop that are needed */
    int planes;      /* of the source: 3, or 4 with alpha */
    int apart, wide; /* floats from one plane to the next: in rows of the source, in ->row */
    int rows;        /* of the ring */
    int *held;       /* which row of the crop each has; -1: none */
    float *ring;     /* rows of the source */
    float *sum;      /* one row between them */
    float *mixed;    /* the same, pixel by pixel; zeros follow */
    float *row;      /* of the target */
    float *u[RING], *v[RING];
    int chroma[RING]; /* which row of the target each is of */
};

/* The next part of a block; NULL without one: then only *used counts. */
static void *take(char *block, size_t *used, size_t bytes)
{
    void *taken = block ? block + *used : NULL;

    *used += (bytes + 63) / 64 * 64;
    return taken;
}

static int whole_lines(int floats)
{
    return (floats + 15) / 16 * 16;
}

/* All memory is one block, which begins with ->held. Returns its size. */
static size_t lay_out(struct worker *w, char *block)
{
    size_t row = (size_t)w->apart * 4 * sizeof(float), used = 0;

    w->held = take(block, &used, (size_t)w->rows * sizeof *w->held);
    w->ring = take(block, &used, (size_t)w->rows * row);
    w->sum = take(block, &used, row);
    w->mixed = take(block, &used, row + (size_t)w->conversion->x.most * 4 * sizeof(float));
    w->row = take(block, &used, (size_t)w->wide * 4 * sizeof(float));
    for (int i = 0; i < RING; i++) {
        w->u[i] = take(block, &used, (size_t)w->wide / 2 * sizeof(float));
        w->v[i] = take(block, &used, (size_t)w->wide / 2 * sizeof(float));
    }
    return used;
}

static void find_span(struct worker *w)
{
    const struct weights *x = &w->conversion->x;
    const struct sl_axis *axis = &w->job->x;

    if (w->job->resize == SL_NEAREST) {
        w->first = sl_nearest(axis, axis->at);
        w->span = sl_nearest(axis, axis->at + axis->size - 1) + 1 - w->first;
        w->rows = 1;
    } else {
        w->first = x->first[0];
        w->span = x->first[axis->size - 1] + x->count[axis->size - 1] - w->first;
        w->rows = w->conversion->y.most;
    }
}

static bool open_worker(struct worker *w, const struct conversion *conversion)
{
    *w = (struct worker){ .conversion = conversion, .job = conversion->job };
    find_span(w);
    w->planes = sl_has_alpha(&w->job->from) ? 4 : 3;
    w->apart = whole_lines(w->span);
    w->wide = whole_lines(w->job->to.width);
    size_t bytes = lay_out(w, NULL);
    char *block = sl_os_aligned_alloc(64, bytes);
    if (!block)
        return false;
    memset(block, 0, bytes); /* what is between the planes is added up, too */
    lay_out(w, block);
    for (int i = 0; i < w->rows; i++)
        w->held[i] = -1;
    for (int i = 0; i < RING; i++)
        w->chroma[i] = -1;
    return true;
}

/* ---- rows of the source ---- */

static void reverse(float *row, int count)
{
    for (int i = 0, j = count - 1; i < j; i++, j--) {
        float kept = row[i];
        row[i] = row[j];
        row[j] = kept;
    }
}

SL_WIDE static void multiply(float *row, int count, int apart)
{
    float *restrict r = row, *restrict g = row + apart, *restrict b = row + 2 * apart;
    const float *restrict a = row + 3 * apart;

    for (int i = 0; i < count; i++) {
        r[i] *= a[i];
        g[i] *= a[i];
        b[i] *= a[i];
    }
}

SL_WIDE static void divide(float *row, int count, int apart)
{
    float *restrict r = row, *restrict g = row + apart, *restrict b = row + 2 * apart;
    const float *restrict a = row + 3 * apart;

    for (int i = 0; i < count; i++) {
        float by = a[i] > 0 ? 1 / a[i] : 0;
        r[i] *= by;
        g[i] *= by;
        b[i] *= by;
    }
}

/* A row of the flipped crop, from ->first on. */
static void read_row(const struct worker *w, int row, float *out)
{
    const struct sl_job *job = w->job;
    const struct sl_axis *x = &job->x;
    int left = x->flip ? x->count - w->first - w->span : w->first;

    sl_decode(&job->from, x->first + left, sl_source(&job->y, row), w->span, out, w->apart);
    for (int c = 0; c < w->planes && x->flip; c++)
        reverse(out + c * w->apart, w->span);
    if (job->multiply)
        multiply(out, w->span, w->apart);
}

static const float *source_row(struct worker *w, int row)
{
    int place = row % w->rows;
    float *at = w->ring + (size_t)place * 4 * (size_t)w->apart;

    if (w->held[place] != row)
        read_row(w, row, at);
    w->held[place] = row;
    return at;
}

/* ---- resizing ---- */

/* Adds two rows, or begins with them. */
SL_WIDE static void add_rows(float *restrict sum, const float *a, float a_weight, const float *b, float b_weight,
                             bool begins, int count)
{
    if (begins)
        for (int i = 0; i < count; i++)
            sum[i] = a_weight * a[i] + b_weight * b[i];
    else
        for (int i = 0; i < count; i++)
            sum[i] += a_weight * a[i] + b_weight * b[i];
}

/* Planes become pixels side by side, whose components are then filtered at once. */
SL_WIDE static void mix_planes(const float *in, int apart, float *restrict out)
{
    const float *r = in, *g = in + apart, *b = in + 2 * apart, *a = in + 3 * apart;

    for (int i = 0; i < apart; i++) {
        out[4 * i] = r[i];
        out[4 * i + 1] = g[i];
        out[4 * i + 2] = b[i];
        out[4 * i + 3] = a[i];
    }
}

/* Two pixels at a time, always as many: a loop of another length for each pixel takes longer than more pixels. */
SL_WIDE static void add_columns(const struct weights *x, int first, int count, const float *in, float *out, int apart)
{
    const int most = 4 * x->most;

    for (int i = 0; i < count; i++) {
        const float *from = in + 4 * (x->first[i] - first), *weights = x->weights + (size_t)i * (size_t)most;
        float sum[8] = { 0 };
        for (int k = 0; k < most; k += 8)
            for (int c = 0; c < 8; c++)
                sum[c] += weights[k + c] * from[k + c];
        for (int c = 0; c < 4; c++)
            out[i + c * apart] = sum[c] + sum[c + 4];
    }
}

/* Between the rows first: there are fewer of them then. */
static void resize_row(struct worker *w, int y, float *out)
{
    const struct weights *rows = &w->conversion->y;
    int i = y - w->job->y.at, count = rows->count[i];
    const float *weights = rows->weights + (size_t)i * (size_t)rows->most;

    for (int k = 0; k < count; k += 2) {
        const float *a = source_row(w, rows->first[i] + k),
                    *b = k + 1 < count ? source_row(w, rows->first[i] + k + 1) : a;
        add_rows(w->sum, a, weights[k], b, k + 1 < count ? weights[k + 1] : 0, k == 0, w->planes * w->apart);
    }
    mix_planes(w->sum, w->apart, w->mixed);
    add_columns(&w->conversion->x, w->first, w->job->x.size, w->mixed, out, w->wide);
}

static void nearest_row(struct worker *w, int y, float *out)
{
    const struct sl_axis *x = &w->job->x;
    const float *row = source_row(w, sl_nearest(&w->job->y, y));

    for (int c = 0; c < w->planes; c++, out += w->wide, row += w->apart)
        for (int i = 0; i < x->size; i++)
            out[i] = row[w->span == x->size ? i : sl_nearest(x, x->at + i) - w->first];
}

/* ---- rows of the target ---- */

static void set(float *row, float value, int count)
{
    for (int i = 0; i < count; i++)
        row[i] = value;
}

static void make_row(struct worker *w, int y)
{
    const struct sl_job *job = w->job;
    bool shows = sl_shows(&job->y, y);
    const float border[] = { job->border.r, job->border.g, job->border.b, job->border.a };
    int begin = shows ? job->x.at : job->to.width, end = shows ? begin + job->x.size : begin;
    float *shown = w->row + job->x.at;

    if (shows && job->resize == SL_NEAREST)
        nearest_row(w, y, shown);
    else if (shows)
        resize_row(w, y, shown);
    if (shows && w->planes == 3)
        set(shown + 3 * w->wide, 1, job->x.size);
    if (shows && job->divide)
        divide(shown, job->x.size, w->wide);
    for (int c = 0; c < 4; c++) {
        set(w->row + c * w->wide, border[c], begin);
        set(w->row + c * w->wide + end, border[c], job->to.width - end);
    }
}

/* The chroma of a row of the target, which is written on the way. */
static int chroma_of(struct worker *w, int y)
{
    int last = w->job->to.height - 1;
    y = y < 0 ? 0 : y > last ? last : y;
    int place = y % RING;

    if (w->chroma[place] == y)
        return place;
    make_row(w, y);
    if (y >= w->begin && y < w->end)
        sl_encode(&w->job->to, 0, y, w->job->to.width, w->row, w->wide);
    sl_chroma_row(&w->job->to, w->row, w->wide, w->u[place], w->v[place]);
    w->chroma[place] = y;
    return place;
}

SL_WIDE static void mix(float *const rows[RING], const int at[RING], const float weights[RING], int count, float *out)
{
    const float *a = rows[at[0]], *b = rows[at[1]], *c = rows[at[2]], *d = rows[at[3]];

    for (int i = 0; i < count; i++)
        out[i] = weights[0] * a[i] + weights[1] * b[i] + weights[2] * c[i] + weights[3] * d[i];
}

/* Two rows that share chroma, which also depends on the row above and the one below. */
static void write_pair(struct worker *w, int y)
{
    static const float weights[][RING] = {
        [SL_SITE_LEFT] = { 0.125f, 0.375f, 0.375f, 0.125f },
        [SL_SITE_CENTRE] = { 0.125f, 0.375f, 0.375f, 0.125f },
        [SL_SITE_TOP_LEFT] = { 0.25f, 0.5f, 0.25f, 0 },
        [SL_SITE_REPEAT] = { 0, 0.5f, 0.5f, 0 },
    };
    const float *weight = weights[w->job->to.site];
    int half = w->job->to.width / 2, at[RING];
    float *u = w->row, *v = w->row + half;

    at[0] = chroma_of(w, weight[0] > 0 ? y - 1 : y);
    at[1] = chroma_of(w, y);
    at[2] = chroma_of(w, y + 1);
    at[3] = chroma_of(w, weight[3] > 0 ? y + 2 : y + 1);
    mix(w->u, at, weight, half, u);
    mix(w->v, at, weight, half, v);
    sl_encode_chroma(&w->job->to, y / 2, u, v);
}

static void write_row(struct worker *w, int y)
{
    const struct sl_pixels *to = &w->job->to;

    make_row(w, y);
    sl_encode(to, 0, y, to->width, w->row, w->wide);
    if (to->shift_x) {
        sl_chroma_row(to, w->row, w->wide, w->u[0], w->v[0]);
        sl_encode_chroma(to, y, w->u[0], w->v[0]);
    }
}

/* ---- without resizing ---- */

/* Nothing moves: pixels stay in the nearest cache. */
static bool is_plain(const struct sl_job *job)
{
    return job->resize == SL_NEAREST && sl_stays(&job->x) && !job->bordered && !job->to.shift_x;
}

static void copy_row(const struct sl_job *job, int y)
{
    float chunk[4 * SL_CHUNK];
    int from = sl_source(&job->y, sl_nearest(&job->y, y));

    for (int x = 0; x < job->to.width; x += SL_CHUNK) {
        int count = job->to.width - x < SL_CHUNK ? job->to.width - x : SL_CHUNK;
        sl_decode(&job->from, job->x.first + x, from, count, chunk, SL_CHUNK);
        if (job->multiply)
            multiply(chunk, count, SL_CHUNK);
        if (job->divide)
            divide(chunk, count, SL_CHUNK);
        sl_encode(&job->to, x, y, count, chunk, SL_CHUNK);
    }
}

/* ---- all of it ---- */

static void run(void *argument, uint64_t first, uint64_t last)
{
    struct conversion *conversion = argument;
    struct worker worker;
    int begin = (int)first * conversion->group, end = (int)last * conversion->group;

    if (is_plain(conversion->job)) {
        for (int y = begin; y < end; y++)
            copy_row(conversion->job, y);
        return;
    }
    if (!open_worker(&worker, conversion)) {
        sl_store(&conversion->no_memory, 1, relaxed);
        return;
    }
    worker.begin = begin;
    worker.end = end;
    for (int y = begin; y < end; y += conversion->group)
        conversion->group == 2 ? write_pair(&worker, y) : write_row(&worker, y);
    sl_os_aligned_free(worker.held);
}

int sl_convert_host(const struct sl_job *job)
{
    struct conversion conversion = { .job = job, .group = job->to.shift_y ? 2 : 1 };
    bool made = true;

    if (job->resize == SL_TRIANGLE) {
        bool x = make_weights(&job->x, 4, &conversion.x), y = make_weights(&job->y, 1, &conversion.y);
        made = x && y;
    }
    int64_t pixels = (int64_t)job->to.width * job->to.height, source = (int64_t)job->x.count * job->y.count;
    int64_t row = (pixels > source ? pixels : source) / job->to.height * conversion.group + 1;
    if (made)
        sl_host_run((uint64_t)(job->to.height / conversion.group), (uint64_t)(1 + UNIT / row), run, &conversion);
    free_weights(&conversion.x);
    free_weights(&conversion.y);
    if (made && !sl_load(&conversion.no_memory, relaxed))
        return 0;
    return sl_fail(SLUICE_E_NO_MEMORY, "sluice_convert: no memory for the rows of a picture of %d x %d", job->to.width,
                   job->to.height);
}
