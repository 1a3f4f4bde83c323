/* SPDX-License-Identifier: MIT
 *
 * Channels and formats as text and JSON; querying and opening channels.
 */
#include "describe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "term.h"

#define FIRST_TIMEOUT (250 * SLUICE_MS) /* a healthy writer answers sooner */
#define WAIT_SLICE    (100 * SLUICE_MS) /* how long a signal to stop may go unnoticed */
#define OPEN_SLICE    (200 * SLUICE_MS)

char *text_array(char text[FORMAT_TEXT], const struct sluice_array *array)
{
    char type[32];
    if (array->image.pixel_format) {
        snprintf(text, FORMAT_TEXT, "%ux%u %s", array->image.width, array->image.height,
                 sluice_pixel_format_name(array->image.pixel_format));
        return text;
    }
    if (sluice_dtype_format(array->dtype, type, sizeof type) != SLUICE_OK)
        snprintf(type, sizeof type, "?");
    size_t used = (size_t)snprintf(text, FORMAT_TEXT, "%s[", type);
    for (int i = 0; i < array->ndim && used < FORMAT_TEXT - 24; i++)
        used += (size_t)snprintf(text + used, FORMAT_TEXT - used, "%s%" PRId64, i ? "," : "", array->shape[i]);
    snprintf(text + used, FORMAT_TEXT - used, "]");
    return text;
}

char *text_format(char text[FORMAT_TEXT], const struct sluice_format *format)
{
    if (format->array_count == 0) {
        snprintf(text, FORMAT_TEXT, "-");
        return text;
    }
    text_array(text, &format->arrays[0]);
    size_t used = strlen(text);
    if (format->array_count > 1)
        snprintf(text + used, FORMAT_TEXT - used, " +%u", format->array_count - 1);
    return text;
}

bool same_format(const struct sluice_format *a, const struct sluice_format *b)
{
    return a->array_count == b->array_count && a->pitch_align == b->pitch_align &&
           memcmp(a->arrays, b->arrays, a->array_count * sizeof a->arrays[0]) == 0;
}

const char *mode_name(uint32_t mode)
{
    return mode == SLUICE_IN_ORDER ? "in order" : mode == SLUICE_NEWEST ? "newest" : "?";
}

char *text_mode(char text[MODE_TEXT], const struct sluice_reader_info *reader)
{
    size_t used = (size_t)snprintf(text, MODE_TEXT, "%s%s%s", mode_name(reader->mode),
                                   reader->writable ? ", may write" : "", reader->ahead ? ", ahead" : "");
    if (reader->parked)
        snprintf(text + used, MODE_TEXT - used, " (%u parked)", reader->parked);
    return text;
}

