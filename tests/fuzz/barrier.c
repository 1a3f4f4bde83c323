/* SPDX-License-Identifier: MIT
 *
 * The activation barrier with any contents: processes check and hold it while its bytes change.
 */
#include "cuda_link/wire/barrier.h"
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static char name[40], path[60];

/* There is nobody to wait for. */
void __wrap_sl_os_sleep(int64_t ns);
void __wrap_sl_os_sleep(int64_t ns)
{
    (void)ns;
}

static unsigned char *make(struct input *input, size_t *size)
{
    uint8_t kind = take_byte(input);
    *size = kind < 200 ? SL_CIPD_BARRIER_BYTES : take_byte(input) + 1u;
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && ftruncate(fd, (off_t)*size) == 0);
    unsigned char *at = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(at != MAP_FAILED);
    close(fd);
    if (kind % 8 && *size >= SL_CIPD_BARRIER_BYTES) {
        uint32_t header[3] = { SL_CIPD_BARRIER_MAGIC, 1, kind / 8 % 3u };
        memcpy(at, header, sizeof(header));
    } else {
        take(input, at, *size < 64 ? *size : 64);
    }
    return at;
}

static void act(struct sl_cipd_barrier *barrier, struct input *input, unsigned char *at, size_t size, int64_t *now)
{
    struct sl_cipd_barrier_state state;
    switch (take_byte(input) % 8) {
    case 0: take_patches(input, at, size); break;
    case 1: *now += (int64_t)take_byte(input) * 40000000; break;
    case 2: (void)sl_cipd_barrier_enter(barrier, *now); break;
    case 3: sl_cipd_barrier_leave(barrier, *now); break;
    case 4: sl_cipd_barrier_settle(barrier, *now); break;
    case 5: sl_cipd_barrier_published(barrier, *now); break;
    case 6: sl_cipd_barrier_refresh(barrier); break;
    default: (void)sl_cipd_barrier_read(name, &state); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    struct sl_cipd_barrier barrier;
    size_t bytes;
    int64_t now = 1000 * SLUICE_S;
    if (!name[0]) {
        snprintf(name, sizeof(name), "cipd-fuzz-barrier.%d", (int)getpid());
        snprintf(path, sizeof(path), "/dev/shm/%s", name);
    }
    unsigned char *at = make(&input, &bytes);
    REQUIRE(sl_cipd_barrier_init(&barrier, name) == 0);
    for (int i = 0; i < 32 && input.left; i++) {
        uint64_t skipped = barrier.skipped;
        bool held = barrier.held, skip = sl_cipd_barrier_check(&barrier, now);
        REQUIRE(barrier.skipped == skipped + skip && !(held && skip));
        act(&barrier, &input, at, bytes, &now);
    }
    sl_cipd_barrier_finish(&barrier, now);
    REQUIRE(!barrier.held && !barrier.segment.at && barrier.segment.fd == -1);
    munmap(at, bytes);
    unlink(path);
    return 0;
}
