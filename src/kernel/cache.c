/* SPDX-License-Identifier: MIT
 *
 * Compiled code on disk. An entry is a file:
 *
 *     struct head, the key, the symbols, the log, the compiled bytes
 *
 * The key is all that decides what a compiler makes. It is compared in full: the file's name, a hash of it, only says
 * where to look. Entries are written beside and renamed, so that there is no lock, and whoever is killed leaves none
 * that is torn; the checksum is for what disks do.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cache.h"
#include "os/os.h"
#include "util/result.h"

#define MOST_BYTES   (UINT64_C(256) << 20) /* of an entry */
#define ENTRY_NAME   32
#define ENTRY_SUFFIX ".kernels"
#define LEFT_BEHIND  (INT64_C(3600) * 1000000000) /* ns; a killed process left a file that is unfinished for longer */

struct head {
    char magic[16];
    uint64_t checksum; /* of all that follows */
    uint64_t key, symbols, log, bytes;
};
static const char magic[16] = "Sluice kernels1";

/* Hashes words, not bytes, so that a load of a large binary does not take too long. */
static uint64_t hash(uint64_t seed, const void *bytes, size_t size)
{
    const char *at = bytes;

    for (; size >= sizeof seed; at += sizeof seed, size -= sizeof seed) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        seed = (seed ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        seed ^= seed >> 32;
    }
    for (; size > 0; at++, size--)
        seed = (seed ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return seed;
}

static uint64_t checksum(const char *entry, size_t size)
{
    size_t start = offsetof(struct head, checksum) + sizeof(uint64_t);

    return hash(size, entry + start, size - start);
}

void sl_cache_seal(void *entry, size_t size)
{
    uint64_t sum = checksum(entry, size);

    memcpy(entry, magic, sizeof magic);
    memcpy((char *)entry + offsetof(struct head, checksum), &sum, sizeof sum);
}

/* ---- the folder ---- */

static bool is_absolute(const char *path)
{
    return path && *path == '/';
}

static int find_folder(char *path, size_t size)
{
    const char *given = secure_getenv("SLUICE_CACHE"), *cache = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    int length;

    if (given && strcmp(given, "off") == 0)
        return sl_fail(SLUICE_NOT_READY, "SLUICE_CACHE is off");
    if (given && *given)
        length = snprintf(path, size, "%s", given);
    else if (is_absolute(cache))
        length = snprintf(path, size, "%s/sluice", cache);
    else if (is_absolute(home))
        length = snprintf(path, size, "%s/.cache/sluice", home);
    else
        return sl_fail(SLUICE_NOT_READY, "none of SLUICE_CACHE, XDG_CACHE_HOME and HOME names a folder");
    if (length < 0 || (size_t)length >= size)
        return sl_fail(SLUICE_E_INVALID, "the name of the folder has %d bytes; there is room for %zu", length,
                       size - 1);
    return 0;
}

/* A process logs once why it does not use the folder. */
static bool open_folder(bool make, int *dir)
{
    static sl_word32 reported;
    char path[4096];

    if (find_folder(path, sizeof path) != 0)
        return false;
    int r = sl_os_private_dir_open(path, make, dir);
    if (r != 0 && r != SLUICE_E_NOT_FOUND && sl_exchange(&reported, 1) == 0)
        sl_log(SLUICE_LOG_WARN, "the cache of kernels is not used: %s", sl_last_error());
    return r == 0;
}

int sl_cache_folder(char *path, size_t size)
{
    char found[4096];
    int dir;
    int r = find_folder(found, sizeof found);

    if (r != 0)
        return r;
    r = sl_os_private_dir_open(found, false, &dir);
    if (r == 0)
        sl_os_close(dir);
    else if (r != SLUICE_E_NOT_FOUND) /* it will be made */
        return SLUICE_NOT_READY;
    if ((size_t)snprintf(path, size, "%s", found) >= size)
        return sl_fail(SLUICE_E_INVALID, "sluice_kernel_cache: the path has %zu bytes, more than size, %zu",
                       strlen(found) + 1, size);
    return 0;
}

/* ---- the key ---- */

struct key {
    char *bytes;
    size_t size;
};

static size_t put(char *to, size_t at, const void *bytes, size_t size)
{
    if (to)
        memcpy(to + at, bytes, size);
    return at + size;
}

static size_t put_text(char *to, size_t at, const char *text)
{
    return put(to, at, text, strlen(text) + 1);
}

/* With `to` NULL it only counts. */
static size_t write_key(const struct sl_source *source, const char *compiler, const char *includes, char *to)
{
    size_t at = put_text(to, 0, compiler);

    at = put_text(to, at, source->name); /* the compiler's messages contain it */
    at = put(to, at, &source->option_count, sizeof source->option_count);
    for (uint32_t i = 0; i < source->option_count; i++)
        at = put_text(to, at, source->options[i]);
    at = put(to, at, &source->kernel_count, sizeof source->kernel_count);
    for (uint32_t i = 0; i < source->kernel_count; i++)
        at = put_text(to, at, source->kernels[i]);
    at = put_text(to, at, includes);
    return put(to, at, source->text, source->bytes);
}

/* False if it is not known what the source includes, or there is no memory. */
static bool make_key(const struct sl_source *source, const char *compiler, struct key *key)
{
    char *includes = sl_source_includes(source);

    if (!includes)
        return false;
    key->size = write_key(source, compiler, includes, NULL);
    key->bytes = malloc(key->size);
    if (key->bytes)
        write_key(source, compiler, includes, key->bytes);
    free(includes);
    return key->bytes;
}

static void name_of(const struct key *key, char name[ENTRY_NAME])
{
    uint64_t value = hash(key->size, key->bytes, key->size);

    snprintf(name, ENTRY_NAME, "%016" PRIx64 ENTRY_SUFFIX, value);
}

static bool is_entry(const char *name)
{
    return strlen(name) == 16 + strlen(ENTRY_SUFFIX) && strspn(name, "0123456789abcdef") == 16 &&
           strcmp(name + 16, ENTRY_SUFFIX) == 0;
}

/* ---- reading ---- */

/* The parts lie within the entry and fill it. */
static bool sizes_fit(const struct head *head, size_t size)
{
    const uint64_t parts[] = { head->key, head->symbols, head->log, head->bytes };
    uint64_t left = size - sizeof *head;

    for (int i = 0; i < 4; i++) {
        if (parts[i] > left)
            return false;
        left -= parts[i];
    }
    return left == 0;
}

/* `count` texts, one after the other, that fill `size` bytes. */
static bool split(const char *texts, size_t size, uint32_t count, const char **list)
{
    size_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        const char *end = at < size ? memchr(texts + at, 0, size - at) : NULL;
        if (!end)
            return false;
        list[i] = texts + at;
        at = (size_t)(end - texts) + 1;
    }
    return at == size;
}