char *text_uuid(char text[UUID_TEXT], const struct sluice_channel_info *info)
{
    static const unsigned char none[16];
    size_t used = 0;
    text[0] = 0;
    if (memcmp(info->device_uuid, none, sizeof none) == 0)
        return text;
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(text + used, UUID_TEXT - used, "%s%02x",
                                 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", info->device_uuid[i]);
    return text;
}

char *text_device(char text[DEVICE_TEXT], const struct sluice_channel_info *info)
{
    char uuid[UUID_TEXT];
    text_uuid(uuid, info);
    if (uuid[0])
        snprintf(text, DEVICE_TEXT, "%.31s (GPU %.8s)", info->device, uuid);
    else
        snprintf(text, DEVICE_TEXT, "%.31s", info->device);
    return text;
}

const char *channel_state(bool live, int result)
{
    if (!live)
        return "dead";
    switch (result) {
    case SLUICE_OK: return "live";
    case SLUICE_TIMEOUT: return "stuck";
    case SLUICE_NOT_READY: return "unfinished";
    case SLUICE_E_NOT_FOUND: return "dead";
    case SLUICE_E_PERMISSION: return "refused";
    case SLUICE_E_VERSION: return "version";
    default: return "odd";
    }
}

bool has_own_channels(void)
{
    return sluice_registry_folder()[0] != 0;
}

void print_no_channels(void)
{
    printf("no channels%s%s\n", has_own_channels() ? " in " : "", sluice_registry_folder());
}

int list_channels(struct sluice_registry_entry **entries, size_t *count)
{
    size_t capacity = 64;
    *entries = NULL;
    for (;;) {
        struct sluice_registry_entry *more = realloc(*entries, capacity * sizeof **entries);
        int result = more ? sluice_registry_list(NULL, more, capacity, count) : SLUICE_E_NO_MEMORY;
        if (more)
            *entries = more;
        if (result == SLUICE_OK && *count > capacity) {
            capacity = *count + 16;
            continue;
        }
        if (result) {
            free(*entries);
            *entries = NULL;
        }
        if (result && !has_own_channels()) {
            *count = 0;
            return SLUICE_OK;
        }
        return result;
    }
}

bool process_is_stopped(uint32_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = pid ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = 0;
    const char *state = strrchr(text, ')'); /* the program's name before it may contain anything */
    return state && state[1] == ' ' && (state[2] == 'T' || state[2] == 't');
}

int query_channel(const char *name, uint32_t pid, int64_t until_ns, const atomic_bool *stop,
                  struct sluice_channel_info *info, struct sluice_reader_info *readers, uint32_t capacity)
{
    int result;
    for (int64_t timeout = FIRST_TIMEOUT;; timeout *= 2) {
        result = sluice_channel_info(name, timeout, info, readers, capacity);
        if (result != SLUICE_TIMEOUT || now_ns() >= until_ns || process_is_stopped(pid) || (stop && atomic_load(stop)))
            return result;
    }
}

static void json_image(struct json *json, const struct sluice_image *image)
{
    static const char *const ranges[] = { "unknown", "limited", "full" };
    static const char *const alphas[] = { "unknown", "straight", "premultiplied", "opaque" };
    json_key(json, "image");
    json_object(json);
    json_pair_string(json, "pixel_format", sluice_pixel_format_name(image->pixel_format));
    json_pair_uint(json, "width", image->width);
    json_pair_uint(json, "height", image->height);
    json_key(json, "planes");
    json_array(json);
    for (uint32_t i = 0; i < image->plane_count && i < SLUICE_MAX_PLANES; i++) {
        json_object(json);
        json_pair_uint(json, "offset", image->planes[i].offset);
        json_pair_uint(json, "pitch", image->planes[i].pitch);
        json_close(json);
    }
    json_close_array(json);
    json_pair_uint(json, "primaries", image->colour.primaries);
    json_pair_uint(json, "transfer", image->colour.transfer);
    json_pair_uint(json, "matrix", image->colour.matrix);
    json_pair_string(json, "range", image->colour.range < 3 ? ranges[image->colour.range] : "?");
    json_pair_string(json, "row_order", image->row_order == SLUICE_BOTTOM_UP ? "bottom_up" : "top_down");
    json_pair_string(json, "alpha", image->alpha < 4 ? alphas[image->alpha] : "?");
    json_close(json);
}

void json_format(struct json *json, const struct sluice_format *format)
{
    json_object(json);
    json_pair_uint(json, "slot_bytes", format->slot_bytes);
    json_pair_uint(json, "pitch_align", format->pitch_align);
    json_key(json, "arrays");
    json_array(json);
    for (uint32_t i = 0; i < format->array_count && i < SLUICE_MAX_ARRAYS; i++) {
        const struct sluice_array *array = &format->arrays[i];
        char type[32] = "?";
        sluice_dtype_format(array->dtype, type, sizeof type);
        json_object(json);
        json_pair_string(json, "name", array->name);
        json_pair_string(json, "dtype", type);
        json_key(json, "shape");
        json_array(json);
        for (int k = 0; k < array->ndim && k < SLUICE_MAX_DIMS; k++)
            json_int(json, array->shape[k]);
        json_close_array(json);
        json_key(json, "strides");
        json_array(json);
        for (int k = 0; k < array->ndim && k < SLUICE_MAX_DIMS; k++)
            json_int(json, array->strides[k]);
        json_close_array(json);
        json_pair_uint(json, "offset", array->offset);
        json_pair_uint(json, "nbytes", array->nbytes);
        if (array->image.pixel_format)
            json_image(json, &array->image);
        json_close(json);
    }
    json_close_array(json);
    json_close(json);
}

void json_slots(struct json *json, const char *key, uint64_t slots)
{
    json_key(json, key);
    json_array(json);
    for (unsigned slot = 0; slot < 64; slot++)
        if (slots >> slot & 1)
            json_uint(json, slot);
    json_close_array(json);
}

int open_reader(const char *command, const struct sluice_reader_params *params, int64_t timeout_ns,
                sluice_reader **reader)
{
    int64_t end = now_ns() + timeout_ns, answer_end = now_ns() + WRITER_TIMEOUT;
    struct sluice_reader_params slice = *params;
    for (;;) {
        int64_t now = now_ns(), left = end - now;
        slice.open_timeout_ns = left < 0 ? 0 : left < OPEN_SLICE ? left : OPEN_SLICE;
        int result = sluice_reader_open(reader, &slice);
        if (result == SLUICE_OK)
            return EXIT_DONE;
        bool again =
            result == SLUICE_E_NOT_FOUND ? left > 0 : result == SLUICE_TIMEOUT && (left > 0 || now < answer_end);
        if (!again || stop_asked())
            return say_result(command, result, params->name);
        progress("waiting for the channel '%s'", params->name);
    }
}

void wait_for_slot(sluice_writer *writer)
{
    while (!stop_asked() && sluice_writer_wait(writer, WAIT_SLICE) == SLUICE_NO_SLOT)
        continue;
}

int select_array(const char *command, const struct sluice_frame *frame, const char *name, struct sluice_array *array)
{
    int result;
    for (uint32_t i = 0; !name && i < frame->array_count; i++)
        if (sluice_frame_array_at(frame, i, array) == SLUICE_OK && array->image.pixel_format)
            return EXIT_DONE;
    result = sluice_frame_array(frame, name, array);
    if (result == SLUICE_OK)
        return EXIT_DONE;
    say_result(command, result, NULL);
    return EXIT_FAILED;
}
