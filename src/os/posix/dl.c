/* SPDX-License-Identifier: MIT
 *
 * Libraries that may be there or not.
 */
#include <dlfcn.h>

#include "os/os.h"
#include "util/result.h"

void *sl_os_dl_open(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        sl_say("%s", reason ? reason : name);
    }
    return library;
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
