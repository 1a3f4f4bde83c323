/* SPDX-License-Identifier: MIT
 *
 * Libraries that may be missing, and text in UTF-16.
 */
#include "os/win32/win32.h"

#include <psapi.h>
#include <stdlib.h>
#include <string.h>

#include "util/result.h"

enum { PATH = 4096 };

bool sl_wide(const char *text, wchar_t *out, size_t room)
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, out, (int)room) > 0;
}

void sl_narrow(const wchar_t *text, char *out, size_t room)
{
    if (room > 0 && WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)room, NULL, NULL) == 0)
        out[room - 1] = '\0';
}

const char *sl_os_dl_pick(const char *posix, const char *windows)
{
    (void)posix;
    return windows;
}

int sl_os_dl_open(const char *name, void **library)
{
    wchar_t wide[PATH];

    if (!sl_wide(name, wide, PATH))
        return sl_fail(SLUICE_E_UNSUPPORTED, "%.80s: not the name of a library", name);
    *library = (void *)LoadLibraryW(wide);
    if (*library)
        return 0;
    (void)sl_fail_windows(GetLastError(), "loading %s", name);
    return SLUICE_E_UNSUPPORTED;
}

void *sl_os_dl_symbol(void *library, const char *name)
{
    FARPROC found = GetProcAddress(library, name);
    void *symbol;

    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}

void sl_os_dl_close(void *library)
{
    if (library)
        FreeLibrary(library);
}

bool sl_os_dl_loaded(const char *name)
{
    wchar_t wide[PATH];

    return sl_wide(name, wide, PATH) && GetModuleHandleW(wide) != NULL;
}

bool sl_os_dl_find(const char *start, int nth, char *path, size_t size)
{
    HMODULE modules[1024];
    DWORD bytes = 0;
    wchar_t wide[PATH];
    char narrow[PATH];

    if (!EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes))
        return false;
    for (DWORD i = 0; i < bytes / sizeof *modules && i < 1024; i++) {
        if (!GetModuleFileNameW(modules[i], wide, PATH))
            continue;
        sl_narrow(wide, narrow, sizeof narrow);
        const char *name = strrchr(narrow, '\\');
        name = name ? name + 1 : narrow;
        if (_strnicmp(name, start, strlen(start)) != 0 || nth-- > 0)
            continue;
        if (strlen(narrow) >= size)
            return false;
        strcpy(path, narrow);
        return true;
    }
    return false;
}

/* Windows does not count them; asking again is cheap. */
uint64_t sl_os_dl_count(void)
{
    static sl_word calls;

    return sl_add(&calls, 1) + 1;
}

int sl_os_dl_load(const char *name, const void *bytes, size_t size, void **library)
{
    (void)bytes;
    (void)size;
    (void)library;
    return sl_fail(SLUICE_E_UNSUPPORTED, "%s: Windows loads libraries from files only", name);
}

void sl_stay_loaded(void)
{
    static sl_word32 done;
    HMODULE module;

    if (!sl_exchange(&done, 1))
        (void)GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                                 (const wchar_t *)(void *)&done, &module);
}
