/* SPDX-License-Identifier: MIT
 *
 * The native wire, byte by byte: the two pages that processes share, and the messages on the socket.
 * docs/wire.md describes the same in prose. Any change of the bytes is a new wire version. Everything is
 * little-endian and naturally aligned.
 */
#ifndef SL_NATIVE_WIRE_LAYOUT_H
#define SL_NATIVE_WIRE_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "native/wire/wire.h"

#define SL_NATIVE_MAGIC UINT64_C(0x31454349554c5305) /* 05 "SLUICE1" */

/* Feature bits, in hello and welcome: a peer is refused if it requires one that the other does not
 * know. Version 1 defines none. */
#define SL_NATIVE_FEATURES UINT64_C(0)

/* ---- the control page: stored by the writer, mapped read-only by readers ---- */

struct sl_control {
    /* 0x000: constant for the session */
    uint64_t magic;
    uint32_t version;
    uint32_t header_size; /* offset of the records: 0x1000 */
    uint64_t size;        /* of the whole object */
    uint64_t session;
    uint32_t ids;           /* slot numbers */
    uint32_t record_stride; /* bytes from one record to the next */
    uint32_t meta_offset;   /* of the metadata, from the start of the record */
    uint32_t meta_capacity;
    uint32_t memory_kind; /* SL_MEM_ */
    uint32_t writer_pid;
    uint64_t features;
    uint8_t device_uuid[16]; /* of the GPU that the slots are on; zeros: host memory */
    uint8_t pad0[0x100 - 0x50];

    /* 0x100: timeline of frames; a cache line of its own */
    sl_word head;
    uint8_t pad1[56];

    /* 0x140 */
    sl_word32 closed;        /* 1: no more frames will come */
    sl_word32 waiting;       /* 1: begin waits for a slot, so a release must wake the writer */
    sl_word32 oldest_memory; /* memories with lower numbers are never used again */
    uint8_t pad2[52];

    /* 0x180: totals, for observers that map the page; relaxed */
    sl_word committed, dropped, stolen, bytes;
    uint8_t pad3[32];

    /* 0x1c0: reserved: a sequence counter that kernels in a graph increment, and its head */
    sl_word graph_counter, graph_head;
    uint8_t pad4[48];

    /* 0x200: the memory to which each slot number belongs now; 0: none */
    sl_word32 slot_memory[SL_MAX_IDS];

    /* 0x400 */
    sl_word slot_seq[SL_MAX_IDS];
    /* 0x800 */
    sl_word ready[SL_MAX_IDS];
    /* 0xc00: reserved: the same for the host mirror of each slot */
    sl_word mirror_ready[SL_MAX_IDS];
    /* 0x1000: records */
};

static_assert(offsetof(struct sl_control, session) == 0x18, "layout");
static_assert(offsetof(struct sl_control, features) == 0x38, "layout");
static_assert(offsetof(struct sl_control, device_uuid) == 0x40, "layout");
static_assert(offsetof(struct sl_control, head) == 0x100, "layout");
static_assert(offsetof(struct sl_control, closed) == 0x140, "layout");
static_assert(offsetof(struct sl_control, committed) == 0x180, "layout");
static_assert(offsetof(struct sl_control, graph_counter) == 0x1c0, "layout");
static_assert(offsetof(struct sl_control, slot_memory) == 0x200, "layout");
static_assert(offsetof(struct sl_control, slot_seq) == 0x400, "layout");
static_assert(offsetof(struct sl_control, ready) == 0x800, "layout");
static_assert(offsetof(struct sl_control, mirror_ready) == 0xc00, "layout");
static_assert(sizeof(struct sl_control) == 0x1000, "layout");

/* A record (struct sl_record) and its metadata occupy one stride. */
#define SL_NATIVE_META_OFFSET 4096
#define SL_NATIVE_STRIDE      (SL_NATIVE_META_OFFSET + SLUICE_MAX_META)

static_assert(sizeof(struct sl_geometry) == 224, "layout");
static_assert(offsetof(struct sl_geometry, shape) == 32, "layout");
static_assert(offsetof(struct sl_geometry, strides) == 96, "layout");
static_assert(offsetof(struct sl_geometry, planes) == 160, "layout");
static_assert(offsetof(struct sl_record, offset) == 16, "layout");
static_assert(offsetof(struct sl_record, capture_ns) == 32, "layout");
static_assert(offsetof(struct sl_record, capture_clock) == 56, "layout");
static_assert(offsetof(struct sl_record, arrays) == 120, "layout");
static_assert(sizeof(struct sl_record) <= SL_NATIVE_META_OFFSET, "layout");

