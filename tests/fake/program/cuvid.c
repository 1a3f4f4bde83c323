/* SPDX-License-Identifier: MIT
 *
 * A libnvcuvid.so.1 of a GPU that decodes nothing: GStreamer offers elements for CUDA's memory only where it finds this
 * library.
 */
#include "cuda/driver.h"

#define MISSING(name) \
    __attribute__((visibility("default"))) int name(void); \
    int name(void) \
    { \
        return SL_CU_NOT_SUPPORTED; \
    }
MISSING(cuvidCreateDecoder)
MISSING(cuvidCreateVideoParser)
MISSING(cuvidCtxLock)
MISSING(cuvidCtxLockCreate)
MISSING(cuvidCtxLockDestroy)
MISSING(cuvidCtxUnlock)
MISSING(cuvidDecodePicture)
MISSING(cuvidDestroyDecoder)
MISSING(cuvidDestroyVideoParser)
MISSING(cuvidGetDecoderCaps)
MISSING(cuvidMapVideoFrame64)
MISSING(cuvidParseVideoData)
MISSING(cuvidReconfigureDecoder)
MISSING(cuvidUnmapVideoFrame64)
