/* SPDX-License-Identifier: MIT
 *
 * Channels named "cipd:NAME": the protocol of cuda-link, so that its programs read what Sluice writes and the other
 * way round. The calls are those of every channel; this header has what such a channel adds. docs/cuda-link.md is
 * the guide.
 *
 * A cipd channel is a segment of shared memory with the handles of 1 to 10 slots on a GPU. Readers tell the writer
 * nothing, so what other channels promise it cannot:
 * - there are no leases: the writer always takes the oldest slot. While a reader looks at a frame the writer may
 *   rewrite it; sluice_reader_check and release say SLUICE_E_LOST when that may have happened, and with `copy` a reader
 *   gets copies that were whole;
 * - nobody is waited for, and nobody knows how many readers there are;
 * - readers' work could write to slots, and slots end with their writer.
 *
 * What a channel of this kind holds: one array of float32, float16, bfloat16, uint8, uint16, int8 or int16, with the
 * shape (height, width, components), or (height, width) for one component. Readers get three dimensions. A frame has a
 * time, capture_ns (the writer's commit), and no metadata; its sequence is the wire's count of frames: a
 * writer of Sluice's goes on where the one before it in the segment ended, others begin at 1.
 *
 * struct sluice_writer_params on such a channel: `device` must be a GPU, `slots` is 1 to 10 (0: 3), `no_graphs` as ever.
 * `policy` must be SLUICE_DROP, and max_slots, lease_timeout_ns, readers, writable, uids and gids must be 0: they would
 * promise what there is not (SLUICE_E_UNSUPPORTED). `wait_ns`: how long begin waits for the GPU to finish what it was
 * given for this slot before, and begin and send until one of the frames in the other slots is finished, which readers take
 * meanwhile: so no more than `slots` - 1 frames are under way (with one slot any number); 0: 1 s.
 * struct sluice_reader_params: `device` is the GPU that frames are used on, best the one that the writer uses. The wire does not tell
 * which that is; NULL: a reader that opens while there is a writer asks what Sluice's writers note, then the driver; else it is
 * "cuda:0". `hold` is 1 to 10. `mode` must be SLUICE_NEWEST, and depth, staged and uids must be 0, every 0 or 1: readers
 * take the newest frame, as nothing keeps older ones. `writable`: 1 only leaves out the mark that says read-only. `ahead` with
 * a stream: see `ahead` below. `spin_ns` is for the next frame, as ever.
 *
 * Calls that differ:
 * - sluice_writer_open takes the place of a writer of Sluice's that was killed at once, of another program's 1.5 s after its last
 *   frame: until then it looks whether another comes (SLUICE_E_EXISTS), for such a program's death shows by nothing else.
 *   One that is slower and lives is noticed when it publishes again: begin and send say SLUICE_E_EXISTS from then on;
 * - begin and send skip a frame while an activation barrier is up, and when wait_ns is over: SLUICE_NO_SLOT, and it counts
 *   as dropped;
 * - one frame at a time is begun: SLUICE_E_BUSY for a second one. It lies in the slot that is next;
 * - commit and send on a stream publish at once, as cuda-link does; readers wait for the slot's event, and acquire gives the
 *   newest frame that is finished;
 * - sluice_writer_reformat makes new slots and a new session on the wire; a send of another size does so, too. commit says
 *   SLUICE_E_UNSUPPORTED to a frame that was given another shape: it has the channel's;
 * - acquire says SLUICE_CLOSED when the writer has shut the channel, until another comes; SLUICE_NO_WRITER when there is no segment, or the writer is
 *   known to be dead; SLUICE_E_LOST for a frame that was published and is not finished within `wait_ns`; SLUICE_AGAIN
 *   where a copy was torn each time it was tried. It follows new sessions by itself;
 * - frame->flags has SLUICE_FRAME_NEW_SESSION whenever the wire's version has changed: all arrays lie elsewhere then.
 */
#ifndef SLUICE_CIPD_H
#define SLUICE_CIPD_H

#include <sluice/base.h>
#include <sluice/format.h>
#include <sluice/frame.h>
#include <sluice/reader.h>
#include <sluice/writer.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_CIPD_MAX_SLOTS 10
#define SLUICE_CIPD_MAX_NAME 255 /* bytes of NAME in "cipd:NAME": printable ASCII without '/', not beginning with a dot;
                                    '>' and spaces are fine. A writer's may have 234 */