static inline uint64_t sl_native_control_size(uint32_t ids, uint64_t page)
{
    uint64_t size = sizeof(struct sl_control) + (uint64_t)ids * SL_NATIVE_STRIDE;
    return (size + page - 1) / page * page;
}

/* ---- a reader's own page: one for each connection, made by the writer, never reused ---- */

struct sl_reader_page {
    /* 0x000: constant */
    uint64_t magic;
    uint64_t session;
    uint8_t pad0[48];

    /* 0x040 */
    sl_word32 bell;    /* futex; both sides raise it */
    sl_word32 evicted; /* stored by the writer */
    uint8_t pad1[56];

    /* 0x080: stored by the reader, cleared by the writer when it wakes it */
    sl_word want, want_fd;
    uint8_t pad2[48];

    /* 0x0c0: stored by the reader (initial value by the writer) */
    sl_word cursor;
    uint8_t pad3[56];

    /* 0x100: for observers; stored by the reader, relaxed */
    sl_word taken, missed, last, latency_ns, latency_total_ns, latency_max_ns, lease_mean_ns;
    uint8_t pad4[8];
    /* 0x140: stored by the writer: it raises semaphores for frames from this one on; 0: for none */
    sl_word semaphores_from;
    uint8_t pad5[56];

    /* 0x180: stored by the reader, for observers: number of streams that wait on semaphores now */
    sl_word waiting_streams;
    /* 0x188: the same: how frames reach the reader (enum sl_path), and the UUID of its GPU */
    sl_word path, gpu[2];
    uint8_t pad6[32];

    /* 0x1c0: stored by the reader (initial value by the writer): the last frame for which it needs semaphores */
    sl_word semaphores_to;
    uint8_t pad7[0x400 - 0x1c8];

    /* 0x400: stored by the reader, or by its GPU on release */
    sl_word lease[SL_MAX_IDS];
    /* 0x800 */
    sl_word lease_ns[SL_MAX_IDS];
    /* 0xc00: private ready words of a reader that waits ahead on its GPU: raised by the writer's GPU,
     * poisoned only by the reader. own_lost is reserved */
    sl_word semaphores[SL_MAX_IDS];
    sl_word own_lost[SL_MAX_IDS];
    /* 0x1400 */
};

static_assert(offsetof(struct sl_reader_page, bell) == 0x40, "layout");
static_assert(offsetof(struct sl_reader_page, want) == 0x80, "layout");
static_assert(offsetof(struct sl_reader_page, cursor) == 0xc0, "layout");
static_assert(offsetof(struct sl_reader_page, taken) == 0x100, "layout");
static_assert(offsetof(struct sl_reader_page, semaphores_from) == 0x140, "layout");
static_assert(offsetof(struct sl_reader_page, waiting_streams) == 0x180, "layout");
static_assert(offsetof(struct sl_reader_page, path) == 0x188, "layout");
static_assert(offsetof(struct sl_reader_page, semaphores_to) == 0x1c0, "layout");
static_assert(offsetof(struct sl_reader_page, lease) == 0x400, "layout");
static_assert(offsetof(struct sl_reader_page, own_lost) == 0x1000, "layout");
static_assert(sizeof(struct sl_reader_page) == 0x1400, "layout");

static inline uint64_t sl_native_page_size(uint64_t page)
{
    return (sizeof(struct sl_reader_page) + page - 1) / page * page;
}

/* ---- messages: SOCK_SEQPACKET, one struct each, `size` bytes long ---- */

enum sl_message_type {
    SL_MSG_HELLO = 1,   /* client -> writer, first; may carry the client's pidfd */
    SL_MSG_WELCOME = 2, /* writer -> reader; fds: control page, reader's page, wake socket */
    SL_MSG_REFUSE = 3,  /* writer -> client, last */
    SL_MSG_MEMORY = 4,  /* writer -> reader; fd: the memory. The next one is sent after its ACK */
    SL_MSG_ACK = 5,     /* reader -> writer: a memory arrived */
    SL_MSG_BYE = 6,     /* in either direction, last */
    SL_MSG_QUERY = 7,   /* observer -> writer */
    SL_MSG_CHANNEL = 8, /* writer -> observer */
    SL_MSG_READER = 9,  /* writer -> observer, as many as CHANNEL says */
};

enum sl_role { SL_ROLE_READER = 1, SL_ROLE_OBSERVER = 2 };
enum sl_bye { SL_BYE_LEFT = 1, SL_BYE_CLOSED = 2, SL_BYE_EVICTED = 3 };

