/* SPDX-License-Identifier: MIT
 *
 * Data types by kind, bits and one flag, with the CUDA runtime's numbers for kinds. Types that
 * other programs treat as float32 because they do not know them are errors here.
 */
#include <inttypes.h>

#include "cuda_link/wire/format.h"
#include "util/result.h"

static const struct type {
    const char *name;
    struct sluice_dtype dtype;
    uint8_t kind, bits;
    uint16_t flag;
} types[] = {
    { "float32", { SLUICE_FLOAT, 32, 1 }, 2, 32, 0 },
    { "float16", { SLUICE_FLOAT, 16, 1 }, 2, 16, 0 },
    { "bfloat16", { SLUICE_BFLOAT, 16, 1 }, 2, 16, SL_CIPD_FLAG_BFLOAT16 },
    { "uint8", { SLUICE_UINT, 8, 1 }, 1, 8, 0 },
    { "uint16", { SLUICE_UINT, 16, 1 }, 1, 16, 0 },
    { "int8", { SLUICE_INT, 8, 1 }, 0, 8, 0 },
    { "int16", { SLUICE_INT, 16, 1 }, 0, 16, 0 },
};
enum { TYPES = sizeof(types) / sizeof(*types) };

static const struct type *by_dtype(struct sluice_dtype dtype)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype.code == dtype.code && types[i].dtype.bits == dtype.bits && dtype.lanes == 1)
            return &types[i];
    return NULL;
}

static const struct type *by_metadata(const struct sl_cipd_metadata *metadata)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].kind == metadata->kind && types[i].bits == metadata->bits &&
            types[i].flag == (metadata->flags & SL_CIPD_FLAG_BFLOAT16))
            return &types[i];
    return NULL;
}

const char *sl_cipd_format_dtype_name(struct sluice_dtype dtype)
{
    const struct type *type = by_dtype(dtype);
    return type ? type->name : NULL;
}

/* 0 if it does not fit in the field. */
static uint32_t frame_bytes(uint32_t width, uint32_t height, uint32_t components, uint32_t bits)
{
    uint64_t pixels = (uint64_t)width * height; /* cannot overflow 64 bits */
    uint64_t each = (uint64_t)components * (bits / 8);
    if (!pixels || !each || pixels > UINT32_MAX || each > UINT32_MAX || pixels * each > UINT32_MAX)
        return 0;
    return (uint32_t)(pixels * each);
}

static int check_flags(const struct sl_cipd_format *format)
{
    bool bytes = format->dtype.code == SLUICE_UINT && format->dtype.bits == 8;
    if (format->order == SL_CIPD_ORDER_BGRA && !(bytes && format->components == 4))
        return sl_fail(SLUICE_E_FORMAT,
                       "only four components of uint8 can be BGRA in a cuda-link channel, "
                       "not %" PRIu32 " of %s",
                       format->components, sl_cipd_format_dtype_name(format->dtype));
    if (format->mono_alpha && format->components != 2)
        return sl_fail(SLUICE_E_FORMAT, "grey with alpha has two components in a cuda-link channel, not %" PRIu32,
                       format->components);
    return 0;
}

int sl_cipd_format_encode(const struct sl_cipd_format *format, struct sl_cipd_metadata *metadata)
{
    const struct type *type = by_dtype(format->dtype);
    if (!type)
        return sl_fail(SLUICE_E_FORMAT,
                       "a cuda-link channel cannot carry data of code %u with %u bits and %u lanes: it "
                       "has float32, float16, bfloat16, uint8, uint16, int8 and int16",
                       format->dtype.code, format->dtype.bits, format->dtype.lanes);
    uint32_t bytes = frame_bytes(format->width, format->height, format->components, type->bits);
    if (!bytes)
        return sl_fail(SLUICE_E_FORMAT,
                       "a frame of %" PRIu32 " x %" PRIu32 " with %" PRIu32 " components of %s does not "
                       "fit a cuda-link channel: it takes at least a pixel, and less than 4 GiB",
                       format->width, format->height, format->components, type->name);
    int result = check_flags(format);
    if (result)
        return result;
    uint16_t flags = type->flag;
    if (format->order == SL_CIPD_ORDER_BGRA)
        flags |= SL_CIPD_FLAG_BGRA;
    if (format->mono_alpha)
        flags |= SL_CIPD_FLAG_MONO_ALPHA;
    *metadata = (struct sl_cipd_metadata){
        .width = format->width,
        .height = format->height,
        .components = format->components,
        .kind = type->kind,
        .bits = type->bits,
        .flags = flags,
        .bytes = bytes,
    };
    return 0;
}

/* If reserved flags are set, the writer does set flags, and has deliberately not set this one. */
static enum sl_cipd_order order_of(const struct type *type, const struct sl_cipd_metadata *metadata)
{
    if (type->dtype.code != SLUICE_UINT || type->bits != 8 || metadata->components != 4)
        return SL_CIPD_ORDER_NONE;
    if (metadata->flags & SL_CIPD_FLAG_BGRA)
        return SL_CIPD_ORDER_BGRA;
    return metadata->flags ? SL_CIPD_ORDER_OTHER : SL_CIPD_ORDER_UNDECLARED;
}

enum sl_cipd_format_fault sl_cipd_format_fault(const struct sl_cipd_metadata *metadata)
{
    if (!metadata->width || !metadata->height || !metadata->components)
        return SL_CIPD_FORMAT_EMPTY;
    const struct type *type = by_metadata(metadata);
    if (!type)
        return SL_CIPD_FORMAT_UNKNOWN;
    uint32_t bytes = frame_bytes(metadata->width, metadata->height, metadata->components, type->bits);
    return bytes && bytes == metadata->bytes ? SL_CIPD_FORMAT_GOOD : SL_CIPD_FORMAT_BYTES;
}

int sl_cipd_format_decode(const struct sl_cipd_metadata *metadata, struct sl_cipd_format *format)
{
    const struct type *type = by_metadata(metadata);
    switch (sl_cipd_format_fault(metadata)) {
    case SL_CIPD_FORMAT_EMPTY: return sl_fail(SLUICE_E_FORMAT, "the writer has not said how large a frame is");
    case SL_CIPD_FORMAT_UNKNOWN:
        return sl_fail(SLUICE_E_FORMAT,
                       "the writer's data type is none that is known: kind %u, %u bits, flags 0x%04x; "
                       "let it send float32, float16, bfloat16, uint8, uint16, int8 or int16",
                       metadata->kind, metadata->bits, metadata->flags);
    case SL_CIPD_FORMAT_BYTES:
        return sl_fail(SLUICE_E_FORMAT,
                       "the writer says that a frame of %" PRIu32 " x %" PRIu32 " with %" PRIu32
                       " components of %s has %" PRIu32 " bytes, which is not so",
                       metadata->width, metadata->height, metadata->components, type->name, metadata->bytes);
    case SL_CIPD_FORMAT_GOOD: break;
    }
    *format = (struct sl_cipd_format){
        .width = metadata->width,
        .height = metadata->height,
        .components = metadata->components,
        .dtype = type->dtype,
        .order = order_of(type, metadata),
        .mono_alpha = metadata->components == 2 && metadata->flags & SL_CIPD_FLAG_MONO_ALPHA,
        .bytes = metadata->bytes,
    };
    return 0;
}
