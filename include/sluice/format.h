/* SPDX-License-Identifier: MIT
 *
 * What a frame holds: 1 to 16 named arrays, each with a data type, a shape, strides and an offset in
 * the slot. An array may be an image, with a pixel format and up to 4 planes.
 *
 * A channel's format gives the capacities. Each frame carries its own shapes within them.
 */
#ifndef SLUICE_FORMAT_H
#define SLUICE_FORMAT_H

#include <sluice/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_MAX_ARRAYS 16
#define SLUICE_MAX_DIMS   8
#define SLUICE_MAX_PLANES 4
#define SLUICE_ARRAY_NAME 32 /* bytes, including the terminating NUL */

/* Data types have DLPack's layout and codes (dlpack.h 1.1, DLDataType), so that one can be copied into
 * the other as it is. `bits` is the size of one lane. */
enum sluice_dtype_code {
    SLUICE_INT = 0,
    SLUICE_UINT = 1,
    SLUICE_FLOAT = 2,
    SLUICE_BFLOAT = 4,
    SLUICE_COMPLEX = 5,
    SLUICE_BOOL = 6,
    SLUICE_FLOAT8_E3M4 = 7,
    SLUICE_FLOAT8_E4M3 = 8,
    SLUICE_FLOAT8_E4M3B11FNUZ = 9,
    SLUICE_FLOAT8_E4M3FN = 10,
    SLUICE_FLOAT8_E4M3FNUZ = 11,
    SLUICE_FLOAT8_E5M2 = 12,
    SLUICE_FLOAT8_E5M2FNUZ = 13,
    SLUICE_FLOAT8_E8M0FNU = 14,
};

struct sluice_dtype {
    uint8_t code;   /* enum sluice_dtype_code */
    uint8_t bits;   /* of one lane; a multiple of 8 */
    uint16_t lanes; /* 1 unless the element is a vector */
};

/* Pixel formats, named as in FFmpeg and DRM: bytes lie in memory in the order of the name
 * (RGBA: R first). The number is part of the wire; docs/formats.md shows every layout.
 * X(name, number, text) - the text is FFmpeg's name where it has one. */
#define SLUICE_PIXEL_FORMATS(X) \
    X(RGBA, 1, "rgba") \
    X(BGRA, 2, "bgra") \
    X(RGB24, 3, "rgb24") \
    X(BGR24, 4, "bgr24") \
    X(GRAY8, 5, "gray") \
    X(GRAY16, 6, "gray16le") \
    X(YUYV, 7, "yuyv422") \
    X(UYVY, 8, "uyvy422") \
    X(NV12, 9, "nv12") \
    X(YUV420P, 10, "yuv420p") \
    X(P010, 11, "p010le") \
    X(BAYER_RGGB8, 12, "bayer_rggb8") \
    X(BAYER_BGGR8, 13, "bayer_bggr8") \
    X(BAYER_GRBG8, 14, "bayer_grbg8") \
    X(BAYER_GBRG8, 15, "bayer_gbrg8") \
    X(BAYER_RGGB16, 16, "bayer_rggb16le") \
    X(BAYER_BGGR16, 17, "bayer_bggr16le") \
    X(BAYER_GRBG16, 18, "bayer_grbg16le") \
    X(BAYER_GBRG16, 19, "bayer_gbrg16le") \
    X(RGBA_F16, 20, "rgbaf16le") \
    X(RGBA_F32, 21, "rgbaf32le") \
    X(YUV444P, 22, "yuv444p") \
    X(GRAY_F32, 23, "grayf32le") \
    X(YUV422P, 24, "yuv422p") \
    X(YUV422P10, 25, "yuv422p10le") \
    X(RGBA64, 26, "rgba64le")

enum sluice_pixel_format {
    SLUICE_PIXEL_NONE = 0, /* the array is not an image */
#define SLUICE_PIXEL_ENTRY(name, number, text) SLUICE_PIXEL_##name = number,
    SLUICE_PIXEL_FORMATS(SLUICE_PIXEL_ENTRY)
#undef SLUICE_PIXEL_ENTRY
};
#define SLUICE_PIXEL_I420 SLUICE_PIXEL_YUV420P

