/* SPDX-License-Identifier: MIT
 *
 * A channel of cuda-link's protocol on the fake driver, for a test and its roles.
 */
#ifndef FAKE_CIPD_KIT_H
#define FAKE_CIPD_KIT_H

#include <stdbool.h>

#include <sluice/sluice.h>

/* Its name: made for this process, unless a role has set another one. */
const char *cipd_channel(void);
void cipd_set_name(const char *channel);

/* One array "data" of bytes, 8 by 16 by 4. */
struct sluice_format cipd_format(void);

/* With two slots. Returns the library's result. */
int cipd_open_writer(sluice_writer **writer, const struct sluice_format *format, bool block);
int cipd_open_writer_so(sluice_writer **writer, const struct sluice_format *format, bool block, bool graph);
int cipd_open_reader(sluice_reader **reader, bool copy, int64_t timeout_ns);

#endif
