/* SPDX-License-Identifier: MIT
 *
 * Checking and filling messages. Whatever came from another process goes through here first; these
 * calls take bytes and a length alone, so that the fuzzers can call them.
 */
#ifndef SL_NATIVE_MESSAGE_H
#define SL_NATIVE_MESSAGE_H

#include "wire/native/layout.h"

/* Takes one message off a socket and checks it: 0, or as sl_os_receive and sl_message_check. The
 * descriptors are the caller's, whatever it returns: end with sl_os_discard. */
int sl_message_receive(int socket, union sl_message *message, int *fds, int *fd_count);

/* Is it a message of a known type and of exactly its size? Closes its strings, and takes control
 * characters out of them. SLUICE_E_PROTOCOL says what is wrong. */
int sl_message_check(union sl_message *message, size_t size);

/* Further checks of one type: magic, versions, ranges. */
int sl_hello_check(const struct sl_msg_hello *hello);
int sl_welcome_check(const struct sl_msg_welcome *welcome);

/* A version that both speak, or 0. */
uint32_t sl_version_agree(uint32_t min, uint32_t max);

/* Is a control page what its welcome said? Each field is read once. */
int sl_control_check(const struct sl_control *control, const struct sl_msg_welcome *welcome, uint32_t *ids,
                     uint32_t *memory_kind);

void sl_format_to_wire(struct sl_wire_format *wire, const struct sluice_format *format);
/* SLUICE_E_PROTOCOL for a format that is not one. */
int sl_format_from_wire(struct sluice_format *format, const struct sl_wire_format *wire);

#define SL_MESSAGE(kind, member) { .member = { .header = { .type = (kind), .size = sizeof(struct sl_msg_##member) } } }

#endif
