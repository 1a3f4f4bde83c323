/* SPDX-License-Identifier: MIT
 *
 * The format of a CIPD frame, as metadata on the wire and in Sluice's terms. A frame is a dense array
 * [height][width][components], rows without padding. This wire has no row order and no colour.
 */
#ifndef SL_CUDA_LINK_WIRE_FORMAT_H
#define SL_CUDA_LINK_WIRE_FORMAT_H

#include <sluice/format.h>

#include "cuda_link/wire/layout.h"

#define SL_CIPD_FLAG_BFLOAT16   0x0001 /* a part of the data type */
#define SL_CIPD_FLAG_MONO_ALPHA 0x0002 /* two components are grey and alpha, not red and green */
#define SL_CIPD_FLAG_BGRA       0x0004 /* four uint8 are stored B, G, R, A */

/* The component order of four uint8 according to the wire. */
enum sl_cipd_order {
    SL_CIPD_ORDER_NONE,       /* not four uint8 */
    SL_CIPD_ORDER_BGRA,       /* declared to be B, G, R, A */
    SL_CIPD_ORDER_OTHER,      /* other flags are set, so the writer would have set the flag for BGRA, too */
    SL_CIPD_ORDER_UNDECLARED, /* no flag: usually B, G, R, A from TouchDesigner, R, G, B, A from Python */
};

struct sl_cipd_format {
    uint32_t width, height, components;
    struct sluice_dtype dtype;
    enum sl_cipd_order order;
    bool mono_alpha;
    uint32_t bytes; /* of one frame */
};

/* The metadata for frames of this format; `order` BGRA sets its flag, other values set none. SLUICE_E_FORMAT
 * with a message: a data type that the wire has no number for, no pixels, 4 GiB or more, flags that do
 * not fit the components. Ignores `bytes` of `format`. */
int sl_cipd_format_encode(const struct sl_cipd_format *format, struct sl_cipd_metadata *metadata);

/* The opposite. SLUICE_E_FORMAT with a message: an unknown combination of kind, bits and flag; a size of 0; or `bytes`
 * that is not width * height * components * bits / 8. Reserved flags are ignored. */
int sl_cipd_format_decode(const struct sl_cipd_metadata *metadata, struct sl_cipd_format *format);

/* What is wrong with metadata. sl_cipd_format_fault sets no error message. */
enum sl_cipd_format_fault {
    SL_CIPD_FORMAT_GOOD,
    SL_CIPD_FORMAT_EMPTY,   /* a size of 0: not filled in yet */
    SL_CIPD_FORMAT_UNKNOWN, /* an unknown data type */
    SL_CIPD_FORMAT_BYTES,   /* `bytes` does not agree with the other fields */
};
enum sl_cipd_format_fault sl_cipd_format_fault(const struct sl_cipd_metadata *metadata);

/* "float32", "bfloat16" and so on; NULL if the wire has no such data type. */
const char *sl_cipd_format_dtype_name(struct sluice_dtype dtype);

#endif
