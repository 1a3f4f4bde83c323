/* SPDX-License-Identifier: MIT
 *
 * Rows of pixels of any format, read as floats. The loops have no branches, so that compilers vectorise them; each does
 * what sl_fetch does.
 */
#include "convert/convert.h"

#define HALF (SL_CHUNK / 2 + 3) /* chroma samples of a chunk, with one more at each side */

/* ---- numbers ---- */

SL_INLINE void read_some(int sample, const unsigned char *in, long long step, int count, float *out)
{
    for (int i = 0; i < count; i++)
        out[i] = sl_read(sample, in + i * step);
}

SL_INLINE void read_bytes(const unsigned char *in, long long step, int count, float *out)
{
    switch (step) {
    case 1: read_some(SL_U8, in, 1, count, out); break;
    case 2: read_some(SL_U8, in, 2, count, out); break;
    default: read_some(SL_U8, in, step, count, out);
    }
}

SL_INLINE void read_numbers(const struct sl_pixels *p, int i, int x, int y, int count, float *out)
{
    const struct sl_component *at = &p->at[i];
    const unsigned char *in = at->first + y * at->pitch + x * at->step;

    switch (p->sample) {
    case SL_U8: read_bytes(in, at->step, count, out); break;
    case SL_U16: read_some(SL_U16, in, at->step, count, out); break;
    case SL_U10: read_some(SL_U10, in, at->step, count, out); break;
    case SL_F16: read_some(SL_F16, in, at->step, count, out); break;
    default: read_some(SL_F32, in, at->step, count, out);
    }
}

/* ---- RGB and gray ---- */

SL_INLINE void read_packed(const struct sl_pixels *p, const unsigned char *in, int step, int r, int g, int b, int a,
                           int count, float *out)
{
    const float mr = p->unmul[0], mg = p->unmul[1], mb = p->unmul[2], ma = p->unmul[3];
    const float ar = p->unadd[0], ag = p->unadd[1], ab = p->unadd[2], aa = p->unadd[3];

    for (int i = 0; i < count; i++) {
        out[4 * i] = (float)in[step * i + r] * mr + ar;
        out[4 * i + 1] = (float)in[step * i + g] * mg + ag;
        out[4 * i + 2] = (float)in[step * i + b] * mb + ab;
        out[4 * i + 3] = a < 0 ? 1 : (float)in[step * i + a] * ma + aa;
    }
}

/* Bytes side by side, as in the usual formats. */
SL_INLINE bool decode_packed(const struct sl_pixels *p, int x, int y, int count, float *out)
{
    const struct sl_component *at = p->at;
    bool alpha = p->count == 4 && !p->opaque, red_first = at[0].first < at[2].first;
    const unsigned char *in = (red_first ? at[0].first : at[2].first) + y * at[0].pitch + x * at[0].step;

    if (p->sample != SL_U8 || at[0].step != p->count || at[1].first - at[0].first != (red_first ? 1 : -1) ||
        at[2].first - at[1].first != (red_first ? 1 : -1) || (alpha && at[3].first - at[1].first != 2))
        return false;
    if (p->count == 3 && red_first)
        read_packed(p, in, 3, 0, 1, 2, -1, count, out);
    else if (p->count == 3)
        read_packed(p, in, 3, 2, 1, 0, -1, count, out);
    else if (!alpha && red_first)
        read_packed(p, in, 4, 0, 1, 2, -1, count, out);
    else if (!alpha)
        read_packed(p, in, 4, 2, 1, 0, -1, count, out);
    else if (red_first)
        read_packed(p, in, 4, 0, 1, 2, 3, count, out);
    else
        read_packed(p, in, 4, 2, 1, 0, 3, count, out);
    return true;
}

SL_INLINE void decode_rgb(const struct sl_pixels *p, int x, int y, int count, float *out)
{
    float number[SL_CHUNK];
    int last = p->count == 4 && !p->opaque ? 4 : 3;

    if (decode_packed(p, x, y, count, out))
        return;
    for (int c = 0; c < last; c++) {
        read_numbers(p, c, x, y, count, number);
        for (int i = 0; i < count; i++)
            out[4 * i + c] = number[i] * p->unmul[c] + p->unadd[c];
    }
    for (int i = 0; i < count && last == 3; i++)
        out[4 * i + 3] = 1;
}

