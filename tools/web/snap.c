/* SPDX-License-Identifier: MIT
 *
 * The same files as sluice snap writes, in memory.
 */
#include "snap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/json.h"
#include "../media/image_png.h"
#include "../media/npy.h"
#include "../media/pixels.h"
#include "picture.h"
#include "plane.h"

#define SNAP_MAX   (UINT64_C(512) << 20) /* bytes of a file */
#define VALUES_MAX 64                    /* pixels in a row, and rows */

void web_job_fail(struct web_job *job, unsigned status, const char *problem)
{
    job->status = status;
    snprintf(job->problem, sizeof job->problem, "%s", problem);
}

/* ---- files ---- */

static void make_png(struct web_job *job, const struct sluice_array *array)
{
    uint64_t pixels = (uint64_t)array->image.width * array->image.height;
    if (!pixels_channels(&array->image)) {
        web_job_fail(job, 422, "That array is not an image; ask for the .npy file, or for a .jpg in false colours.");
        return;
    }
    if (pixels * 8 > SNAP_MAX) {
        web_job_fail(job, 413, "The picture is too large for a PNG; sluice snap writes it.");
        return;
    }
    FILE *out = open_memstream(&job->bytes, &job->size);
    int result = out ? image_png_write(out, array) : SLUICE_E_NO_MEMORY;
    bool closed = out && fclose(out) == 0;
    if (result || !closed)
        web_job_fail(job, 500, sluice_result_text(result ? result : SLUICE_E_NO_MEMORY));
}

static void make_npy(struct web_job *job, const struct sluice_array *array)
{
    bool exact;
    if (array->nbytes > SNAP_MAX) {
        web_job_fail(job, 413, "The array is too large; sluice snap writes it.");
        return;
    }
    FILE *out = open_memstream(&job->bytes, &job->size);
    bool written = out && npy_write(out, array, &exact);
    bool closed = out && fclose(out) == 0;
    if (!written || !closed)
        web_job_fail(job, 500, sluice_result_text(SLUICE_E_NO_MEMORY));
}

/* ---- values ---- */

struct part {
    uint32_t x, y, width, height;
};

static void write_values(struct web_job *job, const struct web_plane *plane, const struct part *part, bool ranged)
{
    struct json json;
    double low, high;
    FILE *out = open_memstream(&job->bytes, &job->size);
    if (!out) {
        web_job_fail(job, 500, sluice_result_text(SLUICE_E_NO_MEMORY));
        return;
    }
    json_begin(&json, out, true);
    json_object(&json);
    json_pair_uint(&json, "x", part->x);
    json_pair_uint(&json, "y", part->y);
    json_pair_uint(&json, "width", plane->width);
    json_pair_uint(&json, "height", plane->height);
    json_pair_uint(&json, "planes", plane->count);
    if (ranged) {
        web_plane_range(plane, &low, &high);
        json_pair_double(&json, "low", low);
        json_pair_double(&json, "high", high);
    }
    json_key(&json, "values");
    json_array(&json);
    for (uint32_t y = part->y; y < part->y + part->height; y++) {
        json_array(&json);
        for (uint32_t x = part->x; x < part->x + part->width; x++) {
            json_array(&json);
            for (uint32_t c = 0; c < plane->components; c++)
                json_double(&json, web_plane_value(plane, x, y, c));
            json_close_array(&json);
        }
        json_close_array(&json);
    }
    json_close_array(&json);
    json_close(&json);
    json_end(&json);
    fclose(out);
}

/* Images of YUV have no samples of one pixel: shows them as RGB. */
static bool as_rgb(struct sluice_array *rgb, const struct sluice_array *array)
{
    return pixels_alloc(rgb, SLUICE_PIXEL_RGB24, array->image.width, array->image.height) == SLUICE_OK &&
           pixels_convert(rgb, array) == SLUICE_OK;
}

static void make_values(struct web_job *job, const struct sluice_array *array)
{
    const struct web_look *look = &job->request->look;
    struct sluice_array rgb = { 0 };
    struct web_plane plane;
    bool described = web_plane_of(&plane, array, look->index);
    if (!described && array->image.pixel_format != SLUICE_PIXEL_NONE)
        described = as_rgb(&rgb, array) && web_plane_of(&plane, &rgb, 0);
    if (!described) {
        web_job_fail(job, 422, "Its elements are no numbers, or there is no plane of that index.");
    } else if (look->crop_x >= plane.width || look->crop_y >= plane.height) {
        web_job_fail(job, 422, "The part is outside the picture.");
    } else {
        struct part part = { look->crop_x, look->crop_y, look->crop_width ? look->crop_width : 1,
                             look->crop_height ? look->crop_height : 1 };
        uint32_t right = plane.width - part.x, bottom = plane.height - part.y;
        part.width = part.width < right ? part.width : right;
        part.height = part.height < bottom ? part.height : bottom;
        part.width = part.width < VALUES_MAX ? part.width : VALUES_MAX;
        part.height = part.height < VALUES_MAX ? part.height : VALUES_MAX;
        write_values(job, &plane, &part, array->image.pixel_format == SLUICE_PIXEL_NONE || array->dtype.bits > 8);
    }
    free(rgb.data);
}

void web_job_run(struct web_job *job, const struct sluice_array *arrays, uint32_t count)
{
    const struct sluice_array *array = web_picture_choose(arrays, count, job->request->look.array);
    job->status = 200;
    if (!array)
        web_job_fail(job, 404, "The channel has no array of that name.");
    else if (job->request->route == WEB_PNG)
        make_png(job, array);
    else if (job->request->route == WEB_NPY)
        make_npy(job, array);
    else
        make_values(job, array);
}
