/* SPDX-License-Identifier: MIT
 *
 * Host memory that a GPU knows of, and pointer attributes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fake/internal.h"

struct fake_range *fake_ranges;

/* ---- ranges of all kinds ---- */

struct fake_range *fake_range_add(enum fake_range_kind kind, uint64_t address, size_t size)
{
    static unsigned long long ids;
    struct fake_range *range = calloc(1, sizeof *range);

    if (!range)
        abort();
    *range = (struct fake_range){
        .kind = kind, .address = address, .size = size, .id = ++ids, .fd = -1, .next = fake_ranges
    };
    fake_ranges = range;
    return range;
}

struct fake_range *fake_range_at(uint64_t address)
{
    struct fake_range *range = fake_ranges;

    while (range && address - range->address >= range->size)
        range = range->next;
    return range;
}

void fake_range_end(struct fake_range *range)
{
    struct fake_range **at = &fake_ranges;

    while (*at != range)
        at = &(*at)->next;
    *at = range->next;
    free(range);
}

void *fake_see(int device, uint64_t address, size_t size, bool writing)
{
    struct fake_range *range = fake_range_at(address);

    if (!range || (range->kind == FAKE_RESERVED && !range->memory) || !(range->access[device] & (writing ? 2 : 1)))
        return NULL;
    char *at = range->view ? range->view + (address - range->address) : (char *)(uintptr_t)address;
    size_t here = range->size - (address - range->address);
    if (size > here && fake_see(device, address + here, size - here, writing) != at + here)
        return NULL; /* it ends, or goes on elsewhere */
    return at;
}

/* ---- host memory ---- */

/* For a process that is out of descriptors. */
static bool can_read(uint64_t address)
{
    char byte;
    struct iovec to = { &byte, 1 }, from = { (void *)(uintptr_t)address, 1 };

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

/* Is all of it mapped here, and writable? */
static bool look(uint64_t address, size_t size, bool *writable)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long from, to;
    char access[8], line[400];
    bool found = false;

    if (!maps) {
        *writable = true; /* nothing says otherwise */
        return can_read(address) && can_read(address + size - 1);
    }
    while (!found && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3)
            continue;
        found = from <= address && address + size <= to && access[0] == 'r';
        *writable = access[1] == 'w';
    }
    fclose(maps);
    return found;
}

static int refuse(uint64_t at, size_t size, unsigned flags)
{
    bool writable = false;

    if (!fake_can(SL_CU_CAN_REGISTER_HOST) || (flags & SL_CU_HOST_READ_ONLY && !fake_can(SL_CU_CAN_REGISTER_READ_ONLY)))
        return SL_CU_NOT_SUPPORTED;
    if (!size)
        return SL_CU_INVALID_VALUE;
    if (fake_range_at(at) || fake_range_at(at + size - 1))
        return SL_CU_ALREADY_REGISTERED;
    return look(at, size, &writable) && (writable || flags & SL_CU_HOST_READ_ONLY) ? 0 : SL_CU_INVALID_VALUE;
}

