/* SPDX-License-Identifier: MIT
 *
 * A segment's names. Whoever holds the kernel's lock on its memory is its writer. The lock is on
 * the memory, not on a name or pid, so it does not matter who has removed which name.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cuda_link/wire/segment.h"
#include "util/hooks.h"
#include "util/result.h"

#define ATTEMPTS 100 /* a millisecond each, while names are added and removed */

/* The owner of the memory can truncate it, which kills processes that have it mapped, and can read
 * the handles. */
int sl_cipd_segment_check_owner(const char *name, const struct sl_os_named *memory)
{
    if (memory->owner == sl_os_uid() || memory->owner == 0)
        return 0;
    return sl_fail(SLUICE_E_PERMISSION, "%s%s belongs to user %" PRIu32 ": both sides must run as the same user",
                   sl_os_named_at, name, memory->owner);
}

/* A process that makes a segment has it open until it has its size, so an empty one that nobody has
 * open was left behind. */
int sl_cipd_segment_drop_empty(const struct sl_cipd_segment *segment, const char *name, bool late)
{
    int alone = sl_os_named_alone(segment->fd);
    if (alone == 1 || (alone < 0 && late))
        sl_os_named_remove(name, &segment->memory);
    return SLUICE_AGAIN;
}

static int map(struct sl_cipd_segment *segment, int fd)
{
    void *address;
    segment->size = segment->memory.size < SL_CIPD_SEGMENT ? segment->memory.size : SL_CIPD_SEGMENT;
    int result = sl_os_map(fd, segment->size, segment->writable, &address);
    if (result == 0)
        segment->at = address;
    return result;
}

/* Opens and maps a writer's segment by a descriptor of its own. A mapping that a forked child keeps
 * also keeps the lock of the descriptor it was made from. */
static int map_hidden(struct sl_cipd_segment *segment)
{
    int fd, result = sl_os_named_reopen(segment->fd, &fd);
    if (result)
        return result;
    result = map(segment, fd);
    sl_os_close(fd);
    return result;
}

/* The same by name. SLUICE_AGAIN: the name refers to other memory by now. */
static int map_apart(struct sl_cipd_segment *segment, const char *name)
{
    struct sl_os_named memory;
    int fd, result = sl_os_named_open(name, true, &fd, &memory);
    if (result)
        return result == SLUICE_E_NOT_FOUND ? SLUICE_AGAIN : result;
    result = sl_cipd_segment_same(&memory, &segment->memory) ? map(segment, fd) : SLUICE_AGAIN;
    sl_os_close(fd);
    return result;
}

static void unmap(struct sl_cipd_segment *segment)
{
    sl_os_unmap(segment->at, segment->size);
    sl_os_close(segment->bell);
    sl_os_close(segment->fd);
    segment->at = NULL;
    segment->fd = segment->bell = -1;
}

static void name_it(struct sl_cipd_segment *segment, const char *name)
{
    *segment = (struct sl_cipd_segment)SL_CIPD_SEGMENT_INIT;
    snprintf(segment->name, sizeof(segment->name), "%s", name);
}

/* ---- readers ---- */

static int open_by_any_name(struct sl_cipd_segment *segment)
{
    char link_name[SL_CIPD_NAME + 1];
    segment->writable = true;
    int result = sl_os_named_open(segment->name, true, &segment->fd, &segment->memory);
    if (result == SLUICE_E_NOT_FOUND && sl_cipd_link_name_find(segment->name, link_name))
        result = sl_os_named_open(link_name, true, &segment->fd, &segment->memory);
    if (result != SLUICE_E_PERMISSION)
        return result;
    segment->writable = false;
    return sl_os_named_open(segment->name, false, &segment->fd, &segment->memory);
}

