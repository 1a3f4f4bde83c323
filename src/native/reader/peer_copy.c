/* SPDX-License-Identifier: MIT
 *
 * How frames reach a reader's device: mapped where they are, or copied to a GPU that cannot access them.
 *
 * The copy runs on a stream of the library, so that nothing is queued on the program's streams. acquire waits for it
 * and then ends the lease. The program gets the copy, with a copy of header and metadata. Each copy has a word that
 * replaces the lease word: releasing the frame stores 0 there.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/reader/peer_copy.h"
#include "native/reader/reader.h"
#include "util/result.h"

#define COPY_TIMEOUT (2 * SLUICE_S)  /* for one copy */
#define SPIN_NS      (SLUICE_MS / 2) /* over NVLink a frame takes 0.1 ms: too short for a sleep */

/* Memory for copies; lives until its buffer and all pins have dropped it. */
struct copy_memory {
    struct sl_mem_shared shared;
    struct sl_memory object;
};

/* The buffer to which the frames of one entry are copied, in all sessions. As an entry has only one, repeated work
 * (such as a CUDA graph) finds its frames at the same address. */
struct sl_copy_buffer {
    struct copy_memory *memory; /* NULL: none yet */
    struct sl_record record;
    char meta[SLUICE_MAX_META];
};

/* For one session. */
struct sl_peer_copy {
    struct sl_memory page;       /* of words, one for each entry; not 0: the program holds the copy */
    struct sl_sync_pages *pages; /* the same, as registered with the device */
};

/* ---- mapped or copied ---- */

/* For readers that use the channel's device. */
static const char *hint(const struct sl_reader *reader)
{
    uint32_t count = 0;
    bool others = !reader->device[0] && sl_gpu_count(&count) == 0;

    return others ? ". Another GPU may reach it: name one as the reader's device, such as \"cuda:0\"" : "";
}

static int identify_device(const struct sl_reader *reader, const struct sl_session *session,
                           unsigned char uuid[SL_DEVICE_UUID])
{
    int r = sl_device_kind(session->device)->identify(session->device, uuid);

    if (r < 0 && session->link->memory_kind != SL_MEM_HOST)
        r = sl_fail(r, "channel '%s' has its frames on a GPU, '%s', which this process cannot use: %s%s",
                    reader->base.name, session->owner, sl_last_error(), hint(reader));
    return r;
}

/* The driver's reason against mapping, with a remedy that depends on the GPUs that this process sees. */
static int refuse_mapping(const struct sl_reader *reader, int result)
{
    return sl_fail(
        result,
        "channel '%s': %s. Use the channel's own GPU (leave the reader's device out), or let frames be copied "
        "(the reader's option staged)",
        reader->base.name, sl_last_error());
}

int sl_peer_copy_choose(const struct sl_reader *reader, struct sl_session *session)
{
    const struct sl_mem_ops *memory = sl_mem_of_kind(session->link->memory_kind);
    const struct sl_page *page = &session->link->page;
    enum sl_path path = SL_PATH_MAPPED;
    uint64_t gpu[2] = { 0 };
    int r = identify_device(reader, session, (unsigned char *)gpu);

    if (r != 0)
        return r;
    static_assert(sizeof gpu == SL_DEVICE_UUID, "two words");
    session->remote = memory->reach && memcmp(gpu, session->link->uuid, sizeof gpu) != 0;
    session->peer_mapped = true;
    if (session->remote) {
        r = memory->reach(session->device, session->owner);
        if (r == SLUICE_E_UNSUPPORTED && !reader->params.staged)
            return refuse_mapping(reader, r);
        if (r < 0 && r != SLUICE_E_UNSUPPORTED)
            return r;
        session->peer_mapped = r >= 0;
        path = !session->peer_mapped                           ? SL_PATH_COPIED
               : reader->params.staged == SLUICE_STAGED_ALWAYS ? SL_PATH_COPIED_AS_ASKED
                                                               : SL_PATH_PEER;
        if (!session->peer_mapped)
            sl_log(SLUICE_LOG_INFO, "channel '%s': frames are copied: %s", reader->base.name, sl_last_error());
    }
    sl_store(&page->gpu[0], gpu[0], relaxed);
    sl_store(&page->gpu[1], gpu[1], relaxed);
    sl_store(page->path, path, relaxed);
    return 0;
}

