/* SPDX-License-Identifier: MIT
 *
 * Compiled code on disk. An entry is a file:
 *
 *     struct head, the key, the kernels' symbols, the log, the compiled bytes
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
#include "util/hash.h"
#include "util/result.h"

#define MOST_BYTES   (UINT64_C(256) << 20) /* of an entry */
#define ENTRY_NAME   32
#define ENTRY_SUFFIX ".kernels"
#define LEFT_BEHIND  (INT64_C(3600) * 1000000000) /* ns; a killed process left a file that is unfinished for longer */

struct head {
    char magic[16];
    uint64_t checksum; /* of all that follows */
    uint64_t key;      /* its size */
};
static const char magic[16] = "Sluice kernels2";

static uint64_t checksum(const char *entry, size_t size)
{
    size_t start = offsetof(struct head, checksum) + sizeof(uint64_t);

    return sl_hash(size, entry + start, size - start);
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

/* ---- where the code of a source is ---- */

struct place {
    int dir;
    char name[ENTRY_NAME]; /* a hash of the key */
    char *key;
    size_t key_size;
};

static void put_text(FILE *file, const char *text)
{
    fwrite(text, 1, strlen(text) + 1, file);
}

/* False if it is not known what the source includes, or there is no memory. */
static bool make_key(const struct sl_source *source, const char *compiler, struct place *place)
{
    char *includes = sl_source_includes(source);
    FILE *file = includes ? open_memstream(&place->key, &place->key_size) : NULL;

    if (file) {
        put_text(file, compiler);
        put_text(file, source->name); /* the compiler's messages contain it */
        fwrite(&source->option_count, sizeof source->option_count, 1, file);
        for (uint32_t i = 0; i < source->option_count; i++)
            put_text(file, source->options[i]);
        fwrite(&source->kernel_count, sizeof source->kernel_count, 1, file);
        for (uint32_t i = 0; i < source->kernel_count; i++)
            put_text(file, source->kernels[i]);
        put_text(file, includes);
        fwrite(source->text, 1, source->bytes, file);
    }
    free(includes);
    return file && fclose(file) == 0;
}

static void close_place(struct place *place)
{
    free(place->key);
    sl_os_close(place->dir);
}

static bool open_place(const struct sl_source *source, const char *compiler, bool make, struct place *place)
{
    *place = (struct place){ .key = NULL };
    if (!open_folder(make, &place->dir))
        return false;
    if (!make_key(source, compiler, place)) {
        close_place(place);
        return false;
    }
    snprintf(place->name, ENTRY_NAME, "%016" PRIx64 ENTRY_SUFFIX,
             sl_hash(place->key_size, place->key, place->key_size));
    return true;
}

static bool is_entry(const char *name)
{
    return strlen(name) == 16 + strlen(ENTRY_SUFFIX) && strspn(name, "0123456789abcdef") == 16 &&
           strcmp(name + 16, ENTRY_SUFFIX) == 0;
}

/* ---- reading ---- */

/* Reads `count` texts, one after the other. Returns where the last one ends; NULL if there are not so many. */
static const char *read_texts(const char *at, const char *end, uint32_t count, const char **texts)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *nul = memchr(at, 0, (size_t)(end - at));
        if (!nul)
            return NULL;
        texts[i] = at;
        at = nul + 1;
    }
    return at;
}

bool sl_cache_read(const struct sl_source *source, const void *key, size_t key_size, const void *entry, size_t size,
                   struct sl_code *code)
{
    const char *at = (const char *)entry + sizeof(struct head), *end = (const char *)entry + size;
    const uint32_t count = source->kernel_count;
    struct head head;

    if (size < sizeof head)
        return false;
    memcpy(&head, entry, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.checksum != checksum(entry, size) ||
        head.key != key_size || key_size > (size_t)(end - at) || memcmp(at, key, key_size) != 0)
        return false;
    const char **texts = malloc((count + 1) * sizeof *texts); /* the symbols and the log */
    at = texts ? read_texts(at + key_size, end, count + 1, texts) : NULL;
    bool found = at && sl_code_make(source, at, (size_t)(end - at), texts, texts[count], code) == 0;
    free(texts);
    return found;
}

bool sl_cache_find(const struct sl_source *source, const char *compiler, struct sl_code *code)
{
    struct place place;
    void *entry;
    size_t size;
    bool found = false;

    if (!open_place(source, compiler, false, &place))
        return false;
    if (sl_os_private_read(place.dir, place.name, MOST_BYTES, &entry, &size) == 0) {
        found = sl_cache_read(source, place.key, place.key_size, entry, size, code);
        free(entry);
    }
    if (found)
        sl_os_private_touch(place.dir, place.name);
    close_place(&place);
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
static bool make_entry(const struct place *place, const struct sl_source *source, const struct sl_code *code,
                       char **entry, size_t *size)
{
    struct head head = { .key = place->key_size };
    FILE *file = open_memstream(entry, size);

    if (!file)
        return false;
    fwrite(&head, sizeof head, 1, file);
    fwrite(place->key, 1, place->key_size, file);
    for (uint32_t i = 0, next = 0; i < source->kernel_count; i++)
        put_text(file, next_symbol(source->kernels[i], code, &next));
    put_text(file, code->log);
    fwrite(code->bytes, 1, code->size, file);
    if (fclose(file) != 0 || *size > MOST_BYTES) {
        free(*entry);
        return false;
    }
    sl_cache_seal(*entry, *size);
    return true;
}

void sl_cache_store(const struct sl_source *source, const char *compiler, const struct sl_code *code)
{
    struct place place;
    char *entry;
    size_t size;

    if (!open_place(source, compiler, true, &place))
        return;
    if (make_entry(&place, source, code, &entry, &size)) {
        if (sl_os_private_replace(place.dir, place.name, entry, size) != 0)
            sl_log(SLUICE_LOG_WARN, "%s was not kept in the cache of kernels, and will be compiled again: %s",
                   source->name, sl_last_error());
        free(entry);
    }
    sl_cache_trim(place.dir);
    close_place(&place);
}

/* ---- the oldest go ---- */

struct list {
    int dir;
    int64_t now, oldest;
    char name[ENTRY_NAME]; /* of the oldest */
    uint32_t count;
};

static int list_one(void *context, const char *name, int64_t changed)
{
    struct list *list = context;

    if (strncmp(name, SL_OS_BESIDE, strlen(SL_OS_BESIDE)) == 0 && changed < list->now - LEFT_BEHIND)
        sl_os_remove(list->dir, name);
    if (!is_entry(name))
        return 0;
    if (list->count++ == 0 || changed < list->oldest) {
        list->oldest = changed;
        strcpy(list->name, name);
    }
    return 0;
}

/* A store adds one entry, so there is usually one too many; other processes may have added more. */
void sl_cache_trim(int dir)
{
    for (int i = 0; i < 16; i++) {
        struct list list = { .dir = dir, .now = sl_os_wall_clock() };
        if (sl_os_private_list(dir, list_one, &list) != 0 || list.count <= SL_CACHE_ENTRIES)
            return;
        sl_os_remove(dir, list.name);
    }
}
