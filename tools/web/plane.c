/* SPDX-License-Identifier: MIT
 *
 * Elements by their type and strides.
 */
#include "plane.h"

#include <math.h>
#include <string.h>

#include "../media/half.h"

#define SAMPLES 256 /* of each side, to find a range */

static bool is_number(struct sluice_dtype dtype)
{
    bool integer = dtype.code == SLUICE_INT || dtype.code == SLUICE_UINT;
    bool real = (dtype.code == SLUICE_FLOAT && dtype.bits >= 16) || (dtype.code == SLUICE_BFLOAT && dtype.bits == 16);
    bool sized = dtype.bits == 8 || dtype.bits == 16 || dtype.bits == 32 || dtype.bits == 64;
    return dtype.lanes <= 1 && ((sized && (integer || real)) || (dtype.code == SLUICE_BOOL && dtype.bits == 8));
}

static bool of_image(struct web_plane *plane, const struct sluice_array *array)
{
    const struct sluice_image *image = &array->image;
    switch (image->pixel_format) {
    case SLUICE_PIXEL_YUYV:
    case SLUICE_PIXEL_UYVY:
    case SLUICE_PIXEL_NV12:
    case SLUICE_PIXEL_YUV420P:
    case SLUICE_PIXEL_YUV422P:
    case SLUICE_PIXEL_YUV422P10:
    case SLUICE_PIXEL_YUV444P:
    case SLUICE_PIXEL_P010: return false;
    default: break;
    }
    plane->count = 1;
    plane->width = image->width;
    plane->height = image->height;
    plane->components = array->ndim == 3 ? (uint32_t)array->shape[2] : 1;
    plane->step_component = array->dtype.bits / 8;
    plane->step_x = plane->step_component * plane->components;
    plane->step_y = (int64_t)image->planes[0].pitch;
    plane->data = (const uint8_t *)array->data + image->planes[0].offset;
    if (image->row_order == SLUICE_BOTTOM_UP) {
        plane->data += (int64_t)(image->height - 1) * plane->step_y;
        plane->step_y = -plane->step_y;
    }
    return true;
}

/* Moves the plane to `index` among all but the last `inner` dimensions. */
static bool choose(struct web_plane *plane, const struct sluice_array *array, int inner, uint32_t index)
{
    uint64_t count = 1;
    for (int i = array->ndim - inner - 1; i >= 0; i--) {
        uint64_t size = (uint64_t)array->shape[i];
        plane->data += (int64_t)(index / count % size) * array->strides[i];
        count *= size;
        if (count > UINT32_MAX)
            return false;
    }
    plane->count = (uint32_t)count;
    return index < count;
}

bool web_plane_of(struct web_plane *plane, const struct sluice_array *array, uint32_t index)
{
    int n = array->ndim;
    *plane = (struct web_plane){ .data = array->data, .width = 1, .height = 1, .components = 1, .dtype = array->dtype };
    for (int i = 0; i < n; i++)
        if (array->shape[i] < 1 || array->shape[i] > INT32_MAX)
            return false;
    if (!is_number(array->dtype))
        return false;
    if (array->image.pixel_format != SLUICE_PIXEL_NONE)
        return index == 0 && of_image(plane, array);
    bool last = n >= 3 && array->shape[n - 1] <= 4;
    int x = last ? n - 2 : n - 1, y = x - 1;
    if (last) {
        plane->components = (uint32_t)array->shape[n - 1];
        plane->step_component = array->strides[n - 1];
    }
    if (x >= 0) {
        plane->width = (uint32_t)array->shape[x];
        plane->step_x = array->strides[x];
    }
    if (y >= 0) {
        plane->height = (uint32_t)array->shape[y];
        plane->step_y = array->strides[y];
    }
    return choose(plane, array, n < 2 ? n : 2 + last, index);
}

static double signed_value(const uint8_t *at, unsigned bits)
{
    int8_t a;
    int16_t b;
    int32_t c;
    int64_t d;
    switch (bits) {
    case 8: return memcpy(&a, at, 1), a;
    case 16: return memcpy(&b, at, 2), b;
    case 32: return memcpy(&c, at, 4), c;
    default: return memcpy(&d, at, 8), (double)d;
    }
}

