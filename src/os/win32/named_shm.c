/* SPDX-License-Identifier: MIT
 *
 * Named shared memory: sections, under the name that Python's shared_memory gives them.
 *
 * A section has one name, and lives as long as any process has it open. So a name that we have open cannot come to mean
 * another section, and the name alone says which one it is.
 */
#include "os/win32/win32.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <winternl.h>

#include "util/hash.h"
#include "util/result.h"

const char sl_os_named_at[] = "section ", sl_os_named_reach[] = "in the same session";

#define LOCK_ATTEMPTS 20 /* a millisecond apart, while another process looks whether the lock exists */
enum { LONGEST_WHOLE = 180 };

static int wide_name(const char *name, wchar_t wide[SL_OBJECT_NAME])
{
    size_t length = strlen(name);

    if (!length || length > SL_OS_NAMED || strchr(name, '/') || !sl_wide(name, wide, SL_OBJECT_NAME))
        return sl_fail(SLUICE_E_NAME, "\"%.40s\" is not a name of shared memory: 1 to %d bytes without a slash", name,
                       SL_OS_NAMED);
    return 0;
}

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

void sl_beside_name(const char *kind, const char *name, const char *suffix, wchar_t out[SL_OBJECT_NAME])
{
    bool global = has_prefix(name, "Global\\");
    const char *bare = global ? name + 7 : has_prefix(name, "Local\\") ? name + 6 : name;
    char text[SL_OBJECT_NAME], hash[20] = "";

    if (strlen(bare) > LONGEST_WHOLE)
        snprintf(hash, sizeof hash, "_%016" PRIx64, sl_hash(0, bare, strlen(bare)));
    snprintf(text, sizeof text, "%s\\%s%.*s%s%s", global ? "Global" : "Local", kind, LONGEST_WHOLE, bare, hash, suffix);
    if (!sl_wide(text, out, SL_OBJECT_NAME))
        out[0] = L'\0';
}

static void fill_in(const char *name, uint64_t size, struct sl_os_named *about)
{
    *about = (struct sl_os_named){
        .device = 1,
        .inode = sl_hash(1, name, strlen(name)),
        .size = size,
        .links = 1,
        .owner = sl_os_uid(),
    };
}

/* Windows tells the size of a view, in whole pages. */
static uint64_t size_of(HANDLE section)
{
    MEMORY_BASIC_INFORMATION about = { .RegionSize = 0 };
    void *view = MapViewOfFile(section, FILE_MAP_READ, 0, 0, 0);

    if (!view)
        return 0;
    (void)VirtualQuery(view, &about, sizeof about);
    UnmapViewOfFile(view);
    return about.RegionSize;
}

static int refused(DWORD code, const char *name)
{
    switch (code) {
    case ERROR_FILE_NOT_FOUND: return SLUICE_E_NOT_FOUND;
    case ERROR_INVALID_HANDLE:
        return sl_fail(SLUICE_E_PERMISSION, "%s is no shared memory but another object of Windows: take another name",
                       name);
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_PATHNAME:
        return sl_fail(SLUICE_E_NAME,
                       "\"%.60s\": a backslash in the name of shared memory comes after Global or Local only", name);
    case ERROR_ACCESS_DENIED:
        return sl_fail(SLUICE_E_PERMISSION,
                       "%s belongs to another user: both sides must run as the same user, and neither or both as "
                       "administrator",
                       name);
    default: return sl_fail_windows(code, "opening shared memory %s", name);
    }
}

int sl_os_named_open(const char *name, bool writable, int *fd, struct sl_os_named *about)
{
    wchar_t wide[SL_OBJECT_NAME];
    int r = wide_name(name, wide);

    if (r != 0)
        return r;
    HANDLE section = OpenFileMappingW(writable ? FILE_MAP_READ | FILE_MAP_WRITE : FILE_MAP_READ, FALSE, wide);
    if (!section)
        return refused(GetLastError(), name);
    fill_in(name, size_of(section), about);
    return sl_fd_new(section, name, fd);
}

bool sl_os_named_has_names(void)
{
    return false;
}

int sl_os_named_make(const char *name, uint64_t size, int *fd, struct sl_os_named *about)
{
    wchar_t wide[SL_OBJECT_NAME];
    int r = wide_name(name, wide);

    if (r != 0)
        return r;
    HANDLE section =
        CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)(size >> 32), (DWORD)size, wide);
    DWORD code = GetLastError();
    if (section && code == ERROR_ALREADY_EXISTS) {
        CloseHandle(section);
        return SLUICE_E_EXISTS;
    }
    if (!section && code == ERROR_ACCESS_DENIED && has_prefix(name, "Global\\"))
        return sl_fail(
            SLUICE_E_PERMISSION,
            "%s: Windows lets only services and administrators make shared memory in Global: leave that out of "
            "the name, or run the writer as administrator",
            name);
    if (!section)
        return refused(code, name);
    fill_in(name, size_of(section), about);
    return sl_fd_new(section, name, fd);
}

int sl_os_named_make_hidden(uint64_t size, int *fd, struct sl_os_named *about)
{
    (void)size;
    (void)fd;
    (void)about;
    return SLUICE_E_UNSUPPORTED;
}

int sl_os_named_add_name(int fd, const char *name)
{
    (void)fd;
    (void)name;
    return 0;
}

int sl_os_named_reopen(int fd, int *again)
{
    (void)fd;
    (void)again;
    return SLUICE_E_UNSUPPORTED;
}

