/* sleep.pml - how a reader falls asleep and is woken.  For Spin 6.5.2; models/run holds the configurations.
 *
 * One writer, one reader (each reader has a page of its own, so one stands for all), and the service thread of the
 * reader's process.  One step is one access to one shared word (sequential consistency: all of these are seq_cst).
 *
 *   want   in the reader's page: 0 = awake, else the first sequence that the reader sleeps for
 *   bell   in the reader's page: the futex word
 *   lost   in the reader's process: the service thread has seen that the writer is dead
 *
 * Reader: S1 load closed and lost, then head; nothing -> S2 load bell; S3 store want; S4 load head, closed, lost again;
 *         something -> S6; else S5 FUTEX_WAIT(bell, what S2 saw); S6 store want = 0, and back to S1.
 * Writer: W9 store head; N1 for each reader in the table (read after W9) load want; if that is not 0 and head has
 *         reached it: N2 store want = 0; N3 add 1 to bell; N4 FUTEX_WAKE.
 *         Closing: C1 store closed; then N3, N4 for each reader in the table, whatever want says.
 * Service thread: D1 store lost at the writer's death; D2 add 1 to bell; D3 FUTEX_WAKE.  It may do D2, D3 without cause.
 *
 * FUTEX_WAIT compares and falls asleep in one step; a wake for one that is not asleep does nothing.
 *
 * What is checked, when nothing more can happen (the writer may stop after any number of frames):
 * - the reader does not sleep while a frame >= the sequence it wants is published, or the channel is closed or lost;
 * - if it sleeps, want says so: the next commit would wake it.
 * And when the reader sees the end, it has taken all that was published before.
 * LTL (LIVE): the reader comes to see the close (or the death), under weak fairness.
 *
 * MAXQ    frames at most            EVERY    the reader takes each n-th frame
 * RINGS   rings without cause       TIMEOUT  the reader's wait may time out, once
 * JOIN    the reader joins at any time
 * KILL    the writer may die at any step instead of closing
 * M_...   mutations
 */
#ifndef MAXQ
#define MAXQ 4
#endif
#ifndef EVERY
#define EVERY 1
#endif
#ifndef RINGS
#define RINGS 2
#endif
#ifdef M_NARROW_BELL
#define RING bell = (bell + 1) % 2      /* two rings bring the old value back */
#elif defined(M_PLAIN_BELL)
#define RING t = bell; bell = t + 1     /* two steps: a ring may be lost */
#else
#define RING bell++
#endif
#define WAKE asleep = 0

byte head;
bit  closed;
bit  lost;
byte want;
byte bell;
bit  table;                             /* the writer's process, under its mutex: the reader is in the table */

bit  asleep;                            /* the kernel's: the reader waits on bell */
bit  dead, wend;                        /* ghosts: killed; the writer will do nothing more */
bit  saw_end;                           /* ghost: the reader has seen the close or the death */

proctype writer() {
    byte q = 1, w, t;
    bit in;
    {
    do
    :: q <= MAXQ ->
#ifdef M_WANT_BEFORE_HEAD
        w = want;
        head = q;                                       /* W9 */
#elif defined(M_TABLE_EARLY)
        in = table;
        head = q;
        if :: in -> w = want :: else fi;
#else
        head = q;                                       /* W9 */
        if :: table -> w = want :: else fi;             /* N1: the table as it is now, then want */
#endif
        if
        :: (w != 0 && q >= w) ->
#ifdef M_CLEAR_LAST
            RING; WAKE; want = 0
#else
#ifdef M_NO_RING
            want = 0; WAKE
#else
            want = 0;                                   /* N2 */
            RING;                                       /* N3 */
            WAKE                                        /* N4 */
#endif
#endif
        :: else
        fi;
        atomic { q++; w = 0; in = 0 }
    :: break                                            /* no more frames */
    od;
    if
    ::
#ifdef M_CLOSE_LAST
        RING; WAKE; closed = 1
#else
        closed = 1;                                     /* C1 */
        if :: table -> RING; WAKE :: else fi
#endif
#ifndef LIVE
    :: skip                                             /* or it idles for ever */
#endif
    fi;
    wend = 1
    } unless { dead }
}

#ifdef KILL
proctype killer() { end_alive: if :: d_step { !wend -> dead = 1 } :: wend fi }
#endif

proctype service() {
    byte n, t;
end_idle:
    do
    :: n < RINGS -> n++; RING; WAKE
#ifdef KILL
    :: dead ->
#ifdef M_LOST_LAST
        RING; WAKE; lost = 1;
#else
        lost = 1;                                       /* D1 */
        RING;                                           /* D2 */
        WAKE;                                           /* D3 */
#endif
        break
#endif
    od
}

proctype reader() {
    byte last, b;
    bit end;
    table = 1;                                          /* in the table before it runs */
#ifdef TIMEOUT
    bit timed;
#endif
    do
    ::  /* S1 the end before the head: what was committed before a close is still taken */
#ifndef M_END_AFTER_HEAD
        end = closed;
        if :: lost -> end = 1 :: else fi;
#endif
        if
        :: d_step { head >= last + EVERY -> last = head }; goto on
        :: else
        fi;
#ifdef M_END_AFTER_HEAD
        end = closed;
        if :: lost -> end = 1 :: else fi;
#endif
        if :: end -> break :: else fi;
#ifdef M_BELL_LATE
#ifndef M_CHECK_BEFORE_WANT
        want = last + EVERY;
#endif
#else
        b = bell;                                       /* S2 */
#ifndef M_CHECK_BEFORE_WANT
        want = last + EVERY;                            /* S3 */
#endif
#endif
        /* S4 */
        if :: head >= last + EVERY -> goto awake :: else fi;
#ifndef M_NO_RECHECK_CLOSED
        if :: closed -> goto awake :: else fi;
#endif
        if :: lost -> goto awake :: else fi;
#ifdef M_CHECK_BEFORE_WANT
        want = last + EVERY;
#endif
#ifdef M_BELL_LATE
        b = bell;
#endif
        /* S5 */
        d_step { if :: bell == b -> asleep = 1 :: else fi };
end_asleep:
        if
        :: !asleep
#ifdef TIMEOUT
        :: d_step { (asleep && !timed) -> asleep = 0; timed = 1 }
#endif
        fi;
awake:  want = 0;                                       /* S6 */
on:     atomic { b = 0; end = 0 }
    od;
    assert(head < last + EVERY);                        /* no frame was left behind */
    saw_end = 1
}

/* when nothing more can happen */
active proctype monitor() {
end:timeout;
    d_step {
    assert(!(asleep && head >= want && want != 0));     /* no lost wake: a frame */
    assert(!(asleep && (closed || lost)));              /* no lost wake: the end */
    assert(!(asleep && want == 0));                     /* and none to be lost by the next commit */
    assert(!wend || !closed || saw_end);
    }
}

init {
    atomic {
#ifndef JOIN
        table = 1;
#endif
        run writer(); run reader(); run service();
#ifdef KILL
        run killer();
#endif
    }
}

#ifdef LIVE
ltl live { <> saw_end }
#endif
