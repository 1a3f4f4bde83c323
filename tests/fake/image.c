/* SPDX-License-Identifier: MIT
 *
 * Images of the stand-in for NVRTC (nvrtc/): shared objects whose kernels the thread of gpu.c runs.
 */
#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake/internal.h"
#include "fake/nvrtc/image.h"

#define FATBIN_MAGIC   UINT32_C(0xba55ed50)
#define DYNAMIC_SHARED ((size_t)256 << 10)

struct fake_image {
    void *library;
    const struct fake_kernel *kernels;
    void *fibers; /* for kernels with barriers; NULL: there are none */
};

/* ---- loading ---- */

static void *no_access(size_t size, int rights)
{
    void *memory = mmap(NULL, size, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    return memory;
}

/* dlopen takes what is loaded by the same path for the same object, and descriptors get the same numbers again: each
 * path is another spelling, and none is the library's own (os/posix/temp.c). Called with the lock held. */
static void *load(int fd)
{
    static unsigned loads;
    char path[160] = "/proc/self/../self/fd", *at = path + strlen(path);

    for (unsigned bits = ++loads; bits; bits /= 2)
        at = stpcpy(at, bits % 2 ? "/." : "//.");
    sprintf(at, "/%d", fd);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* An object that is written to a memfd, under the host's name for its machine. It stays loaded for good. */
static struct fake_image *open_object(const char *bytes, size_t size)
{
    const Elf64_Half machine =
#ifdef __aarch64__
        EM_AARCH64;
#else
        EM_X86_64;
#endif
    int fd = memfd_create("fake kernels", MFD_CLOEXEC);

    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size ||
        pwrite(fd, &machine, sizeof machine, offsetof(Elf64_Ehdr, e_machine)) != sizeof machine) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    void *library = load(fd);
    const struct fake_kernel *kernels = library ? dlsym(library, "fake_kernels") : NULL;
    close(fd);
    if (!kernels)
        return NULL;
    const uint64_t *fibers = dlsym(library, SL_HOST_FIBERS);
    struct fake_image *image = malloc(sizeof *image);
    if (!image)
        abort();
    *image = (struct fake_image){ library, kernels, fibers ? no_access(*fibers, PROT_READ | PROT_WRITE) : NULL };
    return image;
}

/* convert.ptx, whose source the build has compiled for the CPU. */
#define CONVERT_MARK "// sluice convert "
static struct fake_image *open_convert(void)
{
    FILE *file = fopen(FAKE_CONVERT, "re");
    char *bytes = NULL;
    size_t size = 0;
    FILE *copy = open_memstream(&bytes, &size);

    for (int c; file && copy && (c = getc(file)) != EOF;)
        putc(c, copy);
    if (file)
        fclose(file);
    if (copy)
        fclose(copy);
    struct fake_image *image = size ? open_object(bytes, size) : NULL;
    free(bytes);
    return image;
}

static size_t object_size(const char *bytes)
{
    Elf64_Ehdr head;
    Elf64_Shdr section;
    size_t end;

    memcpy(&head, bytes, sizeof head);
    end = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
    for (int i = 0; i < head.e_shnum; i++) {
        memcpy(&section, bytes + head.e_shoff + (size_t)i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > end)
            end = section.sh_offset + section.sh_size;
    }
    return end;
}

static struct fake_image *open_cubin(const char *bytes)
{
    return open_object(bytes, object_size(bytes));
}

static struct fake_image *open_letters(const char *letters)
{
    size_t size = strspn(letters, "abcdefghijklmnop") / 2;
    char *bytes = malloc(size + 1);

    if (!bytes)
        abort();
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)((letters[2 * i] - 'a') << 4 | (letters[2 * i + 1] - 'a'));
    struct fake_image *image = size > sizeof(Elf64_Ehdr) ? open_object(bytes, size) : NULL;
    free(bytes);
    return image;
}

/* The head of a fatbin and that of its first image. */
static struct fake_image *open_fatbin(const char *bytes)
{
    uint16_t head, kind;
    uint32_t entry;

    memcpy(&head, bytes + 6, sizeof head);
    memcpy(&kind, bytes + head, sizeof kind);
    memcpy(&entry, bytes + head + 4, sizeof entry);
    return kind == 2 ? open_cubin(bytes + head + entry) : NULL;
}