int sl_os_named_about(int fd, struct sl_os_named *about)
{
    struct sl_object_fd *object = sl_fd_find(fd);

    if (!object)
        return sl_fail(SLUICE_E_INVALID, "%d stands for no memory", fd);
    fill_in(object->name, size_of(object->handle), about);
    return 0;
}

int sl_os_named_stat(const char *name, struct sl_os_named *about)
{
    int fd, r = sl_os_named_open(name, false, &fd, about);

    if (r == 0)
        sl_os_close(fd);
    return r;
}

bool sl_os_named_read(int fd, void *bytes, size_t size)
{
    struct sl_object_fd *object = sl_fd_find(fd);
    void *view = object ? MapViewOfFile(object->handle, FILE_MAP_READ, 0, 0, size) : NULL;

    if (!view)
        return false;
    memcpy(bytes, view, size);
    UnmapViewOfFile(view);
    return true;
}

int sl_os_named_link(const char *from, const char *to)
{
    (void)from;
    (void)to;
    return 0;
}

int sl_os_named_move(const char *from, const char *third, const char *to)
{
    (void)from;
    (void)third;
    (void)to;
    return 0;
}

bool sl_os_named_remove(const char *name, const struct sl_os_named *memory)
{
    (void)name;
    (void)memory;
    return true;
}

/* ---- listing ---- */

/* Not in mingw's headers. */
typedef struct {
    UNICODE_STRING name, type;
} directory_entry;
NTSTATUS NTAPI NtOpenDirectoryObject(PHANDLE, ACCESS_MASK, POBJECT_ATTRIBUTES);
NTSTATUS NTAPI NtQueryDirectoryObject(HANDLE, PVOID, ULONG, BOOLEAN, BOOLEAN, PULONG, PULONG);
#define DIRECTORY_LIST 1 /* DIRECTORY_QUERY */

/* Of this session; services use another one. */
static HANDLE open_directory(void)
{
    wchar_t path[64];
    DWORD session = 0;
    HANDLE directory = NULL;

    (void)ProcessIdToSessionId(GetCurrentProcessId(), &session);
    for (int i = 0; i < 2 && !directory; i++) {
        UNICODE_STRING name;
        OBJECT_ATTRIBUTES attributes;
        if (i == 0)
            _snwprintf(path, 64, L"\\Sessions\\%lu\\BaseNamedObjects", session);
        else
            _snwprintf(path, 64, L"\\BaseNamedObjects");
        RtlInitUnicodeString(&name, path);
        InitializeObjectAttributes(&attributes, &name, 0, NULL, NULL);
        if (NtOpenDirectoryObject(&directory, DIRECTORY_LIST, &attributes) < 0)
            directory = NULL;
    }
    return directory;
}

int sl_os_named_list(const char *prefix, int (*each)(void *context, const char *name), void *context)
{
    _Alignas(16) unsigned char buffer[2048];
    const directory_entry *entry = (const directory_entry *)(void *)buffer;
    HANDLE directory = open_directory();
    ULONG at = 0, bytes;
    int r = 0;

    while (directory && r == 0 &&
           NtQueryDirectoryObject(directory, buffer, sizeof buffer, TRUE, FALSE, &at, &bytes) >= 0) {
        char name[SL_OS_NAMED + 1], type[32];
        sl_narrow(entry->type.Buffer, type, sizeof type);
        if (strcmp(type, "Section") != 0 || entry->name.Length / sizeof(wchar_t) > SL_OS_NAMED)
            continue;
        sl_narrow(entry->name.Buffer, name, sizeof name);
        if (has_prefix(name, prefix) && !has_prefix(name, "sluice_"))
            r = each(context, name);
    }
    if (directory)
        CloseHandle(directory);
    return r;
}

int sl_os_named_watch(int *fd)
{
    (void)fd;
    return sl_fail(SLUICE_E_UNSUPPORTED, "Windows does not report names that come and go");
}

/* ---- the lock: an object that exists while its holder lives ---- */

/* Not that a thread owns the mutex: the thread which opens a channel need not be the one that closes it. */
int sl_os_named_lock(int fd, bool shared)
{
    struct sl_object_fd *object = sl_fd_find(fd);
    wchar_t name[SL_OBJECT_NAME];

    if (!object)
        return sl_fail(SLUICE_E_INVALID, "%d stands for no memory", fd);
    if (shared || object->lock) /* shared ones protect second names, which do not exist here */
        return 0;
    sl_beside_name("sluice_lock_", object->name, "", name);
    for (int i = 0; i < LOCK_ATTEMPTS; i++) {
        HANDLE lock = CreateMutexW(NULL, FALSE, name);
        DWORD code = GetLastError();
        if (lock && code != ERROR_ALREADY_EXISTS) {
            object->lock = lock;
            return 0;
        }
        if (lock)
            CloseHandle(lock);
        else if (code != ERROR_ACCESS_DENIED)
            return sl_fail_windows(code, "locking shared memory %s", object->name);
        sl_os_sleep(SLUICE_MS);
    }
    return SLUICE_E_EXISTS;
}

bool sl_os_named_locked(int fd)
{
    struct sl_object_fd *object = sl_fd_find(fd);
    wchar_t name[SL_OBJECT_NAME];

    if (!object || object->lock)
        return false;
    sl_beside_name("sluice_lock_", object->name, "", name);
    HANDLE lock = OpenMutexW(SYNCHRONIZE, FALSE, name);
    if (!lock)
        return GetLastError() == ERROR_ACCESS_DENIED;
    CloseHandle(lock);
    return true;
}

int sl_os_named_alone(int fd)
{
    (void)fd;
    return SLUICE_E_UNSUPPORTED;
}
