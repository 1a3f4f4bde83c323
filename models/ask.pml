/* ask.pml - words of its own are raised for a reader while it asks for them, and it waits for no others.  For Spin 6.5.2.
 *
 * The writer looks at what the reader asks for (semaphores_to) whenever it begins a frame, tells it from which frame on it will raise
 * its words (semaphores_from; 0: for none), queues each frame's words, and publishes the frame. It may begin several times before a
 * commit.  The reader asks at any time, for any frame; it may let its stream wait for any frame that is committed, be it the
 * newest or one before, if semaphores_from says so.  Commits are in order, so head stands for slot_seq as well.
 *
 * What is checked: a stream waits only for a word that was queued.
 *
 * M_STAYS       semaphores_from is not taken back when words are raised no more
 * M_LATE        semaphores_from is stored behind head
 * M_FROM_FIRST  the reader loads semaphores_from, then head
 * M_NOT_ASKED   the reader goes by what it asked for
 */
#ifndef MAXQ
#define MAXQ 5
#endif
#define BEGINS 2                        /* at most, before each commit */

byte head, semaphores_from, semaphores_to;
bit queued[MAXQ + 1];                   /* ghost: the own word of this frame was queued */

active proctype writer() {
    byte q = 1, begins, from;
    bit asks, now;
    do
    :: (q <= MAXQ && begins < BEGINS) ->                                /* begin */
        now = (q <= semaphores_to);
        if
        :: (now != asks) ->
            from = (now -> q : 0);
#ifdef M_STAYS
            if :: (now) -> semaphores_from = from :: else fi;
#else
#ifndef M_LATE
            semaphores_from = from;
#endif
#endif
            asks = now
        :: else
        fi;
        begins++
    :: (q <= MAXQ && begins > 0) ->                                     /* commit: W7, then W9 */
        queued[q] = asks;
        head = q;
#ifdef M_LATE
        semaphores_from = from;
#endif
        q++;
        begins = 0
    :: (q > MAXQ) -> break
    od
}

active proctype reader() {
    byte q, from, asked, acts;
    do
    :: (acts < 4) ->                                                    /* it asks, for one frame or all that come */
        if
        :: semaphores_to = head + 1
        :: semaphores_to = head + 2
        :: semaphores_to = MAXQ
        fi;
        asked = semaphores_to;
        acts++
    :: (acts < 4) ->                                                    /* it looks */
#ifdef M_FROM_FIRST
        from = semaphores_from;
#endif
        q = head;
        if
        :: (q > 1) -> q--                                               /* in order: one before the newest */
        :: skip
        fi;
#ifndef M_FROM_FIRST
        from = semaphores_from;
#endif
        if
#ifdef M_NOT_ASKED
        :: (q > 0 && q <= asked) -> assert(queued[q])
#else
        :: (q > 0 && from != 0 && q >= from) -> assert(queued[q])       /* its stream waits */
#endif
        :: else
        fi;
        acts++
    :: break
    od
}