int sl_cipd_segment_attach(struct sl_cipd_segment *segment, const char *name)
{
    struct sl_cipd_segment made;
    name_it(&made, name);
    int result = open_by_any_name(&made);
    if (result == SLUICE_E_NOT_FOUND)
        return sl_fail(result, "there is no cuda-link channel %s (%s%s): is its writer running, as the same user, %s?",
                       name, sl_os_named_at, name, sl_os_named_reach);
    if (result)
        return result;
    if (made.memory.size < SL_CIPD_HEADER)
        result = sl_fail(SLUICE_NO_WRITER, "%s%s has %" PRIu64 " bytes, its writer has not filled it yet",
                         sl_os_named_at, name, made.memory.size);
    else if ((result = sl_os_close_in_child(made.fd)) == 0)
        result = map(&made, made.fd);
    if (result)
        unmap(&made);
    else
        *segment = made;
    return result;
}

/* ---- writers ---- */

/* Under the service lock, which a fork takes, so that no child keeps a descriptor with the lock. */
static int keep_lock(struct sl_cipd_segment *segment)
{
    int result = sl_os_close_in_child(segment->fd);
    return result ? result : sl_os_named_lock(segment->fd, false);
}

/* SLUICE_E_UNSUPPORTED if the system cannot do this. */
static int make_hidden(struct sl_cipd_segment *segment)
{
    int result = sl_os_named_make_hidden(SL_CIPD_SEGMENT, &segment->fd, &segment->memory);
    if (result == 0 && ((result = keep_lock(segment)) != 0 || (result = map_hidden(segment)) != 0))
        unmap(segment);
    segment->hidden = result == 0;
    return result;
}

static int make_named(struct sl_cipd_segment *segment)
{
    int result;
    do {
        sl_cipd_link_name_make(segment->name, segment->link_name);
        result = sl_os_named_make(segment->link_name, SL_CIPD_SEGMENT, &segment->fd, &segment->memory);
    } while (result == SLUICE_E_EXISTS);
    if (result == 0 && ((result = keep_lock(segment)) != 0 || (result = map_apart(segment, segment->link_name)) != 0)) {
        sl_os_named_remove(segment->link_name, &segment->memory);
        unmap(segment);
    }
    return result;
}

/* The memory has one name only, and goes with its last user. SLUICE_AGAIN: another program was faster. */
static int make_public(struct sl_cipd_segment *segment)
{
    int result = sl_os_named_make(segment->name, SL_CIPD_SEGMENT, &segment->fd, &segment->memory);
    if (result)
        return result == SLUICE_E_EXISTS ? SLUICE_AGAIN : result;
    if ((result = keep_lock(segment)) == 0)
        result = map(segment, segment->fd);
    if (result)
        unmap(segment);
    return result == SLUICE_E_EXISTS ? SLUICE_AGAIN : result;
}

/* If a writer is killed here, before there is a session, nothing must be left behind. */
static int make(struct sl_cipd_segment *segment)
{
    segment->writable = true;
    if (!sl_os_named_has_names())
        return make_public(segment);
    int result = make_hidden(segment);
    return result == SLUICE_E_UNSUPPORTED ? make_named(segment) : result;
}

int sl_cipd_segment_make(struct sl_cipd_segment *made, const char *name)
{
    struct sl_cipd_segment segment;
    name_it(&segment, name);
    int result = make(&segment);
    if (result == SLUICE_AGAIN)
        return sl_fail(SLUICE_E_SYSTEM, "cuda-link channel %s: %s%s was taken away", name, sl_os_named_at,
                       segment.link_name);
    if (result == 0)
        *made = segment;
    return result;
}

/* Adds the link name, by which a killed writer's segment is found and swept: it has a session by
 * now. */
static int add_link_name(struct sl_cipd_segment *segment)
{
    int result;
    do {
        sl_cipd_link_name_make(segment->name, segment->link_name);
        result = sl_os_named_add_name(segment->fd, segment->link_name);
    } while (result == SLUICE_E_EXISTS);
    if (result)
        segment->link_name[0] = 0;
    return result;
}