/* A choice whose default depends. */
enum sluice_cipd_switch {
    SLUICE_CIPD_USUAL = 0, /* as said at each */
    SLUICE_CIPD_ON = 1,
    SLUICE_CIPD_OFF = 2,
};

/* The order of four uint8. The wire has a flag for BGRA and none for RGBA, and many writers of BGRA do not set it. */
enum sluice_cipd_order {
    SLUICE_CIPD_UNKNOWN = 0,
    SLUICE_CIPD_RGBA = 1,
    SLUICE_CIPD_BGRA = 2,
};

/* What two components are. */
enum sluice_cipd_pair {
    SLUICE_CIPD_AS_FLAGGED = 0, /* mono and alpha if the wire's flag says so, else red and green */
    SLUICE_CIPD_MONO_ALPHA = 1,
    SLUICE_CIPD_RED_GREEN = 2,
};

/* sluice_writer_params.cipd points to one; NULL: all of it is as usual. Zero is the usual value everywhere. */
struct sluice_cipd_writer_params {
    uint32_t size;            /* set by SLUICE_CIPD_WRITER_PARAMS_INIT */
    uint32_t block;           /* 1: commit and send return when the GPU has finished the frame, and publish it then. Else
                                 readers may know of it before; they wait for it */
    uint32_t graph;           /* enum sluice_cipd_switch; usual: on, but with sluice_writer_params.no_graphs */
    uint32_t order;           /* enum sluice_cipd_order of four uint8; an image's pixel format says it, too. BGRA sets
                                 the wire's flag */
    uint32_t mono_alpha;      /* 1: two components are mono and alpha: sets the wire's flag */
    uint32_t flags;           /* more of the wire's flags, or-ed in; 16 bits, without those that the above set */
    uint32_t barrier;         /* enum sluice_cipd_switch; usual: on. Frames are skipped while an activation barrier is up */
    uint32_t holds_barrier;   /* 1: raises the barrier before it opens, and drops it after so many frames: */
    uint32_t settle_frames;   /* 0: 30 */
    uint32_t strict_device;   /* 1: send refuses memory that is not on this GPU: SLUICE_E_WRONG_DEVICE. Else it is copied from
                                 wherever it is */
    uint32_t priority;        /* enum sluice_cipd_switch; usual: on. Sends of SLUICE_ON_CPU are copied on a stream of the
                                 highest priority; those on a stream are copied on that stream */
    uint32_t doorbell;        /* enum sluice_cipd_switch; usual: on. Wakes readers of Sluice's that sleep; costs nothing
                                 while none does */
    int64_t barrier_stale_ns; /* a barrier that nobody has touched for so long does not count; 0: 5 s */
    const char *barrier_name; /* of the barrier's segment; NULL: cuda-link's, "cudalink_activation_barrier" */
    int64_t close_grace_ns;   /* how long memory stays after readers were told to let go; 0: 100 ms; -1: not at all */
};

/* sluice_reader_params.cipd points to one; NULL: all of it is as usual. Zero is the usual value everywhere. */
struct sluice_cipd_reader_params {
    uint32_t size;         /* set by SLUICE_CIPD_READER_PARAMS_INIT */
    uint32_t undeclared;   /* enum sluice_cipd_order: what four uint8 are taken for that no flag says anything of. RGBA is
                              what Python programs mean, BGRA what TouchDesigner means. UNKNOWN: the array is no image */
    uint32_t pair;         /* enum sluice_cipd_pair */
    uint32_t copy;         /* 1: acquire copies the frame within the GPU, and looks whether it was whole then; the frame that
                              it gives is the reader's own. Takes `hold` frames of memory. Once the writer has
                              overtaken a copy, the next are made in a turn of the GPU's (docs/cuda-link.md) */
    uint32_t reconnect;    /* enum sluice_cipd_switch; usual: on. Off: after SLUICE_CLOSED, or when the writer begins another
                              session, every acquire says SLUICE_CLOSED */
    uint32_t ahead;        /* enum sluice_cipd_switch; usual: as sluice_reader_params.ahead. An acquire on a stream gives a
                              frame that is not ready, SLUICE_FRAME_AHEAD, if none is that it has not taken: the stream waits for a word that the library
                              raises when the event is seen, or after ahead_ns, so it never waits for ever. Then the frame is
                              lost: release says so, and until it has, or the next acquire, nothing behind it is published.
                              At most 3 at once; else, and with `copy`, the CPU waits */
    int64_t wait_spin_ns;  /* the CPU asks for a frame's event so long without a pause, then now and then; 0: 200 us; -1:
                              never without a pause */
    int64_t wait_ns;       /* a frame that is not finished so long after it was seen is lost; 0: 5 s */
    int64_t stall_ns;      /* after so long without a frame the channel counts as stalled: info says so, and acquire's
                              sentence; 0: 2 s; -1: never. That the segment was replaced is seen after 250 ms, in any case */
};

