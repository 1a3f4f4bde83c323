/* SPDX-License-Identifier: MIT
 *
 * Runs the command and reads its output.
 */
#include "kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sluice/sluice.h>

#define ARGUMENTS 32

const char *in_dir(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_dir(), name);
    return path;
}

static const char *output(unsigned number, const char *kind)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%u.txt", kind, number);
    return in_dir(name);
}

static void redirect(const char *path, int to)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, to) < 0)
        _exit(126);
    close(fd);
}

void use_fake_gpu(void)
{
    setenv("SLUICE_CUDA_DRIVER", FAKE_CUDA, 1);
    setenv("SLUICE_FAKE_FATAL", "1", 1);
    setenv("SLUICE_FAKE_APART", "1", 1);
}

void start_program(struct program *program, const char *const arguments[])
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    start_program_from(program, null, arguments);
    close(null);
}

void start_program_from(struct program *program, int input, const char *const arguments[])
{
    static unsigned count;
    const char *command = getenv("SLUICE_COMMAND");
    const char *argv[ARGUMENTS] = { "sluice" };
    if (!command)
        SKIP("SLUICE_COMMAND does not say where the command is");
    for (size_t i = 0; arguments[i]; i++) {
        CHECK_LE(i, ARGUMENTS - 3);
        argv[i + 1] = arguments[i];
    }
    const char *set = getenv("SLUICE_DIR");
    char dir[512]; /* a copy: test_dir() would overwrite it */
    snprintf(dir, sizeof dir, "%s", set ? set : test_dir());
    *program = (struct program){ .number = count++ };
    program->pid = fork();
    CHECK_GE(program->pid, 0);
    if (program->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(input, 0);
        redirect(output(program->number, "out"), 1);
        redirect(output(program->number, "err"), 2);
        setenv("SLUICE_DIR", dir, 1);
        execv(command, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
}

char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = malloc(1);
    size_t used = 0;
    if (!file)
        FAIL("%s: %s", path, strerror(errno));
    for (;;) {
        text = realloc(text, used + 65537);
        size_t got = fread(text + used, 1, 65536, file);
        used += got;
        if (got == 0)
            break;
    }
    fclose(file);
    text[used] = 0;
    if (size)
        *size = used;
    return text;
}

static void take(char *to, size_t room, const char *path)
{
    char *text = read_all(path, NULL);
    snprintf(to, room, "%s", text);
    free(text);
    unlink(path);
}

int program_end(struct program *program, int signal_number)
{
    int status;
    if (signal_number)
        kill(program->pid, signal_number);
    while (waitpid(program->pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    program->pid = 0;
    program->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    take(program->out, sizeof program->out, output(program->number, "out"));
    take(program->err, sizeof program->err, output(program->number, "err"));
    if (strstr(program->err, "Sanitizer"))
        FAIL("%s", program->err);
    if (program->status)
        fputs(program->err, stderr); /* shown if the test fails */
    return program->status;
}

const char *program_so_far(const struct program *program, const char *kind)
{
    static char text[1 << 20];
    FILE *file = fopen(output(program->number, kind), "rb");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;

    if (file)
        fclose(file);
    text[size] = 0;
    return text;
}

bool has_taken(const char *channel, uint64_t frames)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[4];
    bool has = false;

    if (sluice_channel_info(channel, SLUICE_S, &info, readers, 4) != SLUICE_OK)
        return false;
    for (uint32_t i = 0; i < info.readers && i < 4; i++)
        has = has || readers[i].taken >= frames;
    return has;
}

static bool has_frames(const char *channel)
{
    struct sluice_channel_info info = { .size = sizeof info };
    return sluice_channel_info(channel, SLUICE_S, &info, NULL, 0) == SLUICE_OK && info.committed > 0;
}

void start_player(struct program *program, const char *channel, const char *const more[])
{
    const char *arguments[ARGUMENTS] = { "play", "test", channel };
    for (size_t i = 0; more[i] && i < ARGUMENTS - 4; i++)
        arguments[i + 3] = more[i];
    start_program(program, arguments);
    CHECK_SOON(has_frames(channel), 10);
}

bool has_program(const char *name)
{
    const char *at = getenv("PATH");
    char path[4096];
    for (; at && *at; at += strcspn(at, ":"), at += *at == ':') {
        snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(at, ":"), at, name);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

bool json_says(const char *text, const char *expression)
{
    char program[2048];
    FILE *file = fopen(in_dir("answer.json"), "wb");
    fputs(text, file);
    fclose(file);
    snprintf(program, sizeof program, "import json; d = json.load(open('%s')); assert %s, d", in_dir("answer.json"),
             expression);
    pid_t pid = fork();
    if (pid == 0) {
        execlp("python3", "python3", "-c", program, (char *)NULL);
        _exit(127);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void check_json(const char *text, const char *expression)
{
    if (!json_says(text, expression))
        FAIL("not so: %s\n%s", expression, text);
}

/* The ID of the thread; 0 if there is none. */
static pid_t service_thread(pid_t process)
{
    char path[300], name[32];
    pid_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *dir = opendir(path);
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/comm", (int)process, entry->d_name);
        FILE *file = entry->d_name[0] == '.' || atoi(entry->d_name) == process ? NULL : fopen(path, "re");
        if (file && fgets(name, sizeof name, file) && strcmp(name, "sluice service\n") == 0)
            found = atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    closedir(dir);
    return found;
}

pid_t hold_service_thread(const struct program *program)
{
    pid_t thread = 0;
    CHECK_SOON((thread = service_thread(program->pid)) != 0, 20);
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
        SKIP("a child's thread may not be traced here: %s", strerror(errno));
    CHECK_EQ(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), 0);
    CHECK_EQ(waitpid(thread, NULL, __WALL), thread);
    return thread;
}

void let_go(pid_t thread)
{
    CHECK_EQ(ptrace(PTRACE_DETACH, thread, NULL, NULL), 0);
}

pid_t first_child(pid_t pid)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        SKIP("this kernel does not list children");
    if (fscanf(file, "%d", &child) != 1)
        child = 0;
    fclose(file);
    return child;
}
