/* SPDX-License-Identifier: MIT
 *
 * Rows of pixels of any format, read as floats. The loops have no branches, so that compilers vectorise them; each does
 * what sl_fetch does.
 */
#include <string.h>

#include "convert/convert.h"

#define HALF (SL_CHUNK / 2 + 3) /* chroma samples of a chunk, with one more at each side */

/* ---- numbers ---- */

SL_INLINE void read_some(int sample, const unsigned char *in, long long step, int count, float *out)
{
    for (int i = 0; i < count; i++)
        out[i] = sl_read(sample, in + i * step);
}

SL_INLINE void read_numbers(const struct sl_pixels *p, int c, int x, int y, int count, float *out)
{
    const struct sl_component *at = &p->at[c];
    const unsigned char *in = at->first + y * at->pitch + x * at->step;

    if (p->sample == SL_U8 && at->step == 1)
        read_some(SL_U8, in, 1, count, out);
    else if (p->sample == SL_U8 && at->step == 2)
        read_some(SL_U8, in, 2, count, out);
    else if (p->sample == SL_U8 && at->step == 3)
        read_some(SL_U8, in, 3, count, out);
    else if (p->sample == SL_U8)
        read_some(SL_U8, in, at->step, count, out);
    else if (p->sample == SL_U16)
        read_some(SL_U16, in, at->step, count, out);
    else if (p->sample == SL_U10)
        read_some(SL_U10, in, at->step, count, out);
    else if (p->sample == SL_L10)
        read_some(SL_L10, in, at->step, count, out);
    else if (p->sample == SL_F16)
        read_some(SL_F16, in, at->step, count, out);
    else
        read_some(SL_F32, in, at->step, count, out);
}

/* ---- RGB and gray ---- */

/* Four bytes side by side, as one word; red and blue begin at these bits. */
SL_INLINE void read_words(const struct sl_pixels *p, const unsigned char *in, int red, int blue, int alpha, int count,
                          float *out, int apart)
{
    const float mr = p->unmul[0], mg = p->unmul[1], mb = p->unmul[2], ma = p->unmul[3];
    const float ar = p->unadd[0], ag = p->unadd[1], ab = p->unadd[2], aa = p->unadd[3];
    float *restrict r = out, *restrict g = out + apart, *restrict b = out + 2 * apart, *restrict a = out + 3 * apart;

    for (int i = 0; i < count; i++) {
        int word;
        memcpy(&word, in + 4 * i, sizeof word);
        r[i] = (float)(word >> red & 255) * mr + ar;
        g[i] = (float)(word >> 8 & 255) * mg + ag;
        b[i] = (float)(word >> blue & 255) * mb + ab;
        if (alpha)
            a[i] = (float)(word >> 24 & 255) * ma + aa;
    }
}

SL_INLINE void decode_words(const struct sl_pixels *p, int x, int y, int count, float *out, int apart)
{
    const unsigned char *in = p->at[1].first - 1 + y * p->at[1].pitch + x * p->at[1].step;
    bool red_first = p->at[0].first < p->at[1].first;

    if (red_first && p->opaque)
        read_words(p, in, 0, 16, 0, count, out, apart);
    else if (red_first)
        read_words(p, in, 0, 16, 1, count, out, apart);
    else if (p->opaque)
        read_words(p, in, 16, 0, 0, count, out, apart);
    else
        read_words(p, in, 16, 0, 1, count, out, apart);
}

SL_INLINE void decode_rgb(const struct sl_pixels *p, int x, int y, int count, float *out, int apart)
{
    if (p->count == 4 && sl_is_bytes(p)) {
        decode_words(p, x, y, count, out, apart);
        return;
    }
    for (int c = 0; c < (sl_has_alpha(p) ? 4 : 3); c++) {
        const float mul = p->unmul[c], add = p->unadd[c];
        float *to = out + c * apart;
        read_numbers(p, c, x, y, count, to);
        for (int i = 0; i < count; i++)
            to[i] = to[i] * mul + add;
    }
}

SL_INLINE void decode_gray(const struct sl_pixels *p, int x, int y, int count, float *out, int apart)
{
    const float mul = p->unmul[0], add = p->unadd[0];

    read_numbers(p, 0, x, y, count, out);
    for (int i = 0; i < count; i++)
        out[i] = out[apart + i] = out[2 * apart + i] = out[i] * mul + add;
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

SL_INLINE void decode_yuv(const struct sl_pixels *p, int x, int y, int count, float *out, int apart)
{
    float luma[SL_CHUNK], u[SL_CHUNK + 1], v[SL_CHUNK + 1];
    struct sl_between rows = sl_chroma_between(y, p->shift_y, p->site == SL_SITE_TOP_LEFT, p->site == SL_SITE_REPEAT,
                                               p->height >> p->shift_y);
    const float my = p->unmul[0], ay = p->unadd[0], mu = p->unmul[1], mv = p->unmul[2], au = p->add[1], av = p->add[2];
    const float rv = p->rv, gu = p->gu, gv = p->gv, bu = p->bu;
    float *restrict r = out, *restrict g = out + apart, *restrict b = out + 2 * apart;

    read_numbers(p, 0, x, y, count, luma);
    chroma(p, 1, x, rows, count, u);
    chroma(p, 2, x, rows, count, v);
    for (int i = 0; i < count; i++) {
        float l = luma[i] * my + ay, cu = (u[i] - au) * mu, cv = (v[i] - av) * mv;
        r[i] = l + rv * cv;
        g[i] = l - gu * cu - gv * cv;
        b[i] = l + bu * cu;
    }
}

/* ---- all ---- */

SL_WIDE static void decode_chunk(const struct sl_pixels *p, int x, int y, int count, float *out, int apart)
{
    if (p->family == SL_YUV)
        decode_yuv(p, x, y, count, out, apart);
    else if (p->family == SL_GRAY)
        decode_gray(p, x, y, count, out, apart);
    else
        decode_rgb(p, x, y, count, out, apart);
}

void sl_decode(const struct sl_pixels *p, int x, int y, int count, float *out, int apart)
{
    if (count > 0 && (x & p->shift_x)) { /* chroma goes by pairs */
        struct sl_rgba first = sl_fetch(p, x, y);
        out[0] = first.r;
        out[apart] = first.g;
        out[2 * apart] = first.b;
        out++;
        count--;
        x++;
    }
    for (int done = 0; done < count; done += SL_CHUNK)
        decode_chunk(p, x + done, y, count - done < SL_CHUNK ? count - done : SL_CHUNK, out + done, apart);
}