bool sl_cache_read(const struct sl_source *source, const void *key, size_t key_size, const void *entry, size_t size,
                   struct sl_code *code)
{
    const char *at = (const char *)entry + sizeof(struct head), *log;
    struct head head;

    if (size < sizeof head)
        return false;
    memcpy(&head, entry, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.checksum != checksum(entry, size) ||
        !sizes_fit(&head, size) || head.key != key_size || memcmp(at, key, key_size) != 0)
        return false;
    at += head.key;
    const char **symbols = malloc((size_t)source->kernel_count * sizeof *symbols + 1);
    bool found = symbols && split(at, head.symbols, source->kernel_count, symbols) &&
                 split(at + head.symbols, head.log, 1, &log) &&
                 sl_code_make(source, at + head.symbols + head.log, head.bytes, symbols, log, code) == 0;
    free(symbols);
    return found;
}

bool sl_cache_find(const struct sl_source *source, const char *compiler, struct sl_code *code)
{
    char name[ENTRY_NAME];
    struct key key;
    void *entry;
    size_t size;
    int dir;

    if (!open_folder(false, &dir))
        return false;
    bool found = false;
    if (make_key(source, compiler, &key)) {
        name_of(&key, name);
        if (sl_os_private_read(dir, name, MOST_BYTES, &entry, &size) == 0) {
            found = sl_cache_read(source, key.bytes, key.size, entry, size, code);
            free(entry);
        }
        free(key.bytes);
    }
    if (found)
        sl_os_private_touch(dir, name);
    sl_os_close(dir);
    return found;
}

