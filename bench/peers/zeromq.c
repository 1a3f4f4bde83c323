/* SPDX-License-Identifier: MIT
 *
 * ZeroMQ, PUSH to PULL over ipc:. In place, a frame is made in the message; ZeroMQ's thread still
 * writes it to a Unix socket, and the reader's thread reads it from there.
 */
#include <string.h>
#include <zmq.h>

#include "peer.h"

#define ADDRESS "ipc://zeromq"

static void *context, *socket_;
static zmq_msg_t message;
static size_t size;

static void open_side(int type, int limit)
{
    const int high_water_mark = SLOTS / 2; /* on each side */
    context = zmq_ctx_new();
    socket_ = context ? zmq_socket(context, type) : NULL;
    if (!socket_ || zmq_setsockopt(socket_, limit, &high_water_mark, sizeof high_water_mark) != 0)
        die_errno("zmq_socket");
}

static void writer_open(size_t bytes)
{
    size = bytes;
    open_side(ZMQ_PUSH, ZMQ_SNDHWM);
    if (zmq_bind(socket_, ADDRESS) != 0)
        die_errno("zmq_bind");
}

static void reader_open(size_t bytes)
{
    (void)bytes;
    open_side(ZMQ_PULL, ZMQ_RCVHWM);
    if (zmq_connect(socket_, ADDRESS) != 0 || zmq_msg_init(&message) != 0)
        die_errno("zmq_connect");
}

static void *loan(void)
{
    if (zmq_msg_init_size(&message, size) != 0)
        die_errno("zmq_msg_init_size");
    return zmq_msg_data(&message);
}

static void send_frame(const void *own)
{
    if (own)
        memcpy(loan(), own, size);
    if (zmq_msg_send(&message, socket_, 0) < 0)
        die_errno("zmq_msg_send");
}

static const void *receive_frame(void)
{
    if (zmq_msg_recv(&message, socket_, 0) < 0)
        die_errno("zmq_msg_recv");
    return zmq_msg_data(&message);
}

static void release_frame(void)
{
    zmq_msg_close(&message);
    zmq_msg_init(&message);
}

static void close_side(void)
{
    zmq_close(socket_);
    zmq_ctx_term(context);
}

static void reader_close(void)
{
    zmq_msg_close(&message);
    close_side();
}

const struct peer peer = {
    .in_place = true,
    .writer_open = writer_open,
    .loan = loan,
    .send = send_frame,
    .writer_close = close_side,
    .reader_open = reader_open,
    .receive = receive_frame,
    .release = release_frame,
    .reader_close = reader_close,
};
