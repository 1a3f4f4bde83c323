/* SPDX-License-Identifier: MIT
 *
 * NVML is nvml.dll on Windows.
 */
#ifndef TOOLS_WIN32_DLFCN_H
#define TOOLS_WIN32_DLFCN_H

#define RTLD_NOW   2
#define RTLD_LOCAL 0

void *dlopen(const char *name, int flags);
void *dlsym(void *library, const char *name);
int dlclose(void *library);

#endif