int sl_cipd_segment_publish(struct sl_cipd_segment *made)
{
    char third[SL_CIPD_NAME + 1];
    int result = made->hidden ? add_link_name(made) : 0;
    if (result)
        return result;
    made->hidden = false;
    do {
        /* Of the same form, so that it is swept if this process is killed now. */
        sl_cipd_link_name_make(made->name, third);
        result = sl_os_named_move(made->link_name, third, made->name);
    } while (result == SLUICE_E_EXISTS);
    if (result == SLUICE_E_NOT_FOUND)
        return sl_fail(SLUICE_E_SYSTEM, "cuda-link channel %s: %s%s was taken away", made->name, sl_os_named_at,
                       made->link_name);
    return result;
}

static int taken(const char *name)
{
    return sl_fail(SLUICE_E_EXISTS, "cuda-link channel %s has a writer already", name);
}

/* Makes a segment for a name that does not exist. SLUICE_AGAIN: it exists by now. */
static int own_new(struct sl_cipd_segment *segment)
{
    char link_name[SL_CIPD_NAME + 1];
    if (sl_cipd_link_name_find(segment->name, link_name)) {
        sl_os_named_link(link_name, segment->name); /* gives the other writer back its public name */
        return taken(segment->name);
    }
    int result = make(segment);
    if (result || segment->hidden || !sl_os_named_has_names())
        return result;
    result = sl_os_named_link(segment->link_name, segment->name);
    if (result == 0)
        return 0;
    sl_os_named_remove(segment->link_name, &segment->memory);
    unmap(segment);
    /* Another writer was faster, or has swept our link name before it was locked. */
    return result == SLUICE_E_EXISTS || result == SLUICE_E_NOT_FOUND ? SLUICE_AGAIN : result;
}

/* The public name first: once memory has lost its only name, it cannot be given another. */
int sl_cipd_segment_show(struct sl_cipd_segment *segment)
{
    if (!segment->hidden)
        return 0;
    int result = sl_os_named_add_name(segment->fd, segment->name);
    if (result == SLUICE_E_EXISTS)
        return sl_fail(result, "cuda-link channel %s has another writer, which was quicker", segment->name);
    if (result)
        return result;
    SL_KILL_POINT("cipd_show");
    segment->hidden = false;
    if ((result = add_link_name(segment)) != 0)
        sl_os_named_remove(segment->name, &segment->memory);
    return result;
}

/* May we take it over? Only a segment, or one that was never filled in, is touched. */
static int check_old(const struct sl_cipd_segment *segment)
{
    uint32_t magic = segment->size < SL_CIPD_HEADER ? 1 : sl_cipd_load_magic(segment->at);
    if (magic == SL_CIPD_MAGIC || magic == SL_CIPD_MAGIC_09 ||
        (magic == 0 && sl_cipd_zero(segment->at, SL_CIPD_HEADER)))
        return 0;
    return sl_fail(SLUICE_E_EXISTS,
                   "%s%s is no channel of cuda-link's but something else: remove it, or take another name",
                   sl_os_named_at, segment->name);
}

/* Takes over an existing one. SLUICE_AGAIN: the name refers to other memory by now, or is free, or
 * the memory has no bytes yet. */
static int own_found(struct sl_cipd_segment *segment, int attempt)
{
    struct sl_os_named now;
    int result = keep_lock(segment);
    if (result == SLUICE_E_EXISTS)
        result = taken(segment->name);
    if (result == 0 && (sl_os_named_stat(segment->name, &now) || !sl_cipd_segment_same(&now, &segment->memory)))
        result = SLUICE_AGAIN;
    if (result == 0 && segment->memory.size == 0)
        result = sl_cipd_segment_drop_empty(segment, segment->name, attempt > ATTEMPTS / 2);
    if (result == 0 && (result = map_apart(segment, segment->name)) == 0 && (result = check_old(segment)) == 0) {
        sl_cipd_link_name_make(segment->name, segment->link_name);
        result = sl_os_named_link(segment->name, segment->link_name);
        if (result == SLUICE_E_EXISTS || result == SLUICE_E_NOT_FOUND)
            result = SLUICE_AGAIN;
    }
    if (result)
        unmap(segment);
    return result;
}

