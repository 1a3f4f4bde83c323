/* SPDX-License-Identifier: MIT
 *
 * Names of segments in the folder of shared memory: checking them, finding and removing link names of dead
 * writers, and listing all segments.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cuda_link/wire/segment.h"
#include "util/result.h"

#define MAX_CHECKED 256 /* at other channels' link names in one sweep */

int sl_cipd_segment_check_name(const char *name, size_t most)
{
    size_t length = strlen(name);
    if (!length || length > most)
        return sl_fail(SLUICE_E_NAME, "the name of a cuda-link channel has 1 to %zu bytes, \"%.40s%s\" has %zu", most,
                       name, length > 40 ? "..." : "", length);
    for (size_t i = 0; i < length; i++)
        if (name[i] < ' ' || name[i] > '~' || name[i] == '/')
            return sl_fail(SLUICE_E_NAME,
                           "the name of a cuda-link channel is of printable ASCII without a slash; "
                           "\"%.*s\" is followed by another byte (0x%02x)",
                           (int)i, name, (unsigned char)name[i]);
    if (name[0] == '.')
        return sl_fail(SLUICE_E_NAME, "the name of a cuda-link channel does not begin with a dot: %s", name);
    return 0;
}

void sl_cipd_link_name_make(const char *name, char link_name[SL_CIPD_NAME + 1])
{
    snprintf(link_name, SL_CIPD_NAME + 1, ".%.*s.%" PRIu32 ".%08" PRIx32, SL_CIPD_WRITER_NAME, name, sl_os_pid(),
             (uint32_t)sl_os_random());
}

bool sl_cipd_link_name_matches(const char *name, const char *link_name)
{
    size_t length = strlen(name);
    if (link_name[0] != '.' || strncmp(link_name + 1, name, length) || link_name[1 + length] != '.')
        return false;
    const char *rest = link_name + length + 2;
    size_t pid = strspn(rest, "0123456789");
    return pid && rest[pid] == '.' && strlen(rest + pid + 1) == 8 && strspn(rest + pid + 1, "0123456789abcdef") == 8;
}

struct search {
    const struct sl_cipd_segment *own; /* the segment whose names to sweep; NULL: looking for a live one */
    const char *name;
    char *found;
};

static int check_link_name(void *context, const char *name)
{
    struct search *search = context;
    struct sl_os_named memory;
    int fd, stop = 0;
    if (!sl_cipd_link_name_matches(search->name, name) || sl_os_named_open(name, true, &fd, &memory))
        return 0;
    bool locked = sl_os_named_locked(fd);
    if (search->found && locked) {
        snprintf(search->found, SL_CIPD_NAME + 1, "%s", name);
        stop = 1;
    } else if (search->own && strcmp(name, search->own->link_name)) {
        /* On our own memory the only lock is ours, so the process that made this name is dead. */
        if (sl_cipd_segment_same(&memory, &search->own->memory) || !locked)
            sl_os_named_remove(name, &memory);
    }
    sl_os_close(fd);
    return stop;
}

static int search_link_names(struct search *search)
{
    char prefix[SL_CIPD_NAME + 3];
    snprintf(prefix, sizeof(prefix), ".%s.", search->name);
    return sl_os_named_list(prefix, check_link_name, search);
}

bool sl_cipd_link_name_find(const char *name, char link_name[SL_CIPD_NAME + 1])
{
    struct search search = { .name = name, .found = link_name };
    return search_link_names(&search) == 1;
}

void sl_cipd_link_names_sweep_own(const struct sl_cipd_segment *own)
{
    struct search search = { .name = own->name, .own = own };
    search_link_names(&search);
}

/* Reads the file instead of mapping it: root examines everybody's segments, and an owner may
 * truncate one meanwhile. */
static bool is_segment(int fd)
{
    _Alignas(4) unsigned char head[SL_CIPD_HEADER];
    return sl_os_named_read(fd, head, sizeof(head)) && sl_cipd_load_magic(head) == SL_CIPD_MAGIC;
}

static bool is_link_name(const char *link_name)
{
    char name[SL_CIPD_NAME + 1];
    size_t length = strlen(link_name);
    for (int dots = 0; length && dots < 2;)
        dots += link_name[--length] == '.';
    if (length < 2 || length > SL_CIPD_NAME || link_name[1] == '.')
        return false;
    snprintf(name, sizeof(name), "%.*s", (int)length - 1, link_name + 1);
    return sl_cipd_link_name_matches(name, link_name);
}

struct sweep {
    bool remove;
    uint32_t checked, left;
};

/* A live writer has its lock before it stores the magic number, and no link name is used twice.
 * So a segment with the number and without the lock is a dead writer's, even if its pid is in use
 * again. */
static int sweep_one(void *context, const char *name)
{
    struct sweep *sweep = context;
    struct sl_os_named memory;
    int fd;
    if (!is_link_name(name) || sl_os_named_stat(name, &memory) || memory.owner != sl_os_uid() ||
        sl_os_named_open(name, true, &fd, &memory))
        return 0;
    if (memory.owner == sl_os_uid() && is_segment(fd) && !sl_os_named_locked(fd)) {
        sweep->left++;
        if (sweep->remove)
            sl_os_named_remove(name, &memory);
    }
    sl_os_close(fd);
    return ++sweep->checked == MAX_CHECKED;
}

int sl_cipd_link_names_sweep(bool remove, uint32_t *left)
{
    struct sweep sweep = { .remove = remove };
    int result = sl_os_named_list(".", sweep_one, &sweep);
    if (result >= 0)
        *left = sweep.left;
    return result < 0 ? result : 0;
}

struct listing {
    int (*each)(void *context, const char *name);
    void *context;
};

static int list_one(void *context, const char *name)
{
    struct listing *listing = context;
    struct sl_os_named memory;
    int fd;
    if (sl_cipd_segment_check_name(name, SL_CIPD_NAME) || sl_os_named_open(name, false, &fd, &memory))
        return 0;
    bool ours = is_segment(fd);
    sl_os_close(fd);
    return ours ? listing->each(listing->context, name) : 0;
}

int sl_cipd_segment_list(int (*each)(void *context, const char *name), void *context)
{
    struct listing listing = { .each = each, .context = context };
    return sl_os_named_list("", list_one, &listing);
}
