/* SPDX-License-Identifier: MIT
 *
 * What a CIPD frame holds, as its metadata say it and as Sluice says it. A frame is a dense array
 * [height][width][components], rows without padding. Row order and colour are not on this wire.
 */
#ifndef SL_WIRE_CIPD_FORMAT_H
#define SL_WIRE_CIPD_FORMAT_H

#include <sluice/format.h>

#include "wire/cipd/layout.h"

#define SL_CIPD_FLAG_BFLOAT16 0x0001   /* a part of the data type */
#define SL_CIPD_FLAG_MONO_ALPHA 0x0002 /* two components are grey and alpha, not red and green */
#define SL_CIPD_FLAG_BGRA 0x0004       /* four uint8 are stored B, G, R, A */

/* What the wire says of the order of four uint8. */
enum sl_cipd_order {
    SL_CIPD_ORDER_NONE,       /* not four uint8: there is no question */
    SL_CIPD_ORDER_BGRA,       /* said to be B, G, R, A */
    SL_CIPD_ORDER_OTHER,      /* other flags are set, so whoever set them would have said BGRA */
    SL_CIPD_ORDER_UNDECLARED, /* no flag: B, G, R, A by TouchDesigner's habit, R, G, B, A by Python's */
};

struct sl_cipd_format {
    uint32_t width, height, components;
    struct sluice_dtype dtype;
    enum sl_cipd_order order;
    bool mono_alpha;
    uint32_t bytes; /* of one frame */
};

/* The metadata of frames of this kind; `order` BGRA sets its flag, every other value sets none. SLUICE_E_FORMAT
 * with a sentence: a data type that the wire has no number for, no pixel, 4 GiB or more, flags that do
 * not fit the components. `bytes` of `format` is not looked at. */
int sl_cipd_format_encode(const struct sl_cipd_format *format, struct sl_cipd_metadata *metadata);

/* The opposite. SLUICE_E_FORMAT with a sentence: an unknown kind, bits and flag; a size of 0; or `bytes` that is
 * not width * height * components * bits / 8. Flags that are reserved are ignored. */
int sl_cipd_format_decode(const struct sl_cipd_metadata *metadata, struct sl_cipd_format *format);

/* What is wrong with metadata, without a sentence. */
enum sl_cipd_format_fault {
    SL_CIPD_FORMAT_GOOD,
    SL_CIPD_FORMAT_EMPTY,   /* a size of 0: not filled in yet */
    SL_CIPD_FORMAT_UNKNOWN, /* a data type that is none */
    SL_CIPD_FORMAT_BYTES,   /* the bytes of a frame are not what they must be */
};
enum sl_cipd_format_fault sl_cipd_format_fault(const struct sl_cipd_metadata *metadata);

/* "float32", "bfloat16" and so on; NULL if the wire has no such data type. */
const char *sl_cipd_format_dtype_name(struct sluice_dtype dtype);

#endif
