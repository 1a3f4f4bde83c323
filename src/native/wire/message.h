/* SPDX-License-Identifier: MIT
 *
 * Checks and fills in messages. Everything that comes from another process is checked here first. The
 * checks take only bytes and a length, so that fuzzers can call them.
 */
#ifndef SL_NATIVE_WIRE_MESSAGE_H
#define SL_NATIVE_WIRE_MESSAGE_H

#include "native/wire/layout.h"

/* Receives one message from a socket and checks it: 0, or the result of sl_os_receive or sl_message_check. The caller
 * owns the descriptors whatever the result, and closes them by sl_os_discard. */
int sl_message_receive(int socket, union sl_message *message, int *fds, int *fd_count);

/* Is it a message of a known type and of exactly its size? Terminates its strings, and removes control
 * characters from them. SLUICE_E_PROTOCOL, saying what is wrong. */
int sl_message_check(union sl_message *message, size_t size);

/* Further checks of one type: magic, versions, ranges. */
int sl_hello_check(const struct sl_msg_hello *hello);
int sl_welcome_check(const struct sl_msg_welcome *welcome);

/* A version that both sides support, or 0. */
uint32_t sl_version_agree(uint32_t min, uint32_t max);

/* Does a control page agree with its welcome? Reads each field once. */
int sl_control_check(const struct sl_control *control, const struct sl_msg_welcome *welcome, uint32_t *ids,
                     uint32_t *memory_kind);

void sl_format_to_wire(struct sl_wire_format *wire, const struct sluice_format *format);
/* SLUICE_E_PROTOCOL for an invalid format. */
int sl_format_from_wire(struct sluice_format *format, const struct sl_wire_format *wire);

#define SL_MESSAGE(kind, member) \
    { \
        .member = {.header = { .type = (kind), .size = sizeof(struct sl_msg_##member) } } \
    }

#endif
