/* SPDX-License-Identifier: MIT
 *
 * A channel on a GPU within one process, and memory of every kind to copy from and into.
 */
#ifndef GPU_FIXTURES_H
#define GPU_FIXTURES_H

#include <sluice/sluice.h>

#include "gpu/kit.h"

/* Of a loop: shown with what fails. */
#define NOTE(...) (fprintf(stderr, "# " __VA_ARGS__), fprintf(stderr, "\n"))
#define U8        ((struct sluice_dtype){ SLUICE_UINT, 8, 1 })
#define F32       ((struct sluice_dtype){ SLUICE_FLOAT, 32, 1 })

#define LARGE     (5 * 1024 * 1024 + 4321) /* more than goes by way of the stages at once */

enum kind { PLAIN, PINNED, REGISTERED, OURS, OF_GPU, MANAGED, KINDS };

struct memory {
    enum kind kind;
    char *at;
    size_t size;
};

extern const char *const kind_names[];

struct memory memory_make(enum kind kind, size_t size);
void memory_drop(struct memory *memory);

/* All of it from the host, and back. */
void memory_put(struct memory *memory, const char *bytes);
void memory_get(char *bytes, const struct memory *memory);

/* From a GPU's address to the host. */
void copy_out(char *bytes, const void *at, size_t size);

char *pattern(size_t size, unsigned seed);

struct scene {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_cu_stream *native;
    sluice_writer *writer;
    sluice_reader *reader;
};

struct scene scene_begin(const struct sluice_format *format);
struct scene scene_by_graph(const struct sluice_format *format); /* its writer has `graph` */
struct scene scene_tensor(struct sluice_dtype dtype, int ndim, const int64_t *shape);
struct scene scene_bytes(int64_t bytes);
void scene_end(struct scene *scene);

struct sluice_array bytes_at(const void *at, int64_t bytes);
struct sluice_frame scene_acquire(struct scene *scene);

/* The newest frame's bytes are these. */
void scene_check(struct scene *scene, const char *expected, size_t size);

#endif
