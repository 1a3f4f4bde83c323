/* SPDX-License-Identifier: MIT
 *
 * The second process of the doctor, and the temporary folder for its file.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/scratch.h"
#include "../doctor/doctor.h"
#include "text.h"

#define PATIENCE 30000 /* ms */

/* ---- the folder ---- */

bool scratch_enter(struct scratch *scratch)
{
    wchar_t parent[MAX_PATH - 40], path[MAX_PATH];

    scratch->old = NULL;
    if (GetTempPathW(MAX_PATH - 40, parent) == 0)
        return false;
    _snwprintf(path, MAX_PATH, L"%lssluice-%lu", parent, GetCurrentProcessId());
    char *text = text_from_wide(path);
    bool made = text && strlen(text) < sizeof scratch->folder && CreateDirectoryW(path, NULL);
    if (made)
        strcpy(scratch->folder, text);
    free(text);
    return made;
}

void scratch_leave(struct scratch *scratch)
{
    wchar_t *folder = text_to_wide(scratch->folder), path[MAX_PATH];
    WIN32_FIND_DATAW entry;

    if (!folder)
        return;
    _snwprintf(path, MAX_PATH, L"%ls\\*", folder);
    HANDLE list = FindFirstFileW(path, &entry);
    if (list != INVALID_HANDLE_VALUE) {
        do {
            _snwprintf(path, MAX_PATH, L"%ls\\%ls", folder, entry.cFileName);
            DeleteFileW(path); /* fails for . and .. */
        } while (FindNextFileW(list, &entry));
        FindClose(list);
    }
    RemoveDirectoryW(folder);
    free(folder);
}

/* ---- the process ---- */

/* It ends with this one. */
static HANDLE new_job(void)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {
        .BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    };
    HANDLE job = CreateJobObjectW(NULL, NULL);

    if (job)
        SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    return job;
}

/* Starts this program with what follows its name on the command line; its stderr is `errors`. */
static bool start(const char *rest, HANDLE errors, PROCESS_INFORMATION *process)
{
    STARTUPINFOW startup = { .cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES, .hStdError = errors };
    wchar_t program[MAX_PATH], line[1024], *wide = text_to_wide(rest);
    DWORD length = GetModuleFileNameW(NULL, program, MAX_PATH);
    bool started = wide && length && length < MAX_PATH;

    if (started) {
        _snwprintf(line, 1024, L"sluice %ls", wide);
        line[1023] = L'\0';
        started = CreateProcessW(program, line, NULL, NULL, TRUE, 0, NULL, NULL, &startup, process);
    }
    free(wide);
    return started;
}

static void last_line(HANDLE from, char *text, size_t size)
{
    char all[4096];
    DWORD got = 0, most = sizeof all - 1;

    while (most && ReadFile(from, all + sizeof all - 1 - most, most, &got, NULL) && got)
        most -= got;
    all[sizeof all - 1 - most] = '\0';
    for (size_t end = strlen(all); end && (all[end - 1] == '\n' || all[end - 1] == '\r'); end--)
        all[end - 1] = '\0';
    const char *line = strrchr(all, '\n');
    snprintf(text, size, "%s", line ? line + 1 : all);
}

bool second_snap(const char *channel, const char *path, char *error, size_t size)
{
    SECURITY_ATTRIBUTES inherited = { .nLength = sizeof inherited, .bInheritHandle = TRUE };
    PROCESS_INFORMATION process;
    HANDLE from, to, job;
    char rest[640];
    DWORD code = 1;

    if (!CreatePipe(&from, &to, &inherited, 0)) {
        snprintf(error, size, "there is no pipe to a second process (error %lu of Windows)", GetLastError());
        return false;
    }
    SetHandleInformation(from, HANDLE_FLAG_INHERIT, 0);
    snprintf(rest, sizeof rest, "snap \"%s\" \"%s\" --timeout 10", channel, path);
    bool started = start(rest, to, &process);
    if (!started)
        snprintf(error, size, "a second process cannot be started (error %lu of Windows)", GetLastError());
    CloseHandle(to);
    if (started) {
        job = new_job();
        if (job)
            AssignProcessToJobObject(job, process.hProcess);
        if (WaitForSingleObject(process.hProcess, PATIENCE) != WAIT_OBJECT_0)
            TerminateProcess(process.hProcess, 1);
        WaitForSingleObject(process.hProcess, PATIENCE);
        GetExitCodeProcess(process.hProcess, &code);
        last_line(from, error, size);
        CloseHandle(process.hThread);
        CloseHandle(process.hProcess);
        if (job)
            CloseHandle(job);
    }
    CloseHandle(from);
    return started && code == 0;
}