struct sl_msg_header {
    uint32_t type;
    uint32_t size; /* of the whole message */
};

struct sl_msg_hello {
    struct sl_msg_header header;
    uint64_t magic;
    uint32_t version_min, version_max;
    uint64_t features, features_required;
    uint32_t role; /* enum sl_role */
    uint32_t mode, depth, hold, every, writable;
    uint32_t pid;
    uint32_t ahead; /* 1: it will wait for frames on its GPU */
    int64_t clock_ns;
    char program[32];
};

struct sl_msg_welcome {
    struct sl_msg_header header;
    uint64_t magic;
    uint32_t version;
    uint32_t depth; /* granted */
    uint64_t features;
    uint64_t session;
    uint64_t control_size, page_size;
    uint32_t max_slots;
    uint32_t writable; /* granted */
    int64_t clock_ns;
};

struct sl_msg_refuse {
    struct sl_msg_header header;
    int32_t result;
    uint32_t version_min, version_max;
    uint32_t reserved;
    char text[256];
};

struct sl_wire_array {
    char name[SLUICE_ARRAY_NAME];
    struct sluice_dtype dtype;
    uint32_t pixel_format;
    struct sluice_colour colour;
    uint8_t row_order, alpha, reserved[2];
    struct sl_geometry geometry;
};

struct sl_wire_format {
    uint32_t array_count, pitch_align;
    uint64_t slot_bytes;
    struct sl_wire_array arrays[SLUICE_MAX_ARRAYS];
};

struct sl_msg_memory {
    struct sl_msg_header header;
    uint32_t memory, generation;
    uint64_t bytes;
    uint32_t kind;   /* SL_MEM_ */
    uint32_t driver; /* version of the writer's GPU driver (sl_mem_driver); 0: none, or an older release of Sluice */
    struct sl_wire_format format;
};

struct sl_msg_ack {
    struct sl_msg_header header;
    uint32_t memory;
    uint32_t driver; /* the same for the reader, if it has loaded one so far */
};

struct sl_msg_bye {
    struct sl_msg_header header;
    uint32_t reason; /* enum sl_bye */
    uint32_t reserved;
};

struct sl_msg_query {
    struct sl_msg_header header;
    uint64_t reserved;
};

struct sl_msg_channel {
    struct sl_msg_header header;
    uint32_t pid, uid;
    uint32_t version, generation;
    char program[32];
    char device[32];
    uint64_t session;
    uint32_t slots, max_slots, policy, readers, max_readers, writable;
    uint64_t committed, dropped, stolen, bytes, evicted, died, refused;
    int64_t opened_ns, last_commit_ns, now_ns;
    uint8_t device_uuid[16];
    uint32_t memory_kind; /* SL_MEM_ */
    uint32_t name_restored;
    int64_t name_restored_ns;
    struct sl_wire_format format;
};

struct sl_msg_reader {
    struct sl_msg_header header;
    uint32_t pid, uid;
    char program[32];
    uint32_t mode, depth, hold, every, writable, held;
    uint64_t held_slots;
    int64_t held_ns;
    uint64_t taken, missed, lag, latency_ns;
    int64_t joined_ns;
    char path[32];
    char copy_reason[96];
    uint64_t latency_total_ns, latency_max_ns, lease_mean_ns;
    uint32_t ahead, parked;
};

static_assert(sizeof(struct sl_msg_hello) == 112, "layout");
static_assert(sizeof(struct sl_msg_welcome) == 72, "layout");
static_assert(sizeof(struct sl_msg_refuse) == 280, "layout");
static_assert(sizeof(struct sl_wire_array) == 272, "layout");
static_assert(sizeof(struct sl_wire_format) == 16 + 16 * 272, "layout");
static_assert(sizeof(struct sl_msg_memory) == 32 + 16 + 16 * 272, "layout");
static_assert(sizeof(struct sl_msg_ack) == 16, "layout");
static_assert(sizeof(struct sl_msg_bye) == 16, "layout");
static_assert(sizeof(struct sl_msg_channel) == 232 + 16 + 16 * 272, "layout");
static_assert(sizeof(struct sl_msg_reader) == 288, "layout");

/* The longest message. */
union sl_message {
    struct sl_msg_header header;
    struct sl_msg_hello hello;
    struct sl_msg_welcome welcome;
    struct sl_msg_refuse refuse;
    struct sl_msg_memory memory;
    struct sl_msg_ack ack;
    struct sl_msg_bye bye;
    struct sl_msg_query query;
    struct sl_msg_channel channel;
    struct sl_msg_reader reader;
};

#endif