int fake_image_open(const void *bytes, struct fake_image **image, const char **log)
{
    const char *text = bytes;
    uint32_t magic = 0;

    *image = NULL;
    *log = "";
    memcpy(&magic, bytes, strnlen(text, sizeof magic));
    if (memcmp(text, ELFMAG, SELFMAG) == 0) {
        *image = open_cubin(text);
        return *image ? SL_CU_OK : SL_CU_INVALID_IMAGE;
    }
    if (magic == FATBIN_MAGIC) {
        *image = open_fatbin(text);
        return *image ? SL_CU_OK : SL_CU_NO_BINARY_FOR_GPU;
    }
    if (strncmp(text, CONVERT_MARK, strlen(CONVERT_MARK)) == 0) {
        *image = open_convert();
        return *image ? SL_CU_OK : SL_CU_INVALID_PTX;
    }
    if (!strstr(text, ".version")) {
        *log = "ptxas application ptx input, line 1; fatal   : Missing .version directive at start of file";
        return SL_CU_INVALID_PTX;
    }
    const char *mark = strstr(text, PTX_MARK);
    if (mark)
        *image = open_letters(mark + strlen(PTX_MARK));
    return mark && !*image ? SL_CU_INVALID_PTX : SL_CU_OK;
}

const struct fake_kernel *fake_image_find(const struct fake_image *image, const char *name)
{
    for (const struct fake_kernel *k = image->kernels; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

/* ---- launches ---- */

/* One launch with its arguments, which queued work and graphs share. */
struct fake_launch {
    unsigned uses;
    const struct fake_image *image;
    const struct fake_kernel *kernel;
    uint32_t grid[3], block[3];
    size_t shared;
    size_t offsets[64], size;
    unsigned char bytes[];
};

static size_t up(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

struct fake_launch *fake_launch_new(const struct fake_image *image, const struct fake_kernel *kernel,
                                    const uint32_t grid[3], const uint32_t block[3], size_t shared, void **arguments)
{
    size_t size = 0;

    for (size_t i = 0; i < kernel->count; i++)
        size += up(kernel->sizes[i]);
    struct fake_launch *launch = calloc(1, sizeof *launch + size);
    if (!launch || kernel->count > 64)
        abort();
    launch->uses = 1;
    launch->image = image;
    launch->kernel = kernel;
    memcpy(launch->grid, grid, sizeof launch->grid);
    memcpy(launch->block, block, sizeof launch->block);
    launch->shared = shared;
    for (size_t i = 0; i < kernel->count; i++) {
        launch->offsets[i] = launch->size;
        memcpy(launch->bytes + launch->size, arguments[i], kernel->sizes[i]);
        launch->size += up(kernel->sizes[i]);
    }
    return launch;
}

void fake_launch_hold(struct fake_launch *launch)
{
    if (launch)
        launch->uses++;
}

void fake_launch_drop(struct fake_launch *launch)
{
    if (launch && --launch->uses == 0)
        free(launch);
}

/* Where the CPU sees what arguments point to, be they pointers or structs with pointers in them; what this GPU may not
 * touch is nowhere. */
void *fake_launch_see(const struct fake_launch *launch, int device)
{
    unsigned char *bytes = malloc(launch->size + 1);
    uint64_t word;

    if (!bytes)
        abort();
    memcpy(bytes, launch->bytes, launch->size);
    for (size_t at = 0; at + sizeof word <= launch->size; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        if (!fake_range_at(word))
            continue;
        word = (uintptr_t)fake_see(device, word, 1, false);
        memcpy(bytes + at, &word, sizeof word);
    }
    return bytes;
}

static __thread sigjmp_buf *crash; /* where a kernel's illegal access goes */
static struct sigaction before[2];

static void on_fault(int number, siginfo_t *info, void *context)
{
    const struct sigaction *old = &before[number == SIGBUS];

    if (crash)
        siglongjmp(*crash, 1);
    if (old->sa_flags & SA_SIGINFO)
        old->sa_sigaction(number, info, context);
    else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
        old->sa_handler(number);
    else
        signal(number, SIG_DFL); /* it happens again */
}

static void catch_faults(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
}

/* Without the lock. `bytes` is what fake_launch_see returned. False if it touched what it may not. */
bool fake_launch_run(const struct fake_launch *launch, void *bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Thread_local char *shared;
    void *values[64];
    sigjmp_buf here;
    volatile bool good = false;
    struct sl_host_job job = {
        .values = values,
        .fibers = launch->image->fibers,
        .last = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
    };

    pthread_once(&once, catch_faults);
    if (!shared)
        shared = no_access(DYNAMIC_SHARED, PROT_READ | PROT_WRITE);
    job.shared = shared;
    memcpy(job.grid, launch->grid, sizeof job.grid);
    memcpy(job.block, launch->block, sizeof job.block);
    for (size_t i = 0; i < launch->kernel->count; i++)
        values[i] = (unsigned char *)bytes + launch->offsets[i];
    if (sigsetjmp(here, 1) == 0) {
        crash = &here;
        launch->kernel->run(&job);
        good = true;
    }
    crash = NULL;
    free(bytes);
    return good;
}
