/* SPDX-License-Identifier: MIT
 *
 * Rows of floats, written as pixels of any format, as sl_store_own does it.
 */
#include <string.h>

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

    if (p->sample == SL_U8 && at->step == 1)
        write_some(SL_U8, out, 1, count, in);
    else if (p->sample == SL_U8)
        write_some(SL_U8, out, at->step, count, in);
    else if (p->sample == SL_U16)
        write_some(SL_U16, out, at->step, count, in);
    else if (p->sample == SL_U10)
        write_some(SL_U10, out, at->step, count, in);
    else if (p->sample == SL_L10)
        write_some(SL_L10, out, at->step, count, in);
    else if (p->sample == SL_F16)
        write_some(SL_F16, out, at->step, count, in);
    else if (at->step == 4)
        write_some(SL_F32, out, 4, count, in);
    else
        write_some(SL_F32, out, at->step, count, in);
}

/* `number * mul + add` of each. */
SL_INLINE void write_scaled(const struct sl_pixels *p, int c, int x, int y, int count, float mul, const float *in)
{
    const float add = p->add[c];
    float number[SL_CHUNK];

    for (int i = 0; i < count; i++)
        number[i] = in[i] * mul + add;
    write_numbers(p, c, x, y, count, number);
}

/* ---- RGB ---- */

/* Bytes side by side; of four, one word. */
SL_INLINE void write_bytes(const struct sl_pixels *p, unsigned char *out, int step, int r, int b, int opaque, int count,
                           const float *in, int apart)
{
    const float mr = p->mul[0], mg = p->mul[1], mb = p->mul[2], ma = p->mul[3];
    const float ar = p->add[0], ag = p->add[1], ab = p->add[2], aa = p->add[3];
    const float *red = in, *green = in + apart, *blue = in + 2 * apart, *alpha = in + 3 * apart;

    for (int i = 0; i < count; i++) {
        unsigned word = (unsigned)sl_whole(red[i] * mr + ar, 255) << 8 * r |
                        (unsigned)sl_whole(green[i] * mg + ag, 255) << 8 |
                        (unsigned)sl_whole(blue[i] * mb + ab, 255) << 8 * b;
        if (step == 4) {
            word |= opaque ? 255u << 24 : (unsigned)sl_whole(alpha[i] * ma + aa, 255) << 24;
            memcpy(out + 4 * i, &word, sizeof word);
        } else {
            out[3 * i] = (unsigned char)word;
            out[3 * i + 1] = (unsigned char)(word >> 8);
            out[3 * i + 2] = (unsigned char)(word >> 16);
        }
    }
}

SL_INLINE void encode_bytes(const struct sl_pixels *p, int x, int y, int count, const float *in, int apart)
{
    unsigned char *out = p->at[1].first - 1 + y * p->at[1].pitch + x * p->at[1].step;
    bool red_first = p->at[0].first < p->at[1].first;

    if (p->count == 3 && red_first)
        write_bytes(p, out, 3, 0, 2, 1, count, in, apart);
    else if (p->count == 3)
        write_bytes(p, out, 3, 2, 0, 1, count, in, apart);
    else if (p->opaque && red_first)
        write_bytes(p, out, 4, 0, 2, 1, count, in, apart);
    else if (p->opaque)
        write_bytes(p, out, 4, 2, 0, 1, count, in, apart);
    else if (red_first)
        write_bytes(p, out, 4, 0, 2, 0, count, in, apart);
    else
        write_bytes(p, out, 4, 2, 0, 0, count, in, apart);
}

SL_INLINE void encode_rgb(const struct sl_pixels *p, int x, int y, int count, const float *in, int apart)
{
    if (sl_is_bytes(p)) {
        encode_bytes(p, x, y, count, in, apart);
        return;
    }
    for (int c = 0; c < 3; c++)
        write_scaled(p, c, x, y, count, p->mul[c], in + c * apart);
    if (p->count == 4 && !p->opaque)
        write_scaled(p, 3, x, y, count, p->mul[3], in + 3 * apart);
    for (int i = 0; i < count && p->count == 4 && p->opaque; i++)
        sl_put_number(p, 3, x + i, y, 1);
}

/* ---- luma and chroma ---- */

