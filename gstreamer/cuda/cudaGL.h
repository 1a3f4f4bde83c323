/* SPDX-License-Identifier: MIT */
#ifndef GST_SLUICE_CUDA_GL_TYPES_H
#define GST_SLUICE_CUDA_GL_TYPES_H

typedef int CUGLDeviceList;

#endif
