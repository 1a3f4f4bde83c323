/* SPDX-License-Identifier: MIT
 *
 * A folder of channels with other things in it: a socket of any name, and a lock file with any contents that another
 * process holds.
 */
#include "fuzz.h"
#include "os_stub.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void look(const char *name)
{
    struct sluice_registry_entry entries[4];
    size_t count = 0;

    memset(entries, 0xee, sizeof entries);
    REQUIRE(sluice_registry_list(NULL, entries, 4, &count) == 0);
    REQUIRE(count <= 1);
    if (count == 1) {
        REQUIRE(memchr(entries[0].name, 0, sizeof entries[0].name));
        REQUIRE(strcmp(entries[0].name, name) == 0 && strlen(name) <= SLUICE_MAX_NAME);
        REQUIRE(entries[0].live <= 1);
    }
}

/* A socket without a listener, or with a hostile one. */
static void list(int dir, struct input *input)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    bool listening = take_byte(input) & 1;
    char name[80] = "";
    size_t length = input->left < sizeof name - 1 ? input->left : sizeof name - 1;

    take(input, name, length);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", dir, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0);
    if (name[0] && !strchr(name, '/') && bind(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        if (listening)
            REQUIRE(listen(fd, 4) == 0);
        look(name);
        (void)unlinkat(dir, name, 0);
    }
    close(fd);
}

static void lock(int dir, struct input *input)
{
    uint32_t holder = 0;
    int taken = -1, fd = openat(dir, "x.lock", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    REQUIRE(fd >= 0 && flock(fd, LOCK_EX) == 0);
    if (input->left)
        REQUIRE(write(fd, input->data, input->left) == (ssize_t)input->left);
    REQUIRE(sl_os_lock(dir, "x.lock", &taken, &holder) == SLUICE_E_EXISTS && taken < 0);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int dir = -1;
    struct input input = { data, size };

    if (dir < 0)
        dir = open(os_stub_folder(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(dir >= 0);
    int next = os_stub_next_fd();
    if (take_byte(&input) % 4 == 0)
        lock(dir, &input);
    else
        list(dir, &input);
    REQUIRE(os_stub_next_fd() == next);
    return 0;
}
