/* SPDX-License-Identifier: MIT
 *
 * The fake driver for the rest of a program: a libcuda.so.1 for programs that look for that by its name. By
 * this door they may do as they like; what the library does by the other one is looked at.
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
MORE_FUNCTIONS(PASS)
