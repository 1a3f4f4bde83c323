/* SPDX-License-Identifier: MIT
 *
 * Sources, which may come from anywhere: the scan for kernels.
 */
#include "fuzz.h"
#include "kernel/kernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const *kernels;
    uint32_t count;
    char *text = malloc(size ? size : 1); /* without an end that is 0 */

    REQUIRE(text);
    if (size)
        memcpy(text, data, size);
    if (sl_source_kernels("fuzz.cu", text, size, &kernels, &count) == 0) {
        REQUIRE(count > 0 && count <= size / strlen("__global__"));
        for (uint32_t i = 0; i < count; i++) {
            REQUIRE(kernels[i][0] && strlen(kernels[i]) < 256);
            for (uint32_t k = 0; k < i; k++)
                REQUIRE(strcmp(kernels[i], kernels[k]) != 0);
        }
        free((void *)kernels);
    }
    free(text);
    return 0;
}