#ifdef __cplusplus
} /* extern "C" */
static inline struct sluice_cipd_writer_params sluice_cipd_writer_params_init(void)
{
    struct sluice_cipd_writer_params p{};
    p.size = static_cast<uint32_t>(sizeof p);
    return p;
}
static inline struct sluice_cipd_reader_params sluice_cipd_reader_params_init(void)
{
    struct sluice_cipd_reader_params p{};
    p.size = static_cast<uint32_t>(sizeof p);
    return p;
}
#define SLUICE_CIPD_WRITER_PARAMS_INIT sluice_cipd_writer_params_init()
#define SLUICE_CIPD_READER_PARAMS_INIT sluice_cipd_reader_params_init()
extern "C" {
#else
#define SLUICE_CIPD_WRITER_PARAMS_INIT { .size = (uint32_t)sizeof(struct sluice_cipd_writer_params) }
#define SLUICE_CIPD_READER_PARAMS_INIT { .size = (uint32_t)sizeof(struct sluice_cipd_reader_params) }
#endif

/* Fills in what cuda-link's environment variables say (CUDALINK_EXPORT_SYNC and so on), as cuda-link reads them; what none
 * of them says becomes cuda-link's own default. NULL for what is not wanted. The library looks at no variable of cuda-link's
 * but here. Set their sizes first.
 * Thread: any, while nobody changes the environment.
 * Returns: 0; SLUICE_E_INVALID for a size that was not set. */
SLUICE_API int sluice_cipd_environment(struct sluice_cipd_writer_params *writer, struct sluice_cipd_reader_params *reader);

/* What becomes of one of cuda-link's environment variables. */
enum sluice_cipd_use {
    SLUICE_CIPD_UNUSED = 0, /* Sluice knows it, and it means nothing here */
    SLUICE_CIPD_USED = 1,   /* Sluice heeds it, by sluice_cipd_environment */
    SLUICE_CIPD_OTHERS = 2, /* programs of cuda-link's own read it, in TouchDesigner and around it */
    SLUICE_CIPD_IN_PYTHON = 3, /* the Python package's module sluice.cuda_link heeds it, nothing else does */
};

/* One of cuda-link's environment variables. */
struct sluice_cipd_variable {
    char name[64];
    char value[64];  /* as it is set, cut off if it is longer; "" if it is not */
    char usual[32];  /* its default */
    char what[160];  /* what it does here, or why it does nothing */
    uint32_t set;    /* 1: it is in the environment */
    uint32_t used;   /* enum sluice_cipd_use */
};

/* Lists all of them, those that mean nothing here as well. Up to `capacity` are written (NULL and 0 for none); *count says how
 * many there are.
 * Thread: any, while nobody changes the environment.
 * Returns: 0. */
SLUICE_API int sluice_cipd_variables(struct sluice_cipd_variable *variables, size_t capacity, size_t *count);

enum sluice_cipd_state {
    SLUICE_CIPD_ABSENT = 0,     /* no segment of that name, or its writer is known to be dead */
    SLUICE_CIPD_UNFINISHED = 1, /* a writer is filling the segment in, or what is in it makes no sense: the sentence of `why` */
    SLUICE_CIPD_RUNNING = 2,
    SLUICE_CIPD_STALLED = 3,    /* no frame for stall_ns: the writer pauses, hangs, or was killed */
    SLUICE_CIPD_SHUT = 4,       /* its writer has shut it */
};

struct sluice_cipd_slot_info {
    uint32_t memory_open;  /* 1: mapped here; by sluice_cipd_look: the segment has a handle of its memory */
    uint32_t event_open;   /* 1: it has an event that this process uses, or in a look a handle of one; 0: its frames are
                              finished when they are published */
    uint64_t frames;       /* taken from it, or published in it */
    int64_t last_wait_ns;  /* until its event was seen, at the last frame: what acquire, or a blocking send, waited */
    uint64_t address;      /* on the GPU; 0: not mapped */
    uint64_t reserved[2];
};

struct sluice_cipd_info {
    uint32_t size;
    uint32_t state;           /* enum sluice_cipd_state */
    char name[SLUICE_CIPD_MAX_NAME + 1];
    char why[256];            /* a sentence about a state other than RUNNING; else "" */
    uint64_t version;         /* the wire's number of the session */
    uint32_t index;           /* the wire's count of frames published in it; 0: none yet */
    uint32_t slot_count;
    uint32_t width, height, components;
    uint32_t flags;           /* as they are on the wire */
    struct sluice_dtype dtype;
    uint32_t frame_bytes;
    uint32_t order;           /* enum sluice_cipd_order, after the reader's policy */
    uint32_t order_declared;  /* 1: the wire says so */
    uint32_t mono_alpha;      /* 1: two components are mono and alpha */
    uint32_t writer_pid;      /* 0: not known; the wire does not tell, Sluice's writers do */
    uint32_t segment_bytes;
    uint32_t by_sluice;       /* 1: a writer of Sluice's made this session */
    int64_t last_frame_ns;    /* when the last one was published, CLOCK_MONOTONIC; 0: not known */
    /* a writer's own; in a reader's info 0 */
    uint64_t published, published_bytes;
    uint64_t barrier_skips;   /* frames that a barrier kept back */
    uint64_t failed;          /* frames that a failure kept back */
    uint64_t graph_frames;    /* published by a graph */
    uint64_t relinked;        /* times that another program took the segment's name away, and it was given back */
    uint32_t holds_barrier;   /* 1: now */
    uint32_t left_behind;     /* slots whose memory could not be freed in time, at changes of format */
    /* a reader's own; in a writer's info 0 */
    uint64_t taken;
    uint64_t no_frame;        /* acquires that had none to give */
    uint64_t timeouts;        /* frames that were not finished in time */
    uint64_t reconnects;      /* sessions after the first */
    uint64_t overruns;        /* frames that the writer may have rewritten while they were held, or before they were ready */
    uint64_t repeated;        /* copies that were torn, and tried again */
    uint64_t dropped;         /* frames published and not taken */
    uint64_t spin_hits;       /* frames whose event was seen without a pause */
    uint64_t latency_ns;      /* publish to acquire, of the frame taken last */
    uint64_t latency_total_ns;
    struct sluice_cipd_slot_info slots[SLUICE_CIPD_MAX_SLOTS];
    uint64_t reserved[8];
};

/* What goes on in a cipd channel, as its writer or one of its readers sees it. Set info->size first.
 * Thread: any.
 * Returns: 0; SLUICE_E_UNSUPPORTED for a channel of another kind; SLUICE_E_INVALID for an info->size that was not set. */
SLUICE_API int sluice_cipd_writer_info(sluice_writer *writer, struct sluice_cipd_info *info);
SLUICE_API int sluice_cipd_reader_info(sluice_reader *reader, struct sluice_cipd_info *info);

/* The same by the segment alone, without a GPU: "cipd:NAME" or NAME. What nobody but a writer or reader knows is 0.
 * sluice_channel_info knows such channels, too.
 * Thread: any. Blocks: a few milliseconds, where a writer is just filling it in.
 * Returns: 0, with the state; SLUICE_E_NOT_FOUND; SLUICE_E_PERMISSION; SLUICE_E_NAME. */
SLUICE_API int sluice_cipd_look(const char *name, struct sluice_cipd_info *info);

/* Calls `each` with the NAME of every segment on this machine that has the protocol's magic number, until it returns
 * something other than 0.
 * Thread: any. Blocks: briefly.
 * Returns: 0, or what `each` returned; SLUICE_E_SYSTEM if the folder cannot be read. */
SLUICE_API int sluice_cipd_list(int (*each)(void *user, const char *name), void *user);

/* How many second names (".NAME.PID.RANDOM") writers of Sluice's left in the folder that were killed, as the same user. Each
 * writer that opens removes them, whatever its channel.
 * Thread: any. Blocks: briefly.
 * Returns: 0; SLUICE_E_INVALID for no place; SLUICE_E_SYSTEM if the folder cannot be read. */
SLUICE_API int sluice_cipd_left(uint32_t *count);

/* Goes on with another number of slots: new memory, and a new session in a new segment, to which readers follow by name. One of
 * cuda-link 1.1.0 does not.
 * Thread: one at a time on a writer. Blocks: while memory is made.
 * Returns: 0; SLUICE_E_LIMIT; SLUICE_E_BUSY with a frame begun; SLUICE_E_NO_MEMORY: the old ones stay; SLUICE_E_UNSUPPORTED for a
 * channel of another kind. */
SLUICE_API int sluice_cipd_set_slots(sluice_writer *writer, uint32_t slots);

/* Makes the reader look for its writer at its next acquire, whatever it had decided to wait before.
 * Thread: any. Blocks: never.
 * Returns: 0; SLUICE_E_UNSUPPORTED for a channel of another kind. */
SLUICE_API int sluice_cipd_retry(sluice_reader *reader);

/* Lets a stream note how far the writer has come when the work that the stream has so far is done. For frames that the GPU
 * still reads when the program goes on, as with sluice_reader_fetch with a ticket: sluice_reader_check says whether a frame
 * is whole until now, sluice_cipd_check_mark whether it was so until its last mark, or is until now. Before the stream has come
 * to the mark that is the same. The frame is to be held from the mark to the check.
 *
 * What 0 of check_mark promises when the stream has come to the mark, whenever it is asked:
 * - A writer of Sluice's had not begun the frame that comes into the same slot, nor another session, and had not freed the
 *   slot's memory.
 * - A writer of cuda-link's had not published the frame before that, nor begun another session, and had not closed; or it
 *   had, and less than 100 ms have gone by since the acquire, or the mark, that saw it open still: so long it keeps its
 *   memory. Asked later, a frame whose writer had closed by its mark counts as lost.
 * - Of a writer that is killed neither tells when: its slots are the driver's, which may have taken them back by the mark.
 * Thread: any. Blocks: at the first mark of a session, while memory is registered.
 * Returns: 0; SLUICE_E_LOST (check_mark: the writer may have written to it, or freed it, before the mark; mark: another session
 * has begun);
 * SLUICE_E_CAPTURING; SLUICE_E_INVALID for SLUICE_ON_CPU; SLUICE_E_LIMIT for marks of a session on more than 8 streams;
 * SLUICE_E_STALE; SLUICE_E_UNSUPPORTED for a channel of another kind, and
 * where GPUs cannot read host memory: then check_mark says what sluice_reader_check does. */
SLUICE_API int sluice_cipd_mark(sluice_reader *reader, const struct sluice_frame *frame, struct sluice_stream stream);
SLUICE_API int sluice_cipd_check_mark(sluice_reader *reader, const struct sluice_frame *frame);

/* The activation barrier: a segment in which senders that are being set up count themselves, and all exporters on the
 * machine skip their frames meanwhile. */
struct sluice_cipd_barrier_info {
    uint32_t size;
    uint32_t known;   /* 1: it is one; 0: something else has its name, which Sluice does not heed */
    char name[SLUICE_CIPD_MAX_NAME + 1];
    uint32_t count;   /* senders that hold it up now */
    uint32_t stale;   /* 1: nobody has touched it for so long that it is not heeded */
    uint32_t skips;   /* frames that it kept back */
    uint32_t pid;     /* of whoever changed it last */
    int64_t age_ns;   /* since then */
    uint64_t reserved[4];
};

/* What stands in the barrier's segment; nothing is changed. `name`: NULL is cuda-link's. `stale_ns`: how old a barrier does
 * not count; 0: 5 s. Set info->size first.
 * Thread: any.
 * Returns: 0; SLUICE_E_NOT_FOUND if there is none; SLUICE_E_PERMISSION; SLUICE_E_NAME; SLUICE_E_INVALID for an info->size
 * that was not set. */
SLUICE_API int sluice_cipd_barrier_look(const char *name, int64_t stale_ns, struct sluice_cipd_barrier_info *info);

#ifdef __cplusplus
}
#endif
#endif