SL_INLINE void encode_luma(const struct sl_pixels *p, int x, int y, int count, const float *in, int apart)
{
    const float kr = p->kr, kg = p->kg, kb = p->kb, *g = in + apart, *b = in + 2 * apart;
    float luma[SL_CHUNK];

    for (int i = 0; i < count; i++)
        luma[i] = kr * in[i] + kg * g[i] + kb * b[i];
    write_scaled(p, 0, x, y, count, p->mul[0], luma);
    for (int c = 1; c < 3 && p->family == SL_YUV && !p->shift_x; c++) {
        const float *from = c == 1 ? b : in;
        float away[SL_CHUNK];
        for (int i = 0; i < count; i++)
            away[i] = from[i] - luma[i];
        write_scaled(p, c, x, y, count, p->mul[c] / (c == 1 ? p->bu : p->rv), away);
    }
}

SL_WIDE static void encode_chunk(const struct sl_pixels *p, int x, int y, int count, const float *in, int apart)
{
    if (p->family == SL_RGB)
        encode_rgb(p, x, y, count, in, apart);
    else
        encode_luma(p, x, y, count, in, apart);
}

void sl_encode(const struct sl_pixels *p, int x, int y, int count, const float *in, int apart)
{
    for (int done = 0; done < count; done += SL_CHUNK)
        encode_chunk(p, x + done, y, count - done < SL_CHUNK ? count - done : SL_CHUNK, in + done, apart);
}

/* With the weights of a triangle, of the pixels around a sample: those at 2 * j and 2 * j + 1 and their neighbours. */
SL_INLINE float around(const float *in, const float weights[4], int left, int j, int right)
{
    return weights[0] * in[left] + weights[1] * in[2 * j] + weights[2] * in[2 * j + 1] + weights[3] * in[right];
}

SL_INLINE void chroma_at(const struct sl_pixels *p, const float *in, int apart, const float weights[4], int left, int j,
                         int right, float *u, float *v)
{
    float red = around(in, weights, left, j, right), green = around(in + apart, weights, left, j, right);
    float blue = around(in + 2 * apart, weights, left, j, right);
    float luma = p->kr * red + p->kg * green + p->kb * blue;

    u[j] = (blue - luma) / p->bu;
    v[j] = (red - luma) / p->rv;
}

SL_WIDE static void chroma_row(const struct sl_pixels *p, const float *in, int apart, float *restrict u,
                               float *restrict v)
{
    static const float left[4] = { 0.25f, 0.5f, 0.25f, 0 }, centre[4] = { 0.125f, 0.375f, 0.375f, 0.125f },
                       repeat[4] = { 0, 0.5f, 0.5f, 0 };
    const float *weights = p->site == SL_SITE_REPEAT ? repeat : p->site == SL_SITE_CENTRE ? centre : left;
    const float own[4] = { weights[0], weights[1], weights[2], weights[3] };
    const struct sl_pixels colour = *p;
    int last = p->width / 2 - 1;

    chroma_at(p, in, apart, own, 0, 0, last > 0 ? 2 : 1, u, v);
    for (int j = 1; j < last; j++)
        chroma_at(&colour, in, apart, own, 2 * j - 1, j, 2 * j + 2, u, v);
    chroma_at(p, in, apart, own, last > 0 ? 2 * last - 1 : 0, last, 2 * last + 1, u, v);
}

SL_WIDE static void encode_chroma(const struct sl_pixels *p, int row, const float *u, const float *v)
{
    int size = p->width >> p->shift_x;

    for (int x = 0; x < size; x += SL_CHUNK) {
        int count = size - x < SL_CHUNK ? size - x : SL_CHUNK;
        write_scaled(p, 1, x, row, count, p->mul[1], u + x);
        write_scaled(p, 2, x, row, count, p->mul[2], v + x);
    }
}

/* What other files call is compiled once, and chooses among those. */
void sl_chroma_row(const struct sl_pixels *p, const float *in, int apart, float *u, float *v)
{
    chroma_row(p, in, apart, u, v);
}

void sl_encode_chroma(const struct sl_pixels *p, int row, const float *u, const float *v)
{
    encode_chroma(p, row, u, v);
}