SL_INLINE void decode_gray(const struct sl_pixels *p, int x, int y, int count, float *out)
{
    float number[SL_CHUNK];

    read_numbers(p, 0, x, y, count, number);
    for (int i = 0; i < count; i++) {
        float value = number[i] * p->unmul[0] + p->unadd[0];
        out[4 * i] = out[4 * i + 1] = out[4 * i + 2] = value;
        out[4 * i + 3] = 1;
    }
}

/* ---- YUV ---- */

/* A row of chroma samples from `first` on, which may begin and end one outside: edges repeat. */
SL_INLINE void read_chroma(const struct sl_pixels *p, int c, int first, int row, int count, float *out)
{
    int size = p->width >> p->shift_x, before = first<0, after = first + count> size;

    read_numbers(p, c, first + before, row, count - before - after, out + before);
    if (before)
        out[0] = out[1];
    if (after)
        out[count - 1] = out[count - 2];
}

/* Between two rows. */
SL_INLINE void mix_chroma(const struct sl_pixels *p, int c, int first, struct sl_between rows, int count, float *out)
{
    float other[HALF];

    read_chroma(p, c, first, rows.first, count, out);
    if (rows.part <= 0)
        return;
    read_chroma(p, c, first, rows.second, count, other);
    for (int i = 0; i < count; i++)
        out[i] += rows.part * (other[i] - out[i]);
}

/* Of pixels from an even column on: an element for each, and one more if their number is odd. */
SL_INLINE void chroma(const struct sl_pixels *p, int c, int x, struct sl_between rows, int count, float *out)
{
    float half[HALF];
    const float *h = half + 1;
    int pairs = (count + 1) / 2;

    if (!p->shift_x) {
        read_numbers(p, c, x, rows.first, count, out);
        return;
    }
    mix_chroma(p, c, x / 2 - 1, rows, pairs + 2, half);
    if (p->site == SL_SITE_REPEAT)
        for (int i = 0; i < pairs; i++)
            out[2 * i] = out[2 * i + 1] = h[i];
    else if (p->site == SL_SITE_CENTRE)
        for (int i = 0; i < pairs; i++) {
            out[2 * i] = 0.75f * h[i] + 0.25f * h[i - 1];
            out[2 * i + 1] = 0.75f * h[i] + 0.25f * h[i + 1];
        }
    else
        for (int i = 0; i < pairs; i++) {
            out[2 * i] = h[i];
            out[2 * i + 1] = 0.5f * (h[i] + h[i + 1]);
        }
}

SL_INLINE void decode_yuv(const struct sl_pixels *p, int x, int y, int count, float *out)
{
    float luma[SL_CHUNK], u[SL_CHUNK + 1], v[SL_CHUNK + 1];
    struct sl_between rows = sl_chroma_between(y, p->shift_y, p->site == SL_SITE_TOP_LEFT, p->site == SL_SITE_REPEAT,
                                               p->height >> p->shift_y);
    const float my = p->unmul[0], ay = p->unadd[0], mu = p->unmul[1], mv = p->unmul[2], au = p->add[1], av = p->add[2];
    const float rv = p->rv, gu = p->gu, gv = p->gv, bu = p->bu;

    read_numbers(p, 0, x, y, count, luma);
    chroma(p, 1, x, rows, count, u);
    chroma(p, 2, x, rows, count, v);
    for (int i = 0; i < count; i++) {
        float l = luma[i] * my + ay, cu = (u[i] - au) * mu, cv = (v[i] - av) * mv;
        out[4 * i] = l + rv * cv;
        out[4 * i + 1] = l - gu * cu - gv * cv;
        out[4 * i + 2] = l + bu * cu;
        out[4 * i + 3] = 1;
    }
}

/* ---- all ---- */

SL_WIDE static void decode_chunk(const struct sl_pixels *p, int x, int y, int count, float *out)
{
    if (p->family == SL_YUV)
        decode_yuv(p, x, y, count, out);
    else if (p->family == SL_GRAY)
        decode_gray(p, x, y, count, out);
    else
        decode_rgb(p, x, y, count, out);
}

void sl_decode(const struct sl_pixels *p, int x, int y, int count, float *out)
{
    if (count > 0 && (x & p->shift_x)) { /* chroma goes by pairs */
        struct sl_rgba first = sl_fetch(p, x, y);
        out[0] = first.r;
        out[1] = first.g;
        out[2] = first.b;
        out[3] = first.a;
        out += 4;
        count--;
        x++;
    }
    for (int done = 0; done < count; done += SL_CHUNK)
        decode_chunk(p, x + done, y, count - done < SL_CHUNK ? count - done : SL_CHUNK, out + 4 * done);
}
