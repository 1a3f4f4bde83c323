/* SPDX-License-Identifier: MIT
 *
 * Channels named "cipd:NAME" use the protocol of cuda-link, so that its programs read what Sluice writes and the other
 * way round. They have the same calls as every channel; this header has what is special about them. docs/cuda-link.md
 * is the guide.
 *
 * A cipd channel is a segment of shared memory with the handles of 1 to 10 slots on a GPU. Readers tell the writer
 * nothing, so such a channel cannot keep some promises of other channels:
 * - there are no leases: the writer always takes the oldest slot, and may rewrite a frame while a reader looks at it.
 *   sluice_reader_check and release return SLUICE_E_LOST when that may have happened; with `copy` a reader
 *   gets copies that are known to be whole. From another program's writer with a single slot it gets none
 *   (SLUICE_E_UNSUPPORTED): such a writer begins the next frame in it before it says so;
 * - the writer waits for no reader, and does not know how many there are;
 * - readers' kernels could write to slots, and slots end with their writer.
 *
 * A frame is one array of float32, float16, bfloat16, uint8, uint16, int8 or int16, with the shape (height, width,
 * components), or (height, width) for one component. Readers get three dimensions. A frame has a time, capture_ns (when
 * the writer committed it), and no metadata. Its sequence is the wire's frame count: a writer of Sluice's continues the
 * count of the one before it in the segment, others begin at 1.
 *
 * struct sluice_writer_params on such a channel: `device` must be a GPU, `slots` is 1 to 10 (0: 3), `no_graphs` is as
 * on other channels. `policy` must be SLUICE_DROP, and max_slots, lease_timeout_ns, readers, writable, uids and gids
 * must be 0: the protocol cannot provide them (SLUICE_E_UNSUPPORTED). `wait_ns`: how long begin waits for the GPU to
 * finish its earlier work on this slot, and how long begin and send wait until a frame in one of the other slots is
 * finished, so that readers have one to take: no more than `slots` - 1 frames are in flight (with one slot any number);
 * 0: 1 s. struct sluice_reader_params: `device` is the GPU that frames are used on, preferably the writer's. The wire
 * does not tell which that is. NULL: a reader that opens while there is a writer uses what Sluice's writers store about
 * it, else asks the driver; without a writer it is "cuda:0". `hold` is 1 to 10. `mode` must be SLUICE_NEWEST, and
 * depth, staged and uids must be 0, every 0 or 1: readers take the newest frame, as older ones are not kept.
 * `writable`: 1 only omits the mark that says read-only. `ahead` with a stream: see `ahead` below. `spin_ns` is for the
 * next frame, as on other channels.
 *
 * Calls that differ:
 * - sluice_writer_open takes over at once from a writer of Sluice's that was killed, and from another program 1.5 s
 * after that one's last frame. Until then it watches for another frame (SLUICE_E_EXISTS), as nothing else shows whether
 * such a program lives. If the program lives but is slower, that is noticed when it publishes again: begin and send
 * return SLUICE_E_EXISTS from then on;
 * - begin and send return SLUICE_NO_SLOT, and count a dropped frame, while an activation barrier is up, and when
 * wait_ns is over;
 * - only one frame may be begun at a time: SLUICE_E_BUSY for a second one. It is in the next slot in turn;
 * - commit and send on a stream publish at once, as cuda-link does. Readers wait for the slot's event, and acquire
 * gives the newest frame that is finished;
 * - send with a ticket returns SLUICE_E_BUSY, and publishes nothing, while 256 copies with tickets are under way;
 * - sluice_writer_reformat makes new slots and a new session on the wire; so does a send of another size. commit
 * returns SLUICE_E_UNSUPPORTED for a frame that was reshaped: frames have the channel's shape;
 * - acquire returns SLUICE_CLOSED when the writer has shut the channel, until another comes; SLUICE_NO_WRITER when
 * there is no segment, or the writer is known to be dead; SLUICE_E_LOST for a frame that was published but is not
 * finished within the reader's `wait_ns`, and once for frames that were taken ahead, released, and lost then;
 * SLUICE_AGAIN if a copy was torn each time it was tried, or if the time was over while the driver waited for work of
 * this program, to close the memory of the session before. It follows new sessions by itself;
 * - sluice_reader_open and acquire return SLUICE_E_FORMAT for a session whose format is none that is known, and
 *   SLUICE_E_UNSUPPORTED for one of which no copy can be known to be whole (`copy`), if the writer has not begun
 * another session when the time is over; open waits for that for 1 s at least;
 * - frame->flags has SLUICE_FRAME_NEW_SESSION whenever the wire's version has changed: all arrays have new addresses
 * then.
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
#define SLUICE_CIPD_MAX_NAME \
    255 /* bytes of NAME in "cipd:NAME": printable ASCII without '/', not beginning with a dot; \
           '>' and spaces are fine. A writer's may have 234 */

