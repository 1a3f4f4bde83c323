/* SPDX-License-Identifier: MIT
 *
 * A driver in front of the driver that defeats one of the library's capture guards: tests then show what they would
 * show of a library without it. SLUICE_BYPASS_DRIVER names the driver behind it, SLUICE_BYPASS_GUARD the guard:
 *
 *     exchange   the library's threads never enter the relaxed mode
 *     capturing  no stream that the library queries is capturing
 *     beside     the blocking stream that the library makes is the default stream
 *
 * Tests themselves are not affected: they use the names that begin with test_.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/extra_functions.h"

#define API __attribute__((visibility("default")))

struct driver {
#define MEMBER(name, version, parameters, arguments) int(*name) parameters;
    SL_CUDA_FUNCTIONS(MEMBER)
    EXTRA_FUNCTIONS(MEMBER)
#undef MEMBER
};

static struct driver library, test; /* for the library, and for tests */

static void *find(void *from, const char *symbol, const char *instead)
{
    void *found = dlsym(from, symbol);

    return found || !instead ? found : dlsym(from, instead);
}

static int no_exchange(int *mode)
{
    (void)mode;
    return 0;
}

static int (*is_capturing)(struct sl_cu_stream *stream, int *status);

static int not_capturing(struct sl_cu_stream *stream, int *status)
{
    int code = is_capturing(stream, status);

    *status = SL_CU_CAPTURE_STATUS_NONE;
    return code == SL_CU_CAPTURE_IMPLICIT ? 0 : code;
}

static int (*create)(struct sl_cu_stream **stream, unsigned flags, int priority);
static int (*destroy)(struct sl_cu_stream *stream);

static int create_none(struct sl_cu_stream **stream, unsigned flags, int priority)
{
    if (flags & SL_CU_STREAM_NON_BLOCKING)
        return create(stream, flags, priority);
    *stream = SL_CU_LEGACY;
    return 0;
}

static int destroy_none(struct sl_cu_stream *stream)
{
    return stream == SL_CU_LEGACY ? 0 : destroy(stream);
}

static void blind(const char *to)
{
    if (strcmp(to, "exchange") == 0)
        library.ThreadExchangeStreamCaptureMode = no_exchange;
    if (strcmp(to, "capturing") == 0) {
        is_capturing = library.StreamIsCapturing;
        library.StreamIsCapturing = not_capturing;
    }
    if (strcmp(to, "beside") == 0) {
        create = library.StreamCreateWithPriority;
        destroy = library.StreamDestroy;
        library.StreamCreateWithPriority = create_none;
        library.StreamDestroy = destroy_none;
    }
}

__attribute__((constructor)) static void look_around(void)
{
    const char *path = getenv("SLUICE_BYPASS_DRIVER"), *to = getenv("SLUICE_BYPASS_GUARD");
    void *behind = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!behind)
        abort();
#define FIND(name, version, parameters, arguments) \
    *(void **)&library.name = find(behind, "cu" #name #version, NULL); \
    *(void **)&test.name = find(behind, "test_cu" #name #version, "cu" #name #version);
    SL_CUDA_FUNCTIONS(FIND)
    EXTRA_FUNCTIONS(FIND)
#undef FIND
    blind(to ? to : "");
}

#define DOOR(door, driver, name, parameters, arguments) \
    API int door parameters; \
    API int door parameters \
    { \
        return driver.name arguments; \
    }
#define DOORS(name, version, parameters, arguments) \
    DOOR(cu##name##version, library, name, parameters, arguments) \
    DOOR(test_cu##name##version, test, name, parameters, arguments)
SL_CUDA_FUNCTIONS(DOORS)
EXTRA_FUNCTIONS(DOORS)
