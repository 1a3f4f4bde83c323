/* SPDX-License-Identifier: MIT
 *
 * Libraries that may be missing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>

#include "os/os.h"
#include "util/result.h"

const char *sl_os_dl_pick(const char *posix, const char *windows)
{
    (void)windows;
    return posix;
}

/* dlopen reports its reason only as text. So it is tested whether opening a file that always exists
 * fails, too. */
static int no_descriptors(const char *name)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int error = errno;

    if (fd >= 0)
        sl_os_close(fd);
    return fd < 0 && (error == EMFILE || error == ENFILE) ? sl_fail_errno(error, "loading %s", name) : 0;
}

int sl_os_dl_open(const char *name, void **library)
{
    *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (*library)
        return 0;
    const char *reason = dlerror();
    int r = no_descriptors(name);
    return r != 0 ? r : sl_fail(SLUICE_E_UNSUPPORTED, "%s", reason ? reason : name);
}

void *sl_os_dl_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

void sl_os_dl_close(void *library)
{
    if (library)
        dlclose(library);
}

bool sl_os_dl_loaded(const char *name)
{
    void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);

    sl_os_dl_close(library); /* a reference of its own */
    return library != NULL;
}

struct search {
    const char *start;
    int left; /* how many to pass over */
    char *path;
    size_t size;
    bool found;
};

static int look_at_name(struct dl_phdr_info *info, size_t size, void *user)
{
    struct search *search = user;
    const char *name = strrchr(info->dlpi_name, '/');
    size_t length = strlen(info->dlpi_name);

    (void)size;
    name = name ? name + 1 : info->dlpi_name;
    if (strncmp(name, search->start, strlen(search->start)) != 0 || search->left-- > 0)
        return 0;
    search->found = length < search->size;
    if (search->found)
        memcpy(search->path, info->dlpi_name, length + 1);
    return 1;
}

bool sl_os_dl_find(const char *start, int nth, char *path, size_t size)
{
    struct search search = { start, nth, path, size, false };

    (void)dl_iterate_phdr(look_at_name, &search);
    return search.found;
}

static int take_count(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)size;
    *(uint64_t *)count = info->dlpi_adds;
    return 1; /* the first library's is every library's */
}

uint64_t sl_os_dl_count(void)
{
    uint64_t count = 0;

    (void)dl_iterate_phdr(take_count, &count);
    return count;
}