/* Colour, with the numbers of ITU-T H.273 (also used by FFmpeg's AVColorPrimaries and so on).
 * Here 0 in any field means unknown; H.273's own 0 (identity) for `matrix` is SLUICE_MATRIX_RGB. */
struct sluice_colour {
    uint8_t primaries; /* 1 BT.709, 9 BT.2020, 12 Display P3, ... */
    uint8_t transfer;  /* 1 BT.709, 8 linear, 13 sRGB, 16 PQ, 18 HLG, ... */
    uint8_t matrix;    /* 1 BT.709, 6 BT.601, 9 BT.2020 NCL, 255 RGB */
    uint8_t range;     /* enum sluice_range */
};
#define SLUICE_MATRIX_RGB 255
enum sluice_range { SLUICE_RANGE_UNKNOWN = 0, SLUICE_RANGE_LIMITED = 1, SLUICE_RANGE_FULL = 2 };
enum sluice_row_order { SLUICE_TOP_DOWN = 0, SLUICE_BOTTOM_UP = 1 };
enum sluice_alpha {
    SLUICE_ALPHA_UNKNOWN = 0,
    SLUICE_ALPHA_STRAIGHT = 1,
    SLUICE_ALPHA_PREMULTIPLIED = 2,
    SLUICE_ALPHA_OPAQUE = 3
};

struct sluice_plane {
    uint64_t offset; /* bytes, from the array's first byte */
    uint64_t pitch;  /* bytes from one row to the next */
};

struct sluice_image {
    uint32_t pixel_format; /* enum sluice_pixel_format; 0: not an image */
    uint32_t width;        /* pixels */
    uint32_t height;       /* rows */
    uint32_t plane_count;
    struct sluice_plane planes[SLUICE_MAX_PLANES];
    struct sluice_colour colour;
    uint8_t row_order; /* enum sluice_row_order */
    uint8_t alpha;     /* enum sluice_alpha */
    uint8_t reserved[2];
};

/* One array: its capacity in a format, its contents in a frame. */
struct sluice_array {
    char name[SLUICE_ARRAY_NAME]; /* unique in the frame; letters, digits, '_', '.', '-' */
    void *data;                   /* first byte; NULL in a format */
    uint64_t offset;              /* of the first byte, from the start of the slot */
    uint64_t nbytes;              /* from the first byte to the end of the last element */
    struct sluice_dtype dtype;
    int32_t ndim; /* 0 to 8 */
    int64_t shape[SLUICE_MAX_DIMS];
    int64_t strides[SLUICE_MAX_DIMS]; /* in BYTES, as in NumPy; all 0 in a format: filled in */
    struct sluice_image image;        /* pixel_format 0: not an image */
    uint32_t read_only;               /* 1: data must not be written */
    uint32_t reserved[3];
};

struct sluice_format {
    uint32_t size; /* sizeof(struct sluice_format); set by SLUICE_FORMAT_INIT */
    uint32_t array_count;
    uint32_t pitch_align; /* alignment of image rows in bytes, a power of two up to 65,536;
                             0 or 1: no padding */
    uint32_t reserved;
    uint64_t slot_bytes; /* size of a slot; filled in by the library */
    struct sluice_array arrays[SLUICE_MAX_ARRAYS];
};

