/* SPDX-License-Identifier: MIT
 *
 * Internals of copies on a GPU, shared by the files that implement them.
 */
#ifndef SL_COPY_CUDA_H
#define SL_COPY_CUDA_H

#include "copy/copy.h"
#include "cuda/cuda.h"
#include "device/device.h"
#include "sync/sync.h"

extern const struct sl_sync_ops sl_sync_cuda;

#define SL_COPY_TIMEOUT (10 * SLUICE_S) /* timeout for a stream that does not reach a copy */
#define SL_STAGE_BYTES  (UINT64_C(1) << 20)
#define SL_STAGES       2

/* The kind of a program's memory. */
enum sl_memory_kind {
    SL_MEMORY_PAGEABLE, /* pageable host memory, which only the CPU accesses */
    SL_MEMORY_PINNED,   /* pinned host memory, which the GPU copies directly */
    SL_MEMORY_GPU,      /* this GPU's, or managed */
    SL_MEMORY_PEER,     /* another GPU's or context's: sl_copy_side.context */
};

/* What the driver reported about a pointer. Valid for as long as the pointer is in the same buffer. */
struct sl_pointer_info {
    const void *first;
    uint64_t bytes;
    unsigned long long buffer; /* the driver's buffer ID; 0: nothing is known */
    enum sl_memory_kind memory;
    struct sl_cu_context *context;
};

#define SL_POINTER_INFOS 16
#define SL_PEERS         32

/* A pinned staging buffer between pageable host memory and the GPU. */
struct sl_stage {
    char *memory;
    struct sl_fence fence; /* of the copy that uses it; value 0: none */
    bool full;             /* after that copy the CPU copies `out` from it */
    struct sl_copy_part out;
};

struct sl_copy_gpu {
    struct sl_copier *copier;
    struct sluice_device device;
    struct sluice_stream stream;     /* our own, for programs that name none */
    struct sl_stream *own;           /* a reference to it */
    struct sl_cuda_context *context; /* the device's */

    void *page; /* the words of fences */
    uint64_t page_bytes;
    struct sl_sync_pages *pages;
    struct sl_fence_pool *fences;

    struct sl_graphs *graphs; /* NULL: sends use no graphs */

    sl_word32 abandoned; /* 1: a job's work was abandoned (sl_copy_job), of which no fence tells */
    sl_word checked;     /* the last stream that was found to be of this GPU; relaxed */
    sl_mutex known_lock; /* guards the members below, as several threads may fetch */
    struct sl_pointer_info known[SL_POINTER_INFOS];
    uint32_t next_known;
    struct sl_cuda_context *peers[SL_PEERS]; /* by ordinal; NULL until first used */

    sl_mutex stage_lock; /* held during a staged copy, which waits for the GPU */
    struct sl_stage stages[SL_STAGES];
    uint32_t next_stage;
};

/* ---- cuda_wait.c ---- */

/* Queues the raise of words on the job's stream. Inside sl_cuda_enter, as sl_copy_signal_fence. */
int sl_copy_signal(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count);

/* The same for a fence. If the stream captures since, and so does not tell when copies that were queued before have
 * ended, it waits for the capture's end for up to `patience_ns`. If the raise fails it waits for the stream for up to
 * SL_COPY_TIMEOUT, and settles the fence with the result. If the stream takes longer it settles it with the failure,
 * and returns SLUICE_TIMEOUT: the copies may be under way still. */
int sl_copy_signal_fence(struct sl_copy_job *job, const struct sl_fence *fence, int64_t patience_ns);

/* sl_fence_pool_wait for up to SL_COPY_TIMEOUT; sets an error message for SLUICE_TIMEOUT. */
int sl_copy_wait(struct sl_copy_gpu *gpu, const struct sl_fence *fence, int64_t spin_ns);

/* The same for copies without a fence: until all is done that is queued on the job's stream. */
int sl_copy_wait_stream(const struct sl_copy_job *job);

/* ---- cuda_pointer.c ---- */

/* Finds out in which kind of memory the side lies. SLUICE_E_INVALID if there is no such memory. Inside sl_cuda_enter.
 */
int sl_copy_classify(const struct sl_copy_job *job, struct sl_copy_side *side);
void sl_copy_forget_pointers(struct sl_copy_gpu *gpu);

/* ---- cuda_queue.c ---- */

/* The stream on which to queue work after the work on the job's stream, without affecting a capture; SLUICE_E_CAPTURING
 * if that captures a graph. Before each driver call, inside sl_cuda_enter; begin's answer is used for a prompt job's
 * first call. */
int sl_copy_target_stream(struct sl_copy_job *job, struct sl_cu_stream **target);

/* Can one driver call copy the part? */
bool sl_copy_is_single(const struct sl_copy_side *side, const struct sl_copy_part *part);

/* Is the part better gathered by the CPU than by a copy engine? */
bool sl_copy_is_scattered(const struct sl_copy_part *part);

/* Queues copies of the part, as few as possible. `side` is the program's. Inside sl_cuda_enter. */
int sl_copy_queue_part(struct sl_copy_job *job, const struct sl_copy_side *side, const struct sl_copy_part *part);

/* The same for one contiguous piece. */
int sl_copy_queue_run(struct sl_copy_job *job, const struct sl_copy_side *side, char *to, const char *from,
                      uint64_t bytes);

/* ---- cuda_graph.c: one thread at a time, like send ---- */

/* Makes gpu->graphs, unless graphs are switched off. */
int sl_graphs_begin(struct sl_copy_gpu *gpu);
void sl_graphs_end(struct sl_copy_gpu *gpu);

/* Destroys the graphs that copy into this memory. */
void sl_graphs_forget(struct sl_copy_gpu *gpu, const void *to, uint64_t bytes);

/* At the start of a send: no copies are held back. */
void sl_graphs_clear(struct sl_copy_gpu *gpu);

/* Holds the copy back for a graph. False: a graph cannot do it. `side` must stay valid until then. */
bool sl_graphs_hold(struct sl_copy_gpu *gpu, const struct sl_copy_side *side, const struct sl_copy *copy);

/* Holds back copies for which there already is a graph. False: there is none, or it is not the next in turn. */
bool sl_graphs_reuse(struct sl_copy_job *job, const struct sl_copy_key *key);

/* Launches the held copies as a graph; `raised`: the graph raises the words, too. SLUICE_NOT_READY if there is no graph
 * for them: nothing was queued. */
int sl_graphs_launch(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count, bool *raised);

/* The next launch will probably raise these: sets their values in its graph now, while the device is working, to save
 * that time at the launch. Inside sl_cuda_enter. */
void sl_graphs_prepare(struct sl_copy_gpu *gpu, const struct sl_signal *signals, uint32_t count);

/* Queues the held copies one by one, without a graph. Inside sl_cuda_enter. */
int sl_graphs_queue(struct sl_copy_job *job);

/* ---- cuda_stage.c ---- */

/* Copies by way of the staging buffers: the CPU copies one while the GPU copies the other. When it
 * returns the program's memory has been read or written. */
int sl_copy_staged(struct sl_copy_job *job, const struct sl_copy_side *side, const struct sl_copy *copy);
void sl_copy_stages_free(struct sl_copy_gpu *gpu);

#endif
