/* SPDX-License-Identifier: MIT
 *
 * The driver's functions, found in its library by name.
 */
#include "cuda/driver.h"

#include <stdlib.h>

#include "cuda/cuda.h"
#include "os/os.h"
#include "util/result.h"

struct sl_cuda_driver sl_cuda;

static const struct {
    const char *symbol;
    size_t offset;
    int since; /* 0: every driver that is supported has it */
} functions[] = {
#define FUNCTION(name, version, parameters, arguments) \
    { "cu" #name #version, offsetof(struct sl_cuda_driver, name), 0 },
#define OPTIONAL(name, version, parameters, arguments) \
    { "cu" #name #version, offsetof(struct sl_cuda_driver, name), SL_CUDA_OPTIONAL_VERSION },
    SL_CUDA_FUNCTIONS(FUNCTION) SL_CUDA_OPTIONAL_FUNCTIONS(OPTIONAL)
#undef FUNCTION
#undef OPTIONAL
};

const char *sl_cuda_library(void)
{
    const char *path = secure_getenv("SLUICE_CUDA_DRIVER");

    return path && *path ? path : sl_os_dl_pick("libcuda.so.1", "nvcuda.dll");
}

/* Data and function pointers have the same size on every system with dlsym. */
static void **member_of(size_t i)
{
    return (void **)((char *)&sl_cuda + functions[i].offset);
}

int sl_cuda_bind(void *library, int version)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = version >= functions[i].since ? sl_os_dl_symbol(library, functions[i].symbol) : NULL;
        if (!found && functions[i].since == 0)
            return sl_fail(SLUICE_E_UNSUPPORTED,
                           "the CUDA driver %s has no %s, though it says that it is for CUDA %d.%d; "
                           "install NVIDIA's driver anew",
                           sl_cuda_library(), functions[i].symbol, version / 1000, version % 1000 / 10);
        *member_of(i) = found;
    }
    return 0;
}