static double unsigned_value(const uint8_t *at, unsigned bits)
{
    uint16_t b;
    uint32_t c;
    uint64_t d;
    switch (bits) {
    case 8: return *at;
    case 16: return memcpy(&b, at, 2), b;
    case 32: return memcpy(&c, at, 4), c;
    default: return memcpy(&d, at, 8), (double)d;
    }
}

static double float_value(const uint8_t *at, unsigned bits)
{
    uint16_t half;
    float single;
    double number;
    switch (bits) {
    case 16: return memcpy(&half, at, 2), half_to_float(half);
    case 32: return memcpy(&single, at, 4), single;
    default: return memcpy(&number, at, 8), number;
    }
}

static double bfloat_value(const uint8_t *at)
{
    uint16_t half;
    float value;
    memcpy(&half, at, 2);
    uint32_t word = (uint32_t)half << 16;
    memcpy(&value, &word, 4);
    return value;
}

double web_plane_value(const struct web_plane *plane, uint32_t x, uint32_t y, uint32_t component)
{
    const uint8_t *at = plane->data + x * plane->step_x + y * plane->step_y + component * plane->step_component;
    switch (plane->dtype.code) {
    case SLUICE_INT: return signed_value(at, plane->dtype.bits);
    case SLUICE_FLOAT: return float_value(at, plane->dtype.bits);
    case SLUICE_BFLOAT: return bfloat_value(at);
    default: return unsigned_value(at, plane->dtype.bits);
    }
}

void web_plane_range(const struct web_plane *plane, double *low, double *high)
{
    uint32_t over_x = plane->width / SAMPLES + 1, over_y = plane->height / SAMPLES + 1;
    *low = INFINITY;
    *high = -INFINITY;
    for (uint32_t y = 0; y < plane->height; y += over_y)
        for (uint32_t x = 0; x < plane->width; x += over_x) {
            double value = web_plane_value(plane, x, y, 0);
            if (!isfinite(value))
                continue;
            *low = fmin(*low, value);
            *high = fmax(*high, value);
        }
    if (!(*low < *high)) {
        *low = isfinite(*low) ? *low - 0.5 : 0;
        *high = *low + 1;
    }
}

/* From dark blue over purple and orange to pale yellow: lightness rises evenly, so it reads in gray, too. */
static void heat(double value, uint8_t rgb[3])
{
    static const uint8_t stops[][3] = { { 8, 8, 40 },     { 60, 16, 110 },  { 130, 30, 115 }, { 200, 50, 85 },
                                        { 240, 110, 40 }, { 250, 180, 45 }, { 252, 250, 180 } };
    double at = value * (sizeof stops / sizeof stops[0] - 1);
    unsigned i = at >= sizeof stops / sizeof stops[0] - 1 ? sizeof stops / sizeof stops[0] - 2 : (unsigned)at;
    for (int c = 0; c < 3; c++)
        rgb[c] = (uint8_t)(stops[i][c] + (stops[i + 1][c] - stops[i][c]) * (at - i) + 0.5);
}

static uint8_t level(double value)
{
    return value >= 255 ? 255 : value > 0 ? (uint8_t)(value + 0.5) : 0;
}

void web_plane_draw(const struct web_plane *plane, const struct sluice_array *to, double low, double high, bool colours)
{
    uint32_t width = to->image.width, height = to->image.height;
    uint8_t table[256][3];
    for (unsigned i = 0; i < 256; i++) {
        memset(table[i], (int)i, 3);
        if (colours)
            heat(i / 255.0, table[i]);
    }
    double scale = 255 / (high - low);
    bool rgb = !colours && plane->components >= 3 && plane->dtype.code == SLUICE_FLOAT;
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = (uint8_t *)to->data + y * to->image.planes[0].pitch;
        uint32_t from_y = (uint32_t)((uint64_t)y * plane->height / height);
        for (uint32_t x = 0; x < width; x++, row += 3) {
            uint32_t from_x = (uint32_t)((uint64_t)x * plane->width / width);
            memcpy(row, table[level((web_plane_value(plane, from_x, from_y, 0) - low) * scale)], 3);
            for (uint32_t i = 1; rgb && i < 3; i++)
                row[i] = level((web_plane_value(plane, from_x, from_y, i) - low) * scale);
        }
    }
}