/* A switch whose default depends on something else. */
enum sluice_cipd_switch {
    SLUICE_CIPD_USUAL = 0, /* the default of each switch, see there */
    SLUICE_CIPD_ON = 1,
    SLUICE_CIPD_OFF = 2,
};

/* The order of four uint8. The wire has a flag for BGRA and none for RGBA, and many writers of BGRA do not set it. */
enum sluice_cipd_order {
    SLUICE_CIPD_UNKNOWN = 0,
    SLUICE_CIPD_RGBA = 1,
    SLUICE_CIPD_BGRA = 2,
};

/* What the components of a frame with two of them are. */
enum sluice_cipd_pair {
    SLUICE_CIPD_AS_FLAGGED = 0, /* mono and alpha if the wire's flag says so, else red and green */
    SLUICE_CIPD_MONO_ALPHA = 1,
    SLUICE_CIPD_RED_GREEN = 2,
};

/* sluice_writer_params.cipd points to one; NULL: all defaults. Zero is the default of every field. */
struct sluice_cipd_writer_params {
    uint32_t size;       /* set by SLUICE_CIPD_WRITER_PARAMS_INIT */
    uint32_t block;      /* 1: commit and send wait until the GPU has finished the frame, and publish it then. Else
                            they publish it at once, and readers wait for it */
    uint32_t graph;      /* enum sluice_cipd_switch; default: on, unless sluice_writer_params.no_graphs is set */
    uint32_t order;      /* enum sluice_cipd_order of four uint8; an image's pixel format says it, too. BGRA sets
                            the wire's flag */
    uint32_t mono_alpha; /* 1: two components are mono and alpha; sets the wire's flag */
    uint32_t flags;      /* further flags of the wire, or-ed in; 16 bits, without those that the above set */
    uint32_t barrier; /* enum sluice_cipd_switch; default: on. Frames are skipped while an activation barrier is up */
    uint32_t holds_barrier; /* 1: raises the barrier before it opens, lowers it after settle_frames frames, and respects
                               it then */
    uint32_t settle_frames; /* 0: 30 */
    uint32_t strict_device; /* 1: send refuses memory that is not on this GPU: SLUICE_E_WRONG_DEVICE. Else it is copied
                               from wherever it is */
    uint32_t priority; /* enum sluice_cipd_switch; default: on. Sends with SLUICE_ON_CPU are copied on a stream of the
                          highest priority; those with a stream are copied on that stream */
    uint32_t doorbell; /* enum sluice_cipd_switch; default: on. Wakes readers of Sluice's that sleep; costs nothing
                          while none does */
    int64_t barrier_stale_ns; /* a barrier that was not updated for this long is ignored; 0: 5 s */
    const char *barrier_name; /* of the barrier's segment; NULL: cuda-link's, "cudalink_activation_barrier" */
    int64_t close_grace_ns;   /* how long memory stays after readers were told to close it; 0: 100 ms; -1: not at all */
};

/* sluice_reader_params.cipd points to one; NULL: all defaults. Zero is the default of every field. */
struct sluice_cipd_reader_params {
    uint32_t size; /* set by SLUICE_CIPD_READER_PARAMS_INIT */
    uint32_t
        undeclared;     /* enum sluice_cipd_order: the assumed order of four uint8 if no flag says it. RGBA is
                           what Python programs write, BGRA what TouchDesigner writes. UNKNOWN: the array is not an image */
    uint32_t pair;      /* enum sluice_cipd_pair */
    uint32_t copy;      /* 1: acquire copies the frame within the GPU, and checks afterwards that it was not overwritten
                           meanwhile; it gives the copy. Needs memory for `hold` frames. Once the writer has
                           overwritten a frame during a copy, the next copies are made within a time slice of this
                           process on the GPU (docs/cuda-link.md) */
    uint32_t reconnect; /* enum sluice_cipd_switch; default: on. Off: after SLUICE_CLOSED, or when the writer begins
                           another session, every acquire returns SLUICE_CLOSED */
    uint32_t ahead;     /* enum sluice_cipd_switch; default: as sluice_reader_params.ahead. If no finished frame is left
                           that     it has not taken, an acquire on a stream gives one that is not ready, with
                           SLUICE_FRAME_AHEAD: the stream waits for a word that the library raises when it has seen the
                           event, or after ahead_ns, so it never waits for ever. In the latter case the frame is
                           lost: release says so, or the next acquire if it was released already (SLUICE_E_LOST, its
                           number in the message); until then nothing behind it is published.
                           At most 3 at once; beyond that, and with `copy`, the CPU waits */
    int64_t wait_spin_ns; /* how long the CPU spins on a frame's event before it sleeps between polls; 0: 200 us; -1:
                             it does not spin */
    int64_t wait_ns;      /* a frame that is not finished this long after it was seen is lost; 0: 5 s */
    int64_t
        stall_ns; /* after this long without a frame the channel counts as stalled: info says so, and acquire's
                     message; 0: 2 s; -1: never. That the segment was replaced is noticed after 250 ms in any case */
};

