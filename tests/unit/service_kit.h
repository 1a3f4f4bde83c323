/* SPDX-License-Identifier: MIT
 *
 * What tests of the service thread share: short calls, and a watch that counts its callbacks.
 */
#ifndef SERVICE_KIT_H
#define SERVICE_KIT_H

#include <sys/socket.h>

#include "os/os.h"
#include "os_kit.h"

/* The id of the service thread, 0 if there is none. */
static inline int service_thread(void)
{
    int found = 0;
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file && fgets(name, sizeof(name), file) && !strcmp(name, "sluice service\n"))
            found = atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    closedir(dir);
    return found;
}

static inline int add(struct sl_watch *watch)
{
    sl_service_lock();
    int result = sl_service_add(watch);
    sl_service_unlock();
    return result;
}

static inline void take(struct sl_watch *watch) /* removes it */
{
    sl_service_lock();
    sl_service_remove(watch);
    sl_service_unlock();
}

static inline void set_deadline(struct sl_watch *watch, int64_t deadline)
{
    sl_service_lock();
    sl_service_set_deadline(watch, deadline);
    sl_service_unlock();
}

struct probe {
    struct sl_watch watch;
    sl_word32 called, readable, hung_up, timed;
    char got[64];
    int peer;
};

static inline void on_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct probe *probe = (struct probe *)watch;
    if (readable) {
        ssize_t size = read(watch->fd, probe->got, sizeof(probe->got) - 1);
        CHECK(size > 0);
        probe->got[size] = 0;
        sl_add(&probe->readable, 1);
    }
    if (hung_up)
        sl_add(&probe->hung_up, 1);
    sl_add(&probe->called, 1);
}

static inline void on_timer(struct sl_watch *watch)
{
    struct probe *probe = (struct probe *)watch;
    CHECK_EQ(watch->deadline, 0);
    sl_add(&probe->timed, 1);
}

static inline struct probe *probe_new(int type)
{
    int pair[2] = { -1, -1 };
    struct probe *probe = calloc(1, sizeof(*probe));
    CHECK(probe);
    if (type)
        CHECK_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    probe->watch = (struct sl_watch){ .ready = on_ready, .timer = on_timer, .fd = pair[0] };
    probe->peer = pair[1];
    return probe;
}

static inline void probe_end(struct probe *probe)
{
    take(&probe->watch);
    sl_os_close(probe->watch.fd);
    sl_os_close(probe->peer);
    free(probe);
}

#endif
