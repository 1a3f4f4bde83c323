/* SPDX-License-Identifier: MIT
 *
 * The folder of Sluice's own channels, as a list.
 */
#ifndef SL_NATIVE_REGISTRY_H
#define SL_NATIVE_REGISTRY_H

#include <sluice/registry.h>

#include <stdbool.h>

/* The folder of this process's channels; "" if there is none. */
const char *sl_registry_folder(void);

/* Opens `*folder`, or this process's own if it is NULL; then *folder becomes its name, which is stored in `path`. */
int sl_registry_open_folder(const char **folder, char *path, size_t size, bool create, int *dir);

int sl_registry_list(const char *folder, struct sluice_registry_entry *entries, size_t capacity, size_t *count);

#endif