/* ---- buffers ---- */

static bool wants_copies(const struct sl_session *session)
{
    uint64_t path = sl_load(session->link->page.path, relaxed);

    return path == SL_PATH_COPIED || path == SL_PATH_COPIED_AS_ASKED;
}

static sl_word *words_of(const struct sl_peer_copy *copy)
{
    return copy->page.address;
}

int sl_peer_copy_open(const struct sl_reader *reader, struct sl_session *session)
{
    uint64_t bytes = sl_os_page_size();
    int r;

    if (!wants_copies(session))
        return 0;
    static_assert(SLUICE_MAX_SLOTS * sizeof(sl_word) <= 4096, "the words take one page");
    struct sl_peer_copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory for copies of frames", reader->base.name);
    copy->page.ops = sl_mem_of_kind(SL_MEM_HOST);
    copy->page.fd = -1;
    r = copy->page.ops->create(&copy->page, "sluice-staged", bytes, true);
    if (r == 0)
        r = session->sync->attach(session->device, copy->page.address, bytes, true, &copy->pages);
    session->peer_copy = copy;
    if (r != 0)
        sl_peer_copy_close(session);
    return r;
}

void sl_peer_copy_close(struct sl_session *session)
{
    struct sl_peer_copy *copy = session->peer_copy;

    if (!copy)
        return;
    session->sync->detach(copy->pages);
    copy->page.ops->destroy(&copy->page);
    free(copy);
    session->peer_copy = NULL;
}

static void free_memory(struct sl_mem_shared *shared)
{
    struct copy_memory *memory = (struct copy_memory *)shared;

    memory->object.ops->destroy(&memory->object);
    free(memory);
}

static void drop_memory(struct sl_copy_buffer *buffer)
{
    if (buffer->memory)
        sl_mem_drop(&buffer->memory->shared);
    buffer->memory = NULL;
}

void sl_peer_copy_free_buffers(struct sl_reader *reader)
{
    for (uint32_t i = 0; reader->copy_buffers && i < reader->params.hold; i++)
        drop_memory(&reader->copy_buffers[i]);
    free(reader->copy_buffers);
    reader->copy_buffers = NULL;
}

static bool fits(const struct sl_copy_buffer *buffer, const struct sl_mem_ops *ops, uint64_t bytes)
{
    return buffer->memory && buffer->memory->object.ops == ops && buffer->memory->object.size >= bytes;
}

static struct sl_copy_buffer *buffer_of(const struct sl_reader *reader, const struct sl_held *entry)
{
    return &reader->copy_buffers[entry - reader->held];
}

/* Makes the entry's buffer large enough for frames of this generation. */
static int make_buffer(struct sl_reader *reader, const struct sl_held *entry)
{
    const struct sl_mem_ops *ops = sl_mem_of_kind(entry->session->link->memory_kind);
    uint64_t bytes = entry->memory->format.slot_bytes;
    char name[SLUICE_MAX_NAME + 32];
    struct copy_memory *memory;

    if (!reader->copy_buffers && !(reader->copy_buffers = calloc(reader->params.hold, sizeof *reader->copy_buffers)))
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory for copies of frames", reader->base.name);
    struct sl_copy_buffer *buffer = buffer_of(reader, entry);
    if (fits(buffer, ops, bytes))
        return 0;
    drop_memory(buffer);
    if (!(memory = calloc(1, sizeof *memory)))
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory for copies of frames", reader->base.name);
    memory->shared = (struct sl_mem_shared){ .users = 1, .in_background = true, .end = free_memory };
    memory->object = (struct sl_memory){ .ops = ops, .fd = -1, .device = entry->session->device };
    snprintf(name, sizeof name, "copies of channel '%.*s'", SLUICE_MAX_NAME, reader->base.name);
    int r = sl_mem_create(&memory->object, name, bytes, false);
    if (r != 0) {
        free(memory);
        return r;
    }
    memory->object.device = NULL;   /* the session's to say */
    sl_os_close(memory->object.fd); /* nobody else maps it */
    memory->object.fd = -1;
    buffer->memory = memory;
    return 0;
}

