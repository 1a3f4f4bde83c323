/* SPDX-License-Identifier: MIT
 *
 * The folder of Sluice's own channels, as a list.
 */
#ifndef SL_NATIVE_REGISTRY_H
#define SL_NATIVE_REGISTRY_H

#include <sluice/registry.h>

#include "channel/channel.h"

/* The folder of this process's channels; "" if there is none. */
const char *sl_registry_folder(void);

int sl_registry_list(const char *folder, struct sluice_registry_entry *entries, size_t capacity, size_t *count);

/* Makes the folder, which could not be watched otherwise. */
int sl_registry_watch(const char *folder, struct sl_registry_watch *watch);
bool sl_registry_watch_again(struct sl_registry_watch *watch);

#endif
