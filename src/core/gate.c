/* SPDX-License-Identifier: MIT
 *
 * The descriptor that a program polls instead of waiting in acquire: an epoll descriptor over the wake
 * socket of the session that is read now, and a note of our own for everything else. It stays the same
 * while sessions come and go.
 */
#include "core/reader.h"
#include "util/result.h"

void sl_gate_settle(struct sluice_reader *reader)
{
    struct sl_session *session = reader->session;

    sl_os_note_clear(reader->note);
    if (session && sl_load(&session->link->gone, acquire)) {
        sl_gate_leave(reader, session->link); /* its socket would be readable for ever */
    } else if (session) {
        sl_store(session->link->page.want_fd, 0, seq_cst);
        (void)sl_os_drain(session->link->wake_fd);
        sl_store(session->link->page.want_fd, sl_lease_want(&session->lease), seq_cst);
    }
    /* What came before the flag was up is told by the note, what comes after it by the socket. */
    if (sl_acquire_has_news(reader))
        sl_os_note_set(reader->note);
}

void sl_gate_enter(struct sluice_reader *reader, struct sl_link *link)
{
    if (reader->gate >= 0 && sl_os_gate_add(reader->gate, link->wake_fd) != 0)
        sl_log(SLUICE_LOG_ERROR, "channel '%s': its descriptor will not wake: %s", reader->name, sluice_last_error());
}

void sl_gate_leave(struct sluice_reader *reader, struct sl_link *link)
{
    if (reader->gate >= 0)
        sl_os_gate_remove(reader->gate, link->wake_fd);
}

int sluice_reader_fd(sluice_reader *handle)
{
    struct sluice_reader *reader;
    int gate, note, r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    if (reader->gate < 0) {
        if ((r = sl_os_note_open(&note)) != 0)
            goto out;
        if ((r = sl_os_gate_open(&gate)) != 0) {
            sl_os_close(note);
            goto out;
        }
        if ((r = sl_os_gate_add(gate, note)) != 0) {
            sl_os_close(note);
            sl_os_close(gate);
            goto out;
        }
        sl_service_lock();
        reader->note = note;
        reader->gate = gate;
        if (reader->session)
            sl_gate_enter(reader, reader->session->link);
        sl_service_unlock();
        sl_gate_settle(reader);
    }
    r = reader->gate;
out:
    sl_object_drop(&reader->object);
    return r;
}
