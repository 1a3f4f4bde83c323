/* SPDX-License-Identifier: MIT
 *
 * The end of a reader's sessions: when no frame of theirs is held, or with the reader.
 */
#include <stdlib.h>

#include "native/reader/gpu_wait.h"
#include "native/reader/peer_copy.h"
#include "native/reader/reader.h"

/* With no lock held, and without access to the reader. */
static void free_session(void *argument)
{
    struct sl_session *session = argument;
    struct sl_link *link = session->link;

    sl_slot_map_free(session);
    sl_peer_copy_close(session);
    session->sync->detach(session->pages);
    sl_service_lock();
    sl_link_close(link);
    sl_service_unlock();
    free(session);
}

/* Frees a session that the writer or this reader has ended: nothing is added to its link any more. With a device it
 * runs on its own thread, as the driver may wait for all of the program's GPU work, for which neither acquire nor close
 * must wait. */
void sl_session_end(struct sl_session *session)
{
    if (!session)
        return;
    sl_service_lock();
    sl_gpu_wait_forget(session);
    sl_service_unlock();
    if (session->pages)
        sl_background_run(free_session, session);
    else
        free_session(session);
}

static void end_list(struct sl_session *session)
{
    while (session) {
        struct sl_session *next = session->next;
        sl_session_end(session);
        session = next;
    }
}

void sl_session_end_idle(struct sl_reader *reader)
{
    struct sl_session *idle = NULL;

    for (struct sl_session **link = &reader->old; *link;) {
        struct sl_session *session = *link;
        if (sl_held_uses(reader, session, NULL)) {
            link = &session->next;
            continue;
        }
        *link = session->next;
        session->next = idle;
        idle = session;
    }
    end_list(idle);
}

void sl_session_end_all(struct sl_reader *reader)
{
    struct sl_session *current, *prepared;

    end_list(reader->old);
    reader->old = NULL;
    sl_service_lock();
    current = reader->session;
    prepared = reader->next.session;
    reader->session = reader->next.session = NULL;
    if (reader->next.link)
        sl_link_close(reader->next.link);
    reader->next.link = NULL;
    sl_service_unlock();
    sl_session_end(current);
    sl_session_end(prepared);
}