/* Sets everything to its default: struct sluice_format f = SLUICE_FORMAT_INIT; */
#ifdef __cplusplus
} /* extern "C" */
static inline struct sluice_format sluice_format_init(void)
{
    struct sluice_format f {
    };
    f.size = static_cast<uint32_t>(sizeof f);
    return f;
}
#define SLUICE_FORMAT_INIT sluice_format_init()
extern "C" {
#else
#define SLUICE_FORMAT_INIT \
    { \
        .size = (uint32_t)sizeof(struct sluice_format) \
    }
#endif

/* Adds a C-ordered tensor to a format. `shape` is its capacity: no frame may be larger in bytes.
 * Thread: one at a time on a format.
 * Returns: 0; SLUICE_E_FORMAT for a bad name, type or shape, or a 17th array. */
SLUICE_API int sluice_format_add_tensor(struct sluice_format *format, const char *name, struct sluice_dtype dtype,
                                        int ndim, const int64_t *shape);

/* Adds an image; its planes and pitches follow from `pixel_format` and format->pitch_align. The array's
 * shape is what NumPy and OpenCV users expect: (H, W, C) for packed formats, (H, W) for gray and
 * Bayer, (H, W, 2) for YUYV and UYVY, (H*3/2, W) for NV12, YUV420P and P010, (2*H, W) for YUV422P and
 * YUV422P10, (3*H, W) for YUV444P.
 * Where no shape describes the memory (YUV420P with padded rows, planes placed by hand) the array has one
 * dimension over all its bytes, and only `planes` describes the layout.
 * Thread: one at a time on a format.
 * Returns: 0; SLUICE_E_FORMAT for a bad name, or a width or height of 0, over 65,536, or odd where chroma is halved. */
SLUICE_API int sluice_format_add_image(struct sluice_format *format, const char *name,
                                       enum sluice_pixel_format pixel_format, uint32_t width, uint32_t height);

/* Checks a format and fills in what follows from it: strides, planes, offsets, nbytes, slot_bytes.
 * The add functions and writer_open do this themselves; call it after changing fields by hand.
 * Thread: one at a time on a format.
 * Returns: 0; SLUICE_E_FORMAT, with a message that names the array and what is wrong with it. */
SLUICE_API int sluice_format_complete(struct sluice_format *format);

/* Finds an array by name in a format. Returns its index, or SLUICE_E_NOT_FOUND with a message that
 * lists the names.
 * Thread: any. */
SLUICE_API int sluice_format_find(const struct sluice_format *format, const char *name);

/* The name of a pixel format ("rgba"), or "none"; and the opposite: the format with that name, or 0 if there is none.
 * It accepts FFmpeg's names, the enum's names in upper or lower case, and "i420".
 * Thread: any. */
SLUICE_API const char *sluice_pixel_format_name(uint32_t pixel_format);
SLUICE_API uint32_t sluice_pixel_format_find(const char *name);

#define SLUICE_DTYPE_TEXT 24 /* bytes, enough for any data type's text and its terminating NUL */

/* Writes a data type into `text` as NumPy does ("uint8", "float16", "bfloat16", "float8_e4m3fn",
 * "float32x4"), and parses such a text.
 * Thread: any.
 * Returns: 0; SLUICE_E_FORMAT; SLUICE_E_INVALID for NULL or a `size` that is too small. */
SLUICE_API int sluice_dtype_format(struct sluice_dtype dtype, char *text, size_t size);
SLUICE_API int sluice_dtype_parse(const char *text, struct sluice_dtype *dtype);

/* Bytes of one element; 0 for a data type that does not exist. Thread: any. */
SLUICE_API uint32_t sluice_dtype_size(struct sluice_dtype dtype);

/* Fills in `array` to describe the program's own memory: a tensor whose first element is at `data`, ready for
 * sluice_writer_send or sluice_array_copy. `strides` are in bytes and used as given, including 0 and negative
 * ones; NULL: C order without gaps. `name` may be NULL. To describe an image, copy the array from a format that
 * has that image, and set `data`.
 * Thread: any.
 * Returns: 0; SLUICE_E_FORMAT. */
SLUICE_API int sluice_array_wrap(struct sluice_array *array, const char *name, void *data, struct sluice_dtype dtype,
                                 int ndim, const int64_t *shape, const int64_t *strides);

/* Copies `from` to `to`, both in host memory. They must have the same data type and shape; strides may differ,
 * and be negative on either side.
 * Two images of the same pixel format and size are copied plane by plane, whatever their pitches.
 * Thread: any.
 * Returns: 0; SLUICE_E_FORMAT if types, shapes or row orders differ; SLUICE_E_INVALID if there is no data, an
 * array has fewer bytes than its shape takes, `to` is read-only or its elements overlap, or the two arrays
 * share memory. */
SLUICE_API int sluice_array_copy(const struct sluice_array *to, const struct sluice_array *from);

#ifdef __cplusplus
}
#endif
#endif
