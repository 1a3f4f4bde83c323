/* SPDX-License-Identifier: MIT
 *
 * This process, others, and what Windows says when a call fails.
 */
#include "os/win32/win32.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/result.h"

static int result_of(DWORD code)
{
    switch (code) {
    case ERROR_ACCESS_DENIED: return SLUICE_E_PERMISSION;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT:
    case ERROR_DISK_FULL: return SLUICE_E_NO_MEMORY;
    case ERROR_TOO_MANY_OPEN_FILES:
    case ERROR_NO_SYSTEM_RESOURCES: return SLUICE_E_NO_DESCRIPTORS;
    default: return SLUICE_E_SYSTEM;
    }
}

int sl_fail_windows(DWORD code, const char *format, ...)
{
    char what[512], why[256] = "";
    wchar_t wide[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, wide, 256, NULL))
        sl_narrow(wide, why, sizeof why);
    why[strcspn(why, "\r\n")] = '\0';
    return sl_fail(result_of(code), "%s: %s (error %lu of Windows)", what, *why ? why : "it failed", code);
}

bool sl_os_process_runs(uint32_t pid)
{
    HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, pid);

    if (!process)
        return GetLastError() == ERROR_ACCESS_DENIED;
    bool lives = WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
    CloseHandle(process);
    return lives;
}

uint32_t sl_os_pid(void)
{
    return GetCurrentProcessId();
}

uint32_t sl_os_uid(void)
{
    return 0; /* users have no numbers here; Windows checks who may open what */
}

void sl_os_program(char *name, size_t size)
{
    wchar_t path[MAX_PATH];
    DWORD length = GetModuleFileNameW(NULL, path, MAX_PATH);
    char narrow[MAX_PATH * 3] = "";

    if (length > 0 && length < MAX_PATH)
        sl_narrow(path, narrow, sizeof narrow);
    char *last = strrchr(narrow, '\\'), *end = strrchr(narrow, '.');
    if (end && _stricmp(end, ".exe") == 0)
        *end = '\0';
    snprintf(name, size, "%s", last ? last + 1 : *narrow ? narrow : "?");
}

bool sl_os_readable(const void *address)
{
    MEMORY_BASIC_INFORMATION about;

    return VirtualQuery(address, &about, sizeof about) != 0 && about.State == MEM_COMMIT &&
           !(about.Protect & (PAGE_NOACCESS | PAGE_GUARD));
}

int sl_os_self_pidfd(void)
{
    return -1;
}

bool sl_os_pidfd_valid(int fd)
{
    (void)fd;
    return false;
}

bool sl_os_pidfd_dead(int fd)
{
    (void)fd;
    return false;
}