static int own_once(struct sl_cipd_segment *segment, int attempt, bool *fresh)
{
    segment->writable = true;
    int result = sl_os_named_open(segment->name, true, &segment->fd, &segment->memory);
    *fresh = result == SLUICE_E_NOT_FOUND;
    if (result == 0 && (result = sl_cipd_segment_check_owner(segment->name, &segment->memory)) != 0)
        unmap(segment);
    else if (result == 0)
        return own_found(segment, attempt);
    return *fresh ? own_new(segment) : result;
}

int sl_cipd_segment_own(struct sl_cipd_segment *segment, const char *name, bool *fresh)
{
    struct sl_cipd_segment made;
    int result = sl_cipd_segment_check_name(name, SL_CIPD_WRITER_NAME);
    if (result)
        return result;
    result = SLUICE_AGAIN;
    for (int attempt = 0; result == SLUICE_AGAIN && attempt < ATTEMPTS; attempt++) {
        if (attempt)
            sl_os_sleep(SLUICE_MS);
        name_it(&made, name);
        sl_service_lock();
        result = own_once(&made, attempt, fresh);
        sl_service_unlock();
    }
    if (result == SLUICE_AGAIN && made.memory.inode && made.memory.size == 0)
        return sl_fail(SLUICE_E_EXISTS,
                       "cuda-link channel %s: another program is just making %s%s, and has given it no bytes "
                       "yet: is it stopped?",
                       name, sl_os_named_at, name);
    if (result == SLUICE_AGAIN)
        return sl_fail(SLUICE_E_SYSTEM, "cuda-link channel %s: %s%s comes and goes all the time", name, sl_os_named_at,
                       name);
    if (result)
        return result;
    uint32_t left;
    if (sl_os_bell_make(name, &made.bell) != 0)
        made.bell = -1;
    sl_cipd_link_names_sweep_own(&made);
    (void)sl_cipd_link_names_sweep(true, &left);
    *segment = made;
    return 0;
}

int sl_cipd_segment_refresh(struct sl_cipd_segment *segment)
{
    struct sl_os_named now;
    if (segment->hidden)
        return 0;
    int result = sl_os_named_stat(segment->name, &now);
    if (result == SLUICE_E_NOT_FOUND) {
        result = sl_os_named_link(segment->link_name, segment->name);
        if (result == 0)
            return 1;
        if (result != SLUICE_E_EXISTS)
            return result == SLUICE_E_NOT_FOUND ? sl_fail(SLUICE_E_SYSTEM,
                                                          "cuda-link channel %s: both names of "
                                                          "its segment were taken away; new readers cannot find it",
                                                          segment->name)
                                                : result;
        result = sl_os_named_stat(segment->name, &now);
    }
    if (result)
        return result;
    if (sl_cipd_segment_same(&now, &segment->memory))
        return 0;
    return sl_fail(SLUICE_E_EXISTS,
                   "cuda-link channel %s: another program has put a segment of its own under this name; "
                   "readers that come now do not get ours",
                   segment->name);
}

/* ---- both ---- */

enum sl_cipd_fate sl_cipd_segment_fate(const struct sl_cipd_segment *segment)
{
    struct sl_os_named now;
    int result = sl_os_named_stat(segment->name, &now);
    if (result == 0)
        return sl_cipd_segment_same(&now, &segment->memory) ? SL_CIPD_HERE : SL_CIPD_REPLACED;
    if (result != SLUICE_E_NOT_FOUND || sl_os_named_locked(segment->fd))
        return SL_CIPD_HERE;
    return SL_CIPD_ORPHAN;
}

bool sl_cipd_segment_locked(const struct sl_cipd_segment *segment)
{
    return segment->fd >= 0 && sl_os_named_locked(segment->fd);
}

void sl_cipd_segment_close(struct sl_cipd_segment *segment)
{
    if (segment->fd >= 0 && segment->link_name[0]) {
        sl_os_named_remove(segment->name, &segment->memory);
        sl_os_named_remove(segment->link_name, &segment->memory);
    }
    unmap(segment);
    segment->link_name[0] = 0;
}

void sl_cipd_segment_leave(struct sl_cipd_segment *segment)
{
    sl_os_named_remove(segment->link_name, &segment->memory);
    segment->link_name[0] = 0;
    unmap(segment);
}
