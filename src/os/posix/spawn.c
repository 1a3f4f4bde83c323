/* SPDX-License-Identifier: MIT
 *
 * Programs that are run to their end.
 *
 * Their standard streams are files in memory, not pipes: nothing here can be blocked, or be ended by SIGPIPE, and a
 * process that the program leaves behind (a cache's server, say) holds nobody up.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

extern char **environ;

/* ---- finding ---- */

static bool is_program(const char *path, struct sl_os_program *program)
{
    struct stat status;

    if (stat(path, &status) < 0 || !S_ISREG(status.st_mode) || access(path, X_OK) < 0)
        return false;
    program->bytes = (uint64_t)status.st_size;
    program->changed = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    program->inode = status.st_ino;
    return true;
}

bool sl_os_runs_programs(void)
{
    return true;
}

bool sl_os_find_program(const char *name, struct sl_os_program *program)
{
    const char *folders = getenv("PATH");
    const size_t size = sizeof program->path;

    if (strchr(name, '/'))
        return (size_t)snprintf(program->path, size, "%s", name) < size && is_program(name, program);
    for (const char *at = folders ? folders : "/bin:/usr/bin"; *name && *at;) {
        size_t length = strcspn(at, ":");
        int needed = snprintf(program->path, size, "%.*s/%s", (int)length, at, name);
        if (length > 0 && (size_t)needed < size && is_program(program->path, program))
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

/* ---- running ---- */

/* Does the list, which may be NULL, set the variable of this entry of an environment? */
static bool is_replaced(const char *entry, const char *const *list)
{
    size_t length = strcspn(entry, "=");

    for (; list && *list; list++)
        if (strncmp(*list, entry, length) == 0 && (*list)[length] == '=')
            return true;
    return false;
}

/* One block, to be freed. */
static char **make_environment(const char *const *list)
{
    size_t ours = 0, more = 0, count = 0;

    while (environ && environ[ours])
        ours++;
    while (list && list[more])
        more++;
    char **all = malloc((ours + more + 1) * sizeof *all);
    if (!all)
        return NULL;
    for (size_t i = 0; i < ours; i++)
        if (!is_replaced(environ[i], list))
            all[count++] = environ[i];
    for (size_t i = 0; i < more; i++)
        all[count++] = (char *)(uintptr_t)list[i];
    all[count] = NULL;
    return all;
}

static int memory_file(const char *name, int *fd)
{
    *fd = sl_above_standard(memfd_create(name, MFD_CLOEXEC));
    return *fd >= 0 ? 0 : sl_fail_call(errno, "memfd_create", "making a file in memory");
}

/* What this process ignores or blocks is none of the program's business. */
static int prepare(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *actions, int in, int out)
{
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    if (!error)
        error = posix_spawnattr_setsigdefault(attributes, &all);
    if (!error)
        error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!error)
        error = posix_spawn_file_actions_adddup2(actions, in, STDIN_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(actions, out, STDOUT_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(actions, out, STDERR_FILENO);
    return error;
}

static int start(const struct sl_os_run *run, int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char **environment = make_environment(run->environment);

    if (!environment)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to start %s", run->argv[0]);
    int error = posix_spawn_file_actions_init(&actions);
    if (!error) {
        if (!(error = posix_spawnattr_init(&attributes))) {
            error = prepare(&attributes, &actions, in, out);
            if (!error)
                error =
                    posix_spawn(pid, run->argv[0], &actions, &attributes, (char **)(uintptr_t)run->argv, environment);
            posix_spawnattr_destroy(&attributes);
        }
        posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    return error ? sl_fail_errno(error, "starting %s", run->argv[0]) : 0;
}

/* -1 if nobody knows: the program ignores SIGCHLD, or waits for any child. */
static int wait_for(pid_t pid)
{
    int status;
    pid_t ended;

    SL_RETRY(ended, waitpid(pid, &status, 0));
    if (ended != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_with(struct sl_os_run *run, int in, int out)
{
    pid_t pid;
    void *output;
    int error = sl_write_all(in, run->input, run->input_size);

    if (error || lseek(in, 0, SEEK_SET) < 0)
        return sl_fail_errno(error ? error : errno, "writing %zu bytes into memory", run->input_size);
    int r = start(run, in, out, &pid);
    if (r != 0)
        return r;
    run->status = wait_for(pid);
    r = sl_read_all(out, "a program's output", &output, &run->output_size);
    if (r == 0)
        run->output = output;
    return r;
}

int sl_os_run(struct sl_os_run *run)
{
    int in, out;
    int r = memory_file("input", &in);

    run->output = NULL;
    if (r != 0)
        return r;
    if ((r = memory_file("output", &out)) == 0) {
        /* Its two streams share one position, but a program that opens /dev/stderr again has another. */
        (void)fcntl(out, F_SETFL, O_APPEND);
        r = run_with(run, in, out);
        sl_os_close(out);
    }
    sl_os_close(in);
    return r;
}