#ifdef __cplusplus
} /* extern "C" */
static inline struct sluice_cipd_writer_params sluice_cipd_writer_params_init(void)
{
    struct sluice_cipd_writer_params p {
    };
    p.size = static_cast<uint32_t>(sizeof p);
    return p;
}
static inline struct sluice_cipd_reader_params sluice_cipd_reader_params_init(void)
{
    struct sluice_cipd_reader_params p {
    };
    p.size = static_cast<uint32_t>(sizeof p);
    return p;
}
#define SLUICE_CIPD_WRITER_PARAMS_INIT sluice_cipd_writer_params_init()
#define SLUICE_CIPD_READER_PARAMS_INIT sluice_cipd_reader_params_init()
extern "C" {
#else
#define SLUICE_CIPD_WRITER_PARAMS_INIT \
    { \
        .size = (uint32_t)sizeof(struct sluice_cipd_writer_params) \
    }
#define SLUICE_CIPD_READER_PARAMS_INIT \
    { \
        .size = (uint32_t)sizeof(struct sluice_cipd_reader_params) \
    }
#endif

/* Fills in the fields that cuda-link's environment variables set (CUDALINK_EXPORT_SYNC and so on), as cuda-link reads
 * them; the others get cuda-link's own defaults. holds_barrier stays as it is, unless CUDALINK_TD_ACTIVATION_BARRIER
 * clears it. Pass NULL for the struct that is not wanted. Only this call makes the library look at cuda-link's
 * variables. Set the sizes first. Thread: any, while nobody changes the environment. Returns: 0; SLUICE_E_INVALID for a
 * size that was not set. */
SLUICE_API int sluice_cipd_environment(struct sluice_cipd_writer_params *writer,
                                       struct sluice_cipd_reader_params *reader);

/* Who uses one of cuda-link's environment variables. */
enum sluice_cipd_use {
    SLUICE_CIPD_UNUSED = 0,    /* nobody: it has no effect on Sluice */
    SLUICE_CIPD_USED = 1,      /* Sluice, by sluice_cipd_environment */
    SLUICE_CIPD_OTHERS = 2,    /* only cuda-link's own programs, in TouchDesigner and around it */
    SLUICE_CIPD_IN_PYTHON = 3, /* only the Python package's module sluice.cuda_link */
};

/* How the value of a variable is read. */
enum sluice_cipd_reading {
    SLUICE_CIPD_READ_AS_IT_IS = 0, /* also of all that are not set, and of those that nobody uses */
    SLUICE_CIPD_READ_ON = 1,
    SLUICE_CIPD_READ_OFF = 2,          /* a switch is off unless it is "1" */
    SLUICE_CIPD_READ_NO_NUMBER = 3,    /* it must be one: the default is used */
    SLUICE_CIPD_READ_OUT_OF_RANGE = 4, /* the default is used */
};

/* One of cuda-link's environment variables. */
struct sluice_cipd_variable {
    char name[64];
    char value[64];   /* as it is set, cut off if it is longer; "" if it is not */
    char usual[32];   /* its default */
    char what[160];   /* what it does here, or why it does nothing */
    uint32_t set;     /* 1: it is in the environment */
    uint32_t used;    /* enum sluice_cipd_use */
    uint32_t reading; /* enum sluice_cipd_reading */
    char range[48];   /* of a number: "0 to 2147483647"; else "" */
};

/* Lists all of them, including those without effect. Up to `capacity` are written (NULL and 0 for none); *count is
 * their number.
 * Thread: any, while nobody changes the environment.
 * Returns: 0. */
SLUICE_API int sluice_cipd_variables(struct sluice_cipd_variable *variables, size_t capacity, size_t *count);

enum sluice_cipd_state {
    SLUICE_CIPD_ABSENT = 0,     /* no segment of that name, or its writer is known to be dead */
    SLUICE_CIPD_UNFINISHED = 1, /* a writer is filling in the segment, or its content is invalid: see `why` */
    SLUICE_CIPD_RUNNING = 2,
    SLUICE_CIPD_STALLED = 3, /* no frame for stall_ns: the writer pauses, hangs, or was killed; or the segment has lost
                                its name, so that most likely the writer has died */
    SLUICE_CIPD_SHUT = 4,    /* its writer has shut it */
};

struct sluice_cipd_slot_info {
    uint32_t memory_open; /* 1: mapped here; from sluice_cipd_look: the segment has a handle of its memory */
    uint32_t event_open;  /* 1: it has an event that this process uses; from sluice_cipd_look: a handle of one. 0: its
                             frames  are finished when they are published */
    uint64_t frames;      /* taken from it, or published in it */
    int64_t last_wait_ns; /* how long acquire, or a blocking send, waited for its event at the last frame */
    uint64_t address;     /* on the GPU; 0: not mapped */
    uint64_t reserved[2];
};

struct sluice_cipd_info {
    uint32_t size;
    uint32_t state; /* enum sluice_cipd_state */
    char name[SLUICE_CIPD_MAX_NAME + 1];
    char why[256];    /* a message about a state other than RUNNING; else "" */
    uint64_t version; /* the wire's number of the session */
    uint32_t index;   /* the wire's count of frames published in it; 0: none yet */
    uint32_t slot_count;
    uint32_t width, height, components;
    uint32_t flags; /* as they are on the wire */
    struct sluice_dtype dtype;
    uint32_t frame_bytes;
    uint32_t order;          /* enum sluice_cipd_order, as the reader's parameters decide it */
    uint32_t order_declared; /* 1: the wire says so */
    uint32_t mono_alpha;     /* 1: two components are mono and alpha */
    uint32_t writer_pid;     /* 0: not known; the wire does not tell, Sluice's writers do */
    uint32_t segment_bytes;
    uint32_t by_sluice;    /* 1: a writer of Sluice's made this session */
    int64_t last_frame_ns; /* when the last one was published, CLOCK_MONOTONIC; 0: not known */
    /* a writer's own; in a reader's info 0 */
    uint64_t published, published_bytes;
    uint64_t barrier_skips; /* frames not published because of a barrier */
    uint64_t failed;        /* frames not published because of a failure */
    uint64_t graph_frames;  /* published by a graph */
    uint64_t relinked;      /* how often another program unlinked the segment's name, and it was restored */
    uint32_t holds_barrier; /* 1: now */
    uint32_t left_behind;   /* slots whose memory could not be freed in time, at changes of format */
    /* a reader's own; in a writer's info 0 */
    uint64_t taken;
    uint64_t no_frame;   /* acquires that found none */
    uint64_t timeouts;   /* frames that were not finished in time */
    uint64_t reconnects; /* sessions after the first */
    uint64_t overruns;   /* frames that the writer may have rewritten while they were held, or before they were ready */
    uint64_t repeated;   /* copies that were torn, and tried again */
    uint64_t dropped;    /* frames published and not taken */
    uint64_t spin_hits;  /* frames whose event was seen while spinning */
    uint64_t latency_ns; /* publish to acquire, of the frame taken last */
    uint64_t latency_total_ns;
    struct sluice_cipd_slot_info slots[SLUICE_CIPD_MAX_SLOTS];
    uint64_t reserved[8];
};

/* The state of a cipd channel, as its writer or one of its readers sees it. Set info->size first.
 * Thread: any.
 * Returns: 0; SLUICE_E_UNSUPPORTED for a channel of another kind; SLUICE_E_INVALID for an info->size that was not set.
 */
SLUICE_API int sluice_cipd_writer_info(sluice_writer *writer, struct sluice_cipd_info *info);
SLUICE_API int sluice_cipd_reader_info(sluice_reader *reader, struct sluice_cipd_info *info);

/* The same from the segment alone, without a GPU: "cipd:NAME" or NAME. Fields that only a writer or reader knows are 0.
 * sluice_channel_info works on such channels, too.
 * Thread: any. Blocks: a few milliseconds, if a writer is filling it in.
 * Returns: 0, with the state; SLUICE_E_NOT_FOUND; SLUICE_E_PERMISSION; SLUICE_E_NAME. */
SLUICE_API int sluice_cipd_look(const char *name, struct sluice_cipd_info *info);

/* Calls `each` with the NAME of every segment on this machine that has the protocol's magic number, until it returns
 * something other than 0.
 * Thread: any. Blocks: briefly.
 * Returns: 0, or what `each` returned; SLUICE_E_SYSTEM if the folder cannot be read. */
SLUICE_API int sluice_cipd_list(int (*each)(void *user, const char *name), void *user);

/* How many second names (".NAME.PID.RANDOM") killed writers of Sluice's have left in the folder, as the same user.
 * Every writer that opens, of any channel, removes them. Thread: any. Blocks: briefly. Returns: 0; SLUICE_E_INVALID if
 * `count` is NULL; SLUICE_E_SYSTEM if the folder cannot be read. */
SLUICE_API int sluice_cipd_left(uint32_t *count);

/* Changes the number of slots: new memory, and a new session in a new segment of the same name, to which readers
 * reconnect. Readers of cuda-link 1.1.0 do not. Thread: one at a time on a writer. Blocks: while memory is allocated.
 * Returns: 0; SLUICE_E_LIMIT; SLUICE_E_BUSY with a frame begun; SLUICE_E_NO_MEMORY: the old ones stay;
 * SLUICE_E_UNSUPPORTED for a channel of another kind. */
SLUICE_API int sluice_cipd_set_slots(sluice_writer *writer, uint32_t slots);

/* Makes the reader look for its writer at its next acquire, without the pause that it makes between attempts.
 * Thread: any. Blocks: never.
 * Returns: 0; SLUICE_E_UNSUPPORTED for a channel of another kind. */
SLUICE_API int sluice_cipd_retry(sluice_reader *reader);

/* Queues a mark on a stream: when the work queued so far is done, the stream records how far the writer has come. For
 * frames that the GPU still reads when the program goes on, as after sluice_reader_fetch with a ticket:
 * sluice_reader_check says whether the frame is whole until now, sluice_cipd_check_mark whether it was whole until its
 * last mark, or is until now. Before the stream has reached the mark the two are the same. Hold the frame from the mark
 * to the check.
 *
 * If check_mark returns 0 once the stream has reached the mark, however late it is called, then at the mark
 * - a writer of Sluice's had not begun the next frame in the same slot, nor another session, and had not freed the
 *   slot's memory;
 * - a writer of cuda-link's had not published the frame before that one, nor begun another session, and had not closed;
 * or it had closed, and less than 100 ms had gone by since an acquire or a mark saw it open: for that long it keeps its
 *   memory. If check_mark is called later, a frame whose writer had closed by its mark counts as lost.
 * Neither call tells when a writer was killed: the driver owns its slots then, and may have freed them before the mark.
 * Thread: any. Blocks: at the first mark of a session, while memory is registered.
 * Returns: 0; SLUICE_E_LOST (check_mark: the writer may have written to it, or freed it, before the mark; mark: another
 * session has begun); SLUICE_E_CAPTURING; SLUICE_E_INVALID for SLUICE_ON_CPU; SLUICE_E_LIMIT for marks of a session on
 * more than 8 streams; SLUICE_E_STALE; SLUICE_E_UNSUPPORTED for a channel of another kind, and where GPUs cannot read
 * host memory: then check_mark says what sluice_reader_check does. */
SLUICE_API int sluice_cipd_mark(sluice_reader *reader, const struct sluice_frame *frame, struct sluice_stream stream);
SLUICE_API int sluice_cipd_check_mark(sluice_reader *reader, const struct sluice_frame *frame);

/* The activation barrier: a segment with a count of the senders that are being set up. While it is not 0 all exporters
 * on the machine skip their frames. */
struct sluice_cipd_barrier_info {
    uint32_t size;
    uint32_t known; /* 1: it is a barrier; 0: something else has its name, and Sluice ignores it */
    char name[SLUICE_CIPD_MAX_NAME + 1];
    uint32_t count; /* senders that hold it up now */
    uint32_t stale; /* 1: it was not updated for so long that it is ignored, or its time is as far in the future */
    uint32_t skips; /* frames skipped because of it */
    uint32_t pid;   /* of the process that changed it last */
    int64_t age_ns; /* since then; below 0: its time is so far in the future */
    uint64_t reserved[4];
};

/* Reads the barrier's segment; changes nothing. `name`: NULL is cuda-link's. `stale_ns`: from which age on a barrier is
 * ignored; 0: 5 s. Set info->size first.
 * Thread: any.
 * Returns: 0; SLUICE_E_NOT_FOUND if there is none; SLUICE_E_PERMISSION; SLUICE_E_NAME; SLUICE_E_INVALID for an
 * info->size that was not set. */
SLUICE_API int sluice_cipd_barrier_look(const char *name, int64_t stale_ns, struct sluice_cipd_barrier_info *info);

#ifdef __cplusplus
}
#endif
#endif