/* ---- writing ---- */

/* The code's kernels are the source's in order, without those that are left out: "". */
static const char *next_symbol(const char *kernel, const struct sl_code *code, uint32_t *next)
{
    if (*next < code->kernel_count && strcmp(code->kernels[*next].name, kernel) == 0)
        return code->kernels[(*next)++].symbol;
    return "";
}

/* The entry is one block, to be freed. False: there is no memory, or it would be too large. */
static bool make_entry(const struct key *key, const struct sl_source *source, const struct sl_code *code, char **entry,
                       size_t *size)
{
    struct head head = { .key = key->size, .log = strlen(code->log) + 1, .bytes = code->size };

    for (uint32_t i = 0, next = 0; i < source->kernel_count; i++)
        head.symbols += strlen(next_symbol(source->kernels[i], code, &next)) + 1;
    *size = sizeof head + head.key + head.symbols + head.log + head.bytes;
    if (*size > MOST_BYTES || !(*entry = malloc(*size)))
        return false;
    size_t at = put(*entry, 0, &head, sizeof head);
    at = put(*entry, at, key->bytes, key->size);
    for (uint32_t i = 0, next = 0; i < source->kernel_count; i++)
        at = put_text(*entry, at, next_symbol(source->kernels[i], code, &next));
    at = put_text(*entry, at, code->log);
    put(*entry, at, code->bytes, code->size);
    sl_cache_seal(*entry, *size);
    return true;
}

void sl_cache_store(const struct sl_source *source, const char *compiler, const struct sl_code *code)
{
    char name[ENTRY_NAME], *entry;
    struct key key;
    size_t size;
    int dir;

    if (!open_folder(true, &dir))
        return;
    if (make_key(source, compiler, &key)) {
        name_of(&key, name);
        if (make_entry(&key, source, code, &entry, &size)) {
            if (sl_os_private_replace(dir, name, entry, size) != 0)
                sl_log(SLUICE_LOG_WARN, "%s was not kept in the cache of kernels, and will be compiled again: %s",
                       source->name, sl_last_error());
            free(entry);
        }
        free(key.bytes);
    }
    sl_cache_trim(dir);
    sl_os_close(dir);
}

/* ---- the oldest go ---- */

struct entry {
    int64_t changed;
    char name[ENTRY_NAME];
};

struct list {
    int dir;
    int64_t now;
    struct entry *entries;
    size_t count, room;
};

static int list_one(void *context, const char *name, int64_t changed)
{
    struct list *list = context;

    if (strncmp(name, SL_OS_BESIDE, strlen(SL_OS_BESIDE)) == 0 && changed < list->now - LEFT_BEHIND)
        sl_os_remove(list->dir, name);
    if (!is_entry(name))
        return 0;
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 2 * SL_CACHE_ENTRIES;
        struct entry *more = realloc(list->entries, room * sizeof *more);
        if (!more)
            return SLUICE_E_NO_MEMORY;
        list->entries = more;
        list->room = room;
    }
    list->entries[list->count].changed = changed;
    strcpy(list->entries[list->count++].name, name);
    return 0;
}

static int by_age(const void *a, const void *b)
{
    int64_t first = ((const struct entry *)a)->changed, second = ((const struct entry *)b)->changed;

    return first < second ? -1 : first > second;
}

void sl_cache_trim(int dir)
{
    struct list list = { .dir = dir, .now = sl_os_wall_clock() };

    if (sl_os_private_list(dir, list_one, &list) == 0 && list.count > SL_CACHE_ENTRIES) {
        qsort(list.entries, list.count, sizeof *list.entries, by_age);
        for (size_t i = 0; i < list.count - SL_CACHE_ENTRIES; i++)
            sl_os_remove(dir, list.entries[i].name);
    }
    free(list.entries);
}
