/* SPDX-License-Identifier: MIT
 *
 * The structs of DLPack's binary interface, up to version 1.3, under our own names.
 */
#ifndef SLUICE_PYTHON_DLPACK_H
#define SLUICE_PYTHON_DLPACK_H

#include <stdint.h>

#include <sluice/sluice.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };

#define DL_READ_ONLY UINT64_C(1)
#define DL_COPIED    UINT64_C(2)

struct dl_device {
    int32_t type, id;
};

struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    struct sluice_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: C order */
    uint64_t byte_offset;
};

struct dl_managed { /* before 1.0; capsule "dltensor" */
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *);
};

struct dl_version {
    uint32_t major, minor;
};

struct dl_versioned { /* capsule "dltensor_versioned" */
    struct dl_version version;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    struct dl_tensor tensor;
};

/* The exchange table, since 1.3: a type's attribute `__dlpack_c_exchange_api__`, a capsule of the
 * name "dlpack_exchange_api". None of its functions waits for a stream or makes one wait; those
 * that return int say 0, or -1 with an exception. */
struct dl_exchange {
    struct dl_version version;
    const struct dl_exchange *previous; /* of an older major version, or NULL */
    int (*allocate)(struct dl_tensor *like, struct dl_versioned **out, void *context,
                    void (*fail)(void *context, const char *kind, const char *message));
    int (*from_object)(void *object, struct dl_versioned **out);  /* the caller owns *out */
    int (*to_object)(struct dl_versioned *tensor, void **object); /* takes `tensor` over */
    int (*borrow)(void *object, struct dl_tensor *out);           /* or NULL; good while `object` is held */
    int (*current_stream)(int32_t type, int32_t id, void **stream);
};

#endif