int fake_cuMemHostRegister(void *address, size_t size, unsigned flags)
{
    uint64_t at = (uintptr_t)address;
    bool read_only = flags & SL_CU_HOST_READ_ONLY;
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context)
        code = refuse(at, size, flags);
    if (code == 0) {
        struct fake_range *range = fake_range_add(FAKE_REGISTERED, at, size);
        range->context = context;
        range->device = context->device;
        memset(range->access, read_only ? SL_CU_ACCESS_READ : SL_CU_ACCESS_READ_WRITE, sizeof range->access);
        fake_living.registrations++;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemHostUnregister(void *address)
{
    uint64_t at = (uintptr_t)address;
    bool writable;
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (!context)
        goto done;
    code = fake_wait_to_free(context);
    if (code)
        goto done;
    struct fake_range *range = fake_range_at(at);
    if (!range || range->kind != FAKE_REGISTERED || range->address != at) {
        fake_break_rule("of memory that is not registered, or not any more");
        code = SL_CU_NOT_REGISTERED;
        goto done;
    }
    fake_check_context(range->context, context);
    if (!look(at, range->size, &writable))
        fake_break_rule("unmapped before it was unregistered");
    fake_pause();
    fake_range_end(range);
    fake_living.registrations--;
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemHostGetDevicePointer(uint64_t *device, void *host, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&fake_lock);
    struct fake_range *range = fake_range_at((uintptr_t)host);
    *device = (uintptr_t)host;
    bool known = range && (range->kind == FAKE_REGISTERED || range->kind == FAKE_PINNED);
    pthread_mutex_unlock(&fake_lock);
    return known ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

int fake_cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    int code;

    (void)flags;
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context && !size)
        code = SL_CU_INVALID_VALUE;
    if (code == 0) {
        void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) {
            code = SL_CU_OUT_OF_MEMORY;
        } else {
            struct fake_range *range = fake_range_add(FAKE_PINNED, (uintptr_t)at, size);
            range->context = context;
            range->device = context->device;
            memset(range->access, SL_CU_ACCESS_READ_WRITE, sizeof range->access);
            fake_living.pinned++;
            *memory = at;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemFreeHost(void *memory)
{
    return fake_free(FAKE_PINNED, (uintptr_t)memory);
}

/* ---- pointers ---- */

/* Stores one attribute; for a pointer that the driver does not know, the value that stands for that. */
static int describe(const struct fake_range *range, uint64_t pointer, int attribute, void *value)
{
    bool device =
        range && (range->kind == FAKE_RESERVED || range->kind == FAKE_ALLOCATED || range->kind == FAKE_OPENED);
    bool mapped = range && (range->kind != FAKE_RESERVED || range->memory);
    struct sl_cu_context *current = fake_thread_context();

    if (!mapped)
        range = NULL;
    switch (attribute) {
    case SL_CU_POINTER_CONTEXT: *(struct sl_cu_context **)value = range ? range->context : NULL; return 0;
    case SL_CU_POINTER_MEMORY_TYPE:
        *(unsigned *)value = !range ? 0 : device ? SL_CU_MEMORY_DEVICE : SL_CU_MEMORY_HOST;
        return 0;
    case SL_CU_POINTER_DEVICE: *(uint64_t *)value = range ? pointer : 0; return 0;
    case SL_CU_POINTER_HOST: *(void **)value = range && !device ? (void *)(uintptr_t)pointer : NULL; return 0;
    case SL_CU_POINTER_BUFFER_ID: *(unsigned long long *)value = range ? range->id : 0; return 0;
    case SL_CU_POINTER_IS_MANAGED: *(unsigned char *)value = range && range->managed; return 0;
    case SL_CU_POINTER_ORDINAL:
        *(int *)value = !range ? -2 : range->kind == FAKE_OPENED ? range->home : range->device;
        return 0;
    case SL_CU_POINTER_RANGE_START: *(uint64_t *)value = range ? range->address : 0; return 0;
    case SL_CU_POINTER_RANGE_SIZE: *(size_t *)value = range ? range->size : 0; return 0;
    case SL_CU_POINTER_MAPPED: *(unsigned char *)value = range != NULL; return 0;
    case SL_CU_POINTER_ACCESS: *(int *)value = range && current ? range->access[current->device] : 0; return 0;
    default: return SL_CU_INVALID_VALUE;
    }
}

int fake_cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (fake_current(&code)) {
        struct fake_range *range = fake_range_at(pointer);
        code = range ? describe(range, pointer, attribute, value) : SL_CU_INVALID_VALUE;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuPointerGetAttributes(unsigned count, int *attributes, void **values, uint64_t pointer)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (fake_current(&code))
        for (unsigned i = 0; i < count && code == 0; i++)
            code = describe(fake_range_at(pointer), pointer, attributes[i], values[i]);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
