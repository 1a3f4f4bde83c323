/* SPDX-License-Identifier: MIT
 *
 * A channel on a GPU within one process, and memory of every kind to copy from and into.
 */
#ifndef GPU_FIXTURES_H
#define GPU_FIXTURES_H

#include <sluice/sluice.h>

#include "gpu/kit.h"

/* In a loop: shown with a failure. */
#define NOTE(...) (fprintf(stderr, "# " __VA_ARGS__), fprintf(stderr, "\n"))
#define U8        ((struct sluice_dtype){ SLUICE_UINT, 8, 1 })
#define F32       ((struct sluice_dtype){ SLUICE_FLOAT, 32, 1 })

#define LARGE (5 * 1024 * 1024 + 4321) /* more than the staging buffers hold at once */

enum kind { PLAIN, PINNED, REGISTERED, OURS, OF_GPU, MANAGED, KINDS };

struct memory {
    enum kind kind;
    char *at;
    size_t size;
};

extern const char *const kind_names[];

struct memory memory_make(enum kind kind, size_t size);
void memory_drop(struct memory *memory);

/* Copies all of it from the host, and back. */
void memory_put(struct memory *memory, const char *bytes);
void memory_get(char *bytes, const struct memory *memory);

/* From a GPU address to the host. */
void copy_out(char *bytes, const void *at, size_t size);

char *pattern(size_t size, unsigned seed);

struct fixture {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_cu_stream *native;
    sluice_writer *writer;
    sluice_reader *reader;
};

struct fixture fixture_begin(const struct sluice_format *format);
struct fixture fixture_by_graph(const struct sluice_format *format); /* its writer has `graph` */
struct fixture fixture_tensor(struct sluice_dtype dtype, int ndim, const int64_t *shape);
struct fixture fixture_bytes(int64_t bytes);
void fixture_end(struct fixture *fixture);

struct sluice_array bytes_at(const void *at, int64_t bytes);
struct sluice_frame fixture_acquire(struct fixture *fixture);

/* Checks the bytes of the newest frame. */
void fixture_check(struct fixture *fixture, const char *expected, size_t size);

#endif
