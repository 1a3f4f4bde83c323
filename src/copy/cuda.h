/* SPDX-License-Identifier: MIT
 *
 * Inside the copies of a GPU: what its files give each other.
 */
#ifndef SL_COPY_CUDA_H
#define SL_COPY_CUDA_H

#include "copy/copy.h"
#include "cuda/cuda.h"
#include "device/device.h"
#include "sync/sync.h"

extern const struct sl_sync_ops sl_sync_cuda;

#define SL_COPY_PATIENCE (10 * SLUICE_S) /* with a stream that does not get to a copy */
#define SL_STAGE_BYTES   (UINT64_C(1) << 20)
#define SL_STAGES        2

/* Where a program's memory lies. */
enum sl_place {
    SL_PLACE_PAGEABLE, /* only the CPU can read it */
    SL_PLACE_PINNED,   /* the CPU's, and the GPU copies from it */
    SL_PLACE_GPU,      /* this GPU's, or managed */
    SL_PLACE_PEER,     /* another GPU's or context's: sl_copy_side.context */
};

/* What the driver said of a pointer. It holds for as long as the pointer is in the same buffer. */
struct sl_known {
    const void *first;
    uint64_t bytes;
    unsigned long long buffer; /* 0: nothing is known */
    enum sl_place place;
    struct sl_cu_context *context;
};

#define SL_KNOWN 16
#define SL_PEERS 32

/* A pinned buffer on the way between the CPU and the GPU. */
struct sl_stage {
    char *memory;
    struct sl_mark mark;     /* of the copy that uses it; value 0: none */
    bool full;               /* and then the CPU copies */
    struct sl_copy_part out; /* this out of it */
};

struct sl_copy_gpu {
    struct sl_copier *copier;
    struct sluice_device device;
    struct sluice_stream stream; /* our own, for programs that name none, */
    struct sl_stream *own;       /* held */
    struct sl_cuda_context *context; /* the device's */

    void *page; /* of words */
    uint64_t page_bytes;
    struct sl_sync_pages *pages;
    struct sl_desk *desk;

    struct sl_graphs *graphs; /* NULL: no send is one */

    sl_word checked; /* the stream that was found to be of this GPU last; relaxed */
    sl_mutex known_lock; /* guards what follows, where several threads fetch */
    struct sl_known known[SL_KNOWN];
    uint32_t next_known;
    struct sl_cuda_context *peers[SL_PEERS]; /* by ordinal, once they were met */

    sl_mutex stage_lock; /* held while a copy goes by way of the stages, which waits for the GPU */
    struct sl_stage stages[SL_STAGES];
    uint32_t next_stage;
};

/* ---- cuda.c ---- */

/* Where calls come behind the work on the job's stream and disturb nobody's capture; SLUICE_E_CAPTURING if it captures
 * a graph. Before each call, inside sl_cuda_enter; what begin asked holds for the first call of a prompt job. */
int sl_copy_place(struct sl_copy_job *job, struct sl_cu_stream **place);

/* Raises a mark behind what is queued on the job's stream. If that fails it is raised when the
 * stream is done, or settled with the failure. */
int sl_copy_raise(struct sl_copy_job *job, const struct sl_mark *mark);

/* sl_desk_wait with our patience: SLUICE_TIMEOUT has its sentence. */
int sl_copy_wait(struct sl_copy_gpu *gpu, const struct sl_mark *mark, int64_t spin_ns);

/* ---- cuda_pointer.c ---- */

/* Finds out where the side lies. SLUICE_E_INVALID if there is no such memory. Inside sl_cuda_enter. */
int sl_copy_look(const struct sl_copy_job *job, struct sl_copy_side *side);
void sl_copy_forget(struct sl_copy_gpu *gpu);

/* ---- cuda_queue.c ---- */

/* Does one call of the driver copy it? */
bool sl_copy_is_one(const struct sl_copy_side *side, const struct sl_copy_part *part);

/* Would the part be better gathered by the CPU than by a copy engine? */
bool sl_copy_is_fine(const struct sl_copy_part *part);

/* Queues the part as few copies. `side` is the program's. Inside sl_cuda_enter. */
int sl_copy_queue_part(struct sl_copy_job *job, const struct sl_copy_side *side,
                       const struct sl_copy_part *part);

/* The same of one piece. */
int sl_copy_queue_run(struct sl_copy_job *job, const struct sl_copy_side *side, char *to,
                      const char *from, uint64_t bytes);

/* ---- cuda_graph.c: of one thread at a time, as send is ---- */

/* Makes gpu->graphs, unless they are switched off. */
int sl_graphs_begin(struct sl_copy_gpu *gpu);
void sl_graphs_end(struct sl_copy_gpu *gpu);

/* What copies into this memory goes. */
void sl_graphs_forget(struct sl_copy_gpu *gpu, const void *to, uint64_t bytes);

/* A send begins: nothing is held back. */
void sl_graphs_clear(struct sl_copy_gpu *gpu);

/* Holds the copy back. False: it is none for a graph. The side stays. */
bool sl_graphs_hold(struct sl_copy_gpu *gpu, const struct sl_copy_side *side, const struct sl_copy *copy);

/* Holds back what a graph is there for already. False: it is not known, or not the next in turn. */
bool sl_graphs_again(struct sl_copy_job *job, const struct sl_copy_key *key);

/* Launches what was held back as a graph; `raised`: it raises the words, too. SLUICE_NOT_READY if there is no graph
 * for that: nothing was queued. */
int sl_graphs_launch(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count, bool *raised);

/* The next launch will probably raise these: its graph gets their values now, while the device is at work, and need not
 * then. Inside sl_cuda_enter. */
void sl_graphs_prepare(struct sl_copy_gpu *gpu, const struct sl_signal *signals, uint32_t count);

/* Or queues it, copy by copy. Inside sl_cuda_enter. */
int sl_graphs_queue(struct sl_copy_job *job);

/* ---- cuda_stage.c ---- */

/* Copies by way of the stages: one is copied by the CPU while the other is by the GPU. When it
 * returns the program's memory has been read or written. */
int sl_copy_staged(struct sl_copy_job *job, const struct sl_copy_side *side,
                   const struct sl_copy *copy);
void sl_copy_stages_free(struct sl_copy_gpu *gpu);

#endif
