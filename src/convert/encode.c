/* SPDX-License-Identifier: MIT
 *
 * Rows of floats, written as pixels of any format, as sl_store_own does it.
 */
#include "convert/convert.h"

/* ---- numbers ---- */

SL_INLINE void write_some(int sample, unsigned char *out, long long step, int count, const float *in)
{
    for (int i = 0; i < count; i++)
        sl_write(sample, out + i * step, in[i]);
}

SL_INLINE void write_numbers(const struct sl_pixels *p, int c, int x, int y, int count, const float *in)
{
    const struct sl_component *at = &p->at[c];
    unsigned char *out = at->first + y * at->pitch + x * at->step;

    switch (p->sample) {
    case SL_U8:
        if (at->step == 1)
            write_some(SL_U8, out, 1, count, in);
        else if (at->step == 2)
            write_some(SL_U8, out, 2, count, in);
        else
            write_some(SL_U8, out, at->step, count, in);
        break;
    case SL_U16: write_some(SL_U16, out, at->step, count, in); break;
    case SL_U10: write_some(SL_U10, out, at->step, count, in); break;
    case SL_F16: write_some(SL_F16, out, at->step, count, in); break;
    default:
        if (at->step == 4)
            write_some(SL_F32, out, 4, count, in);
        else
            write_some(SL_F32, out, at->step, count, in);
    }
}

/* ---- RGB ---- */

SL_INLINE void write_packed(const struct sl_pixels *p, unsigned char *out, int step, int r, int b, int count,
                            const float *in)
{
    const float mr = p->mul[0], mg = p->mul[1], mb = p->mul[2], ma = p->mul[3];
    const float ar = p->add[0], ag = p->add[1], ab = p->add[2], aa = p->add[3];

    for (int i = 0; i < count; i++) {
        out[step * i + r] = (unsigned char)sl_whole(in[4 * i] * mr + ar, 255);
        out[step * i + 1] = (unsigned char)sl_whole(in[4 * i + 1] * mg + ag, 255);
        out[step * i + b] = (unsigned char)sl_whole(in[4 * i + 2] * mb + ab, 255);
        if (step == 4)
            out[step * i + 3] = (unsigned char)sl_whole(in[4 * i + 3] * ma + aa, 255);
    }
}

SL_INLINE bool encode_packed(const struct sl_pixels *p, int x, int y, int count, const float *in)
{
    const struct sl_component *at = p->at;
    bool red_first = at[0].first < at[2].first;
    unsigned char *out = (red_first ? at[0].first : at[2].first) + y * at[0].pitch + x * at[0].step;

    if (p->sample != SL_U8 || p->opaque || at[0].step != p->count ||
        at[1].first - at[0].first != (red_first ? 1 : -1) || at[2].first - at[1].first != (red_first ? 1 : -1) ||
        (p->count == 4 && at[3].first - at[1].first != 2))
        return false;
    if (p->count == 3 && red_first)
        write_packed(p, out, 3, 0, 2, count, in);
    else if (p->count == 3)
        write_packed(p, out, 3, 2, 0, count, in);
    else if (red_first)
        write_packed(p, out, 4, 0, 2, count, in);
    else
        write_packed(p, out, 4, 2, 0, count, in);
    return true;
}

SL_INLINE void encode_rgb(const struct sl_pixels *p, int x, int y, int count, const float *in)
{
    float number[SL_CHUNK];

    if (encode_packed(p, x, y, count, in))
        return;
    for (int c = 0; c < p->count; c++) {
        const float mul = p->mul[c], add = p->add[c];
        if (c == 3 && p->opaque)
            for (int i = 0; i < count; i++)
                number[i] = mul + add;
        else
            for (int i = 0; i < count; i++)
                number[i] = in[4 * i + c] * mul + add;
        write_numbers(p, c, x, y, count, number);
    }
}

/* ---- luma and chroma ---- */

