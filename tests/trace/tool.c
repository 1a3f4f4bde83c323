/* SPDX-License-Identifier: MIT
 *
 * A tool that NVTX loads in place of Nsight: it writes each call as a line to the file in TOOL_RECORD. TOOL_ACT is its
 * behaviour: refuse, nothing (takes no function), pushes (no others), else all. It declares NVTX itself, so that a
 * mistake in the library's declarations shows.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

struct event {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
};

struct callbacks {
    size_t size;
    int (*table)(int module, void (****table)(void), unsigned *size);
};

struct version {
    size_t size;
    uint32_t version, reserved;
    void (*set)(uint32_t);
};

struct domain {
    char name[32];
};

static void record(const char *format, ...)
{
    const char *path = getenv("TOOL_RECORD");
    char line[512];
    int used = snprintf(line, sizeof line, "%ld ", (long)syscall(SYS_gettid));
    va_list arguments;

    va_start(arguments, format);
    used += vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    line[used++] = '\n';
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    (void)!write(fd, line, (size_t)used);
    close(fd);
}

/* The error in an event, or "". */
static const char *wrong(const struct event *event)
{
    return event->version < 2 || event->version > 3             ? " BAD-VERSION"
           : event->size != sizeof *event                       ? " BAD-SIZE"
           : event->color_type != 1 || !(event->color >> 24)    ? " BAD-COLOUR"
           : event->message_type != 1 || !event->message[0]     ? " BAD-MESSAGE"
           : event->payload_type < 0 || event->payload_type > 1 ? " BAD-PAYLOAD"
                                                                : "";
}

static void *create(const char *name)
{
    struct domain *domain = calloc(1, sizeof *domain);
    snprintf(domain->name, sizeof domain->name, "%s", name);
    record("domain %s", name);
    return domain;
}

static int push(struct domain *domain, const struct event *event)
{
    record("push %s/%s%s", domain->name, event->message, wrong(event));
    return 0;
}

static int pop(struct domain *domain)
{
    record("pop %s", domain->name);
    return 0;
}

static uint64_t start(struct domain *domain, const struct event *event)
{
    static _Atomic uint64_t last;
    uint64_t id = ++last;
    record("start %llu %s/%s %llu%s", (unsigned long long)id, domain->name, event->message,
           event->payload_type ? (unsigned long long)event->payload : 0, wrong(event));
    return id;
}

static void end(struct domain *domain, uint64_t id)
{
    record("end %llu %s", (unsigned long long)id, domain->name);
}

EXPORTED int InitializeInjectionNvtx2(const void *(*get)(uint32_t));
EXPORTED int InitializeInjectionNvtx2(const void *(*get)(uint32_t))
{
    const char *act = getenv("TOOL_ACT") ? getenv("TOOL_ACT") : "";
    const struct version *version = get(3);
    const struct callbacks *callbacks = get(1);
    void (***table)(void);
    unsigned size, modules[7] = { 0, 16, 9, 15, 7, 16, 7 };

    if (strcmp(act, "refuse") == 0)
        return 0;
    if (!version || version->size < sizeof *version || version->version < 2 || !callbacks ||
        callbacks->size < sizeof *callbacks || get(2) || get(99))
        return 0;
    version->set(3);
    for (int module = 1; module < 7; module++) {
        if (!callbacks->table(module, &table, &size) || size < modules[module] || table[0] != NULL ||
            table[size] != NULL)
            return 0;
        for (unsigned i = 1; i < size; i++) /* a tool may read all there is, and write there */
            *table[i] = NULL;
    }
    if (callbacks->table(0, &table, &size) || callbacks->table(7, &table, &size) || callbacks->table(-1, NULL, NULL))
        return 0;
    callbacks->table(5, &table, NULL);
    if (strcmp(act, "nothing") == 0)
        return 1;
    *table[12] = (void (*)(void))create;
    *table[4] = (void (*)(void))push;
    *table[5] = (void (*)(void))pop;
    if (strcmp(act, "pushes") == 0)
        return 1;
    *table[2] = (void (*)(void))start;
    *table[3] = (void (*)(void))end;
    return 1;
}