/* ---- one copy ---- */

bool sl_peer_copy_is_busy(const struct sl_reader *reader, const struct sl_held *entry)
{
    if (!entry->copied)
        return false;
    struct copy_memory *memory = buffer_of(reader, entry)->memory;
    return memory && memory->object.ops->copy_look(&memory->object) == SLUICE_NOT_READY;
}

struct sl_mem_shared *sl_peer_copy_pin(const struct sl_reader *reader, const struct sl_held *entry)
{
    struct sl_mem_shared *shared = &buffer_of(reader, entry)->memory->shared;

    sl_add(&shared->users, 1);
    return shared;
}

/* The end of a copy wakes nobody. A reader that does not spin sleeps until the estimated time: copies take about the
 * same time each. */
static int wait_for_copy(struct sl_reader *reader, struct sl_memory *object)
{
    int64_t began = sl_os_now(), now = began, unready = 0,
            spin_until = began + (reader->params.spin_ns < 0 ? 0 : SPIN_NS);
    bool watched = false;
    int r;

    /* The time was read before the check: this thread may have been suspended since. */
    while ((r = object->ops->copy_look(object)) == SLUICE_NOT_READY && now - began < COPY_TIMEOUT) {
        unready = now - began;
        if (now < spin_until) {
            sl_pause();
        } else {
            struct sl_poll_step step = sl_completion_estimate_next(&reader->copy_estimate, now, began, watched);
            watched |= step.watch;
            if (step.watch)
                spin_until = step.until;
            else
                (void)sl_os_futex_wait_precise(&reader->closing, 0, step.until);
        }
        now = sl_os_now();
    }
    if (r == 0)
        sl_completion_estimate_update(&reader->copy_estimate, unready, now - began);
    return r;
}

/* The copy goes on: until it ends, the slot's memory and the buffer are in use, even if the slot is reused. */
static int report_late_copy(struct sl_reader *reader, struct sl_held *entry)
{
    entry->session->lease.given_up = entry->sequence;
    sl_add(&reader->counts.lost, 1);
    sl_store(&entry->token, SL_HELD_QUEUED, release);
    return sl_fail(SLUICE_E_LOST,
                   "channel '%s': frame %llu was not copied to %s within %d s: its GPU, or the link between them, "
                   "does not get to it",
                   reader->base.name, (unsigned long long)entry->sequence, entry->session->device,
                   (int)(COPY_TIMEOUT / SLUICE_S));
}

/* Copies the header and metadata, which the writer may change once the lease has ended. */
static void copy_header(struct sl_held *entry, struct sl_copy_buffer *buffer)
{
    memcpy(&buffer->record, entry->record, sizeof buffer->record);
    memcpy(buffer->meta, entry->meta, sizeof buffer->meta);
    entry->record = &buffer->record;
    entry->meta = buffer->meta;
}

int sl_peer_copy_frame(struct sl_reader *reader, struct sl_held *entry)
{
    const struct sl_memory *from = &entry->memory->object;
    uint64_t offset = (uint64_t)(entry->address - (char *)from->address);
    const struct sl_link *link = entry->session->link;
    int r = make_buffer(reader, entry);

    if (r == 0) {
        struct sl_copy_buffer *buffer = buffer_of(reader, entry);
        struct sl_memory *to = &buffer->memory->object;
        copy_header(entry, buffer);
        entry->copied = true;
        entry->word = &words_of(entry->session->peer_copy)[entry - reader->held];
        entry->address = to->address;
        r = to->ops->copy_begin(to, from, offset, entry->memory->format.slot_bytes);
        if (r == 0)
            r = wait_for_copy(reader, to);
    }
    if (r == SLUICE_NOT_READY)
        return report_late_copy(reader, entry);
    sl_after_reads(); /* of the header, and the GPU's */
    if (r == 0 && sl_load(link->page.evicted, seq_cst) != 0)
        r = sl_fail(SLUICE_AGAIN, "channel '%s': the writer is evicting this reader", reader->base.name);
    if (r == 0)
        sl_store(entry->word, entry->sequence, relaxed);
    else
        sl_store(&entry->token, 0, release);
    return r;
}