SL_INLINE void encode_luma(const struct sl_pixels *p, int x, int y, int count, const float *in)
{
    const float kr = p->kr * p->mul[0], kg = p->kg * p->mul[0], kb = p->kb * p->mul[0], add = p->add[0];
    float number[SL_CHUNK];

    for (int i = 0; i < count; i++)
        number[i] = kr * in[4 * i] + kg * in[4 * i + 1] + kb * in[4 * i + 2] + add;
    write_numbers(p, 0, x, y, count, number);
}

SL_INLINE void encode_own_chroma(const struct sl_pixels *p, int x, int y, int count, const float *in)
{
    float number[SL_CHUNK];

    for (int c = 1; c < 3; c++) {
        for (int i = 0; i < count; i++) {
            float luma = p->kr * in[4 * i] + p->kg * in[4 * i + 1] + p->kb * in[4 * i + 2];
            number[i] = (in[4 * i + (c == 1 ? 2 : 0)] - luma) * (p->mul[c] / (c == 1 ? p->bu : p->rv)) + p->add[c];
        }
        write_numbers(p, c, x, y, count, number);
    }
}

SL_WIDE static void encode_chunk(const struct sl_pixels *p, int x, int y, int count, const float *in)
{
    if (p->family == SL_RGB)
        encode_rgb(p, x, y, count, in);
    else
        encode_luma(p, x, y, count, in);
    if (p->family == SL_YUV && !p->shift_x)
        encode_own_chroma(p, x, y, count, in);
}

void sl_encode(const struct sl_pixels *p, int x, int y, int count, const float *in)
{
    for (int done = 0; done < count; done += SL_CHUNK)
        encode_chunk(p, x + done, y, count - done < SL_CHUNK ? count - done : SL_CHUNK, in + 4 * done);
}

/* Sums of B - luma and R - luma over the columns around a sample, with the weights of a triangle. */
SL_WIDE static void chroma_row(const struct sl_pixels *p, const float *in, float *u, float *v)
{
    const float cu = 1 / p->bu, cv = 1 / p->rv;
    const int last = p->width - 1;

    for (int j = 0; j < p->width / 2; j++) {
        const int left = 2 * j > 0 ? 2 * j - 1 : 0, right = 2 * j + 2 < last ? 2 * j + 2 : last;
        const float *a = in + 4 * left, *b = in + 8 * j, *c = b + 4, *d = in + 4 * right;
        const float wa = p->site == SL_SITE_REPEAT ? 0 : p->site == SL_SITE_CENTRE ? 0.125f : 0.25f;
        const float wb = p->site == SL_SITE_CENTRE ? 0.375f : 0.5f;
        const float wc = p->site == SL_SITE_REPEAT ? 0.5f : p->site == SL_SITE_CENTRE ? 0.375f : 0.25f;
        const float wd = p->site == SL_SITE_CENTRE ? 0.125f : 0;
        float red = wa * a[0] + wb * b[0] + wc * c[0] + wd * d[0];
        float green = wa * a[1] + wb * b[1] + wc * c[1] + wd * d[1];
        float blue = wa * a[2] + wb * b[2] + wc * c[2] + wd * d[2];
        float luma = p->kr * red + p->kg * green + p->kb * blue;
        u[j] = (blue - luma) * cu;
        v[j] = (red - luma) * cv;
    }
}

SL_WIDE static void encode_chroma(const struct sl_pixels *p, int row, const float *u, const float *v)
{
    float number[SL_CHUNK];
    int size = p->width >> p->shift_x;

    for (int c = 1; c < 3; c++)
        for (int x = 0; x < size; x += SL_CHUNK) {
            int count = size - x < SL_CHUNK ? size - x : SL_CHUNK;
            for (int i = 0; i < count; i++)
                number[i] = (c == 1 ? u : v)[x + i] * p->mul[c] + p->add[c];
            write_numbers(p, c, x, row, count, number);
        }
}

/* What other files call is compiled once, and chooses among those. */
void sl_chroma_row(const struct sl_pixels *p, const float *in, float *u, float *v)
{
    chroma_row(p, in, u, v);
}

void sl_encode_chroma(const struct sl_pixels *p, int row, const float *u, const float *v)
{
    encode_chroma(p, row, u, v);
}
