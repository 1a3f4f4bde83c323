/* SPDX-License-Identifier: MIT
 *
 * The fake driver for the rest of a program: a libcuda.so.1 for programs that look for that name. Calls by these names
 * are not checked; those of the library, by the others, are.
 */
#include "fake/fake.h"

#define PASS(name, version, parameters, arguments) \
    int test_cu##name##version parameters; \
    FAKE_API int cu##name##version parameters; \
    FAKE_API int cu##name##version parameters \
    { \
        return test_cu##name##version arguments; \
    }
SL_CUDA_FUNCTIONS(PASS)
SL_CUDA_OPTIONAL_FUNCTIONS(PASS)
EXTRA_FUNCTIONS(PASS)
