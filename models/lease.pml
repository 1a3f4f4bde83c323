/* lease.pml - leases and the reuse of slots.  For Spin 6.5.2; models/run holds the configurations.
 *
 * One writer, two readers, NS slots.  Steps bear the names that src/native/protocol/ring.c and src/native/protocol/lease.c use:
 * R1..R6 newest-mode reader, I1..I5 in-order reader, W1..W9 writer.
 *
 * What a step is: one access to one shared word (sequential consistency).  A d_step or atomic adds to that access only
 * private variables and ghosts (what really happens to the memory, seen by nobody in the program).
 *
 * What may happen:
 * - A reader's release is done by its CPU, or by its GPU at any later time; the GPU may do the wait for `ready` too.
 * - The writer's GPU finishes frames in any order, before or any time after their commit.
 * - A reader in KILL dies at any step.  Its GPU work lives on until teardown; only then does the table drop it.
 * - A reader joins at any time (JOIN), or takes the place of a dead one (REJOIN).
 * - The writer waits for in-order readers, or drops (DEPTH): then it keeps for them only the newest DEPTH frames, and
 *   such a reader checks its lease as a newest-mode reader does.
 *
 * What is checked:
 * - W7: no validated lease on a slot that the writer takes; with DEPTH, no unread frame of the newest DEPTH in it.
 * - use(): at both ends of a read the data are whole and those of the frame asked for.
 * - I1: one pass finds the frame at the cursor; with DEPTH, nothing that is skipped was among the newest DEPTH.
 * - I3: sequences grow; taken + missed counts every sequence since the reader joined.
 * - R4: a failed check always means a newer head (lock-free).
 * - monitor: at rest no slot is marked, in flight or held, by the dead either; the writer has finished.
 * - LTL (LIVE): the writer finishes, under weak fairness.
 *
 * Configuration:
 *   MODE0, MODE1   NEWEST, INORDER or NOBODY: the two readers
 *   MAXQ, NS       frames committed; slots (3 to 5)
 *   KILL           0 nobody, 1 reader 0, 2 reader 1, 3 both
 *   STOPPED        readers in KILL stop for ever instead of dying
 *   JOIN           reader 1 is not there at the start, and joins at any time
 *   REJOIN=mode    a new reader of that mode comes after each one that was killed
 *   DEPTH=n        the writer drops; in-order readers keep the newest n
 *   STEAL          with DEPTH: W3 may be passed over (with ROUND: only when a whole turn found no slot)
 *   ROUND          the writer tries the slots in turn (default: in any order)
 *   HOST           no GPUs: the writer's CPU makes the frame and raises `ready`, readers' CPUs release
 *   NONZERO        any lease that is not 0 holds its slot (default: one that equals the slot's sequence)
 *   NO_MUTEX       joins and departures do not wait for the writer's choice
 *   TABLE_EARLY    the writer reads the table once, before W1 (harmless: see README.md)
 *   M_...          mutations; README.md tells what each one breaks
 */
#define NEWEST  0
#define INORDER 1
#define NOBODY  2
#ifndef MODE0
#define MODE0 NEWEST
#endif
#ifndef MODE1
#define MODE1 NEWEST
#endif
#ifndef KILL
#define KILL 0
#endif
#ifndef MAXQ
#define MAXQ 4
#endif
#ifndef NS
#define NS 3
#endif
#define NR   2
#define MARK 99                         /* in slot_seq: being rewritten */
#define NONE 100                        /* no frame found */
#define L(r,s) lease[(r)*NS+(s)]
#define G(r,s) gq[(r)*NS+(s)]
#define H(r,s) hold[(r)*NS+(s)]

/* ---- shared words ---- */
byte head_q, head_s;                    /* head: ONE 64-bit word, always read and written together */
byte slot_seq[NS];                      /* sequence in the slot, MARK, or 0 = never used */
byte ready[NS];                         /* raised by the writer's GPU, or its CPU */
byte lease[NR*NS];                      /* readers' pages: 0, or the sequence held */
byte cursor[NR];                        /* readers' pages: first sequence that an in-order reader still needs */

/* ---- words of the writer's process, under its mutex ---- */
bit  table[NR];                         /* who is a reader */
bit  choosing;                          /* the writer holds the mutex: W1 to W6 */
byte asking;                            /* how many wait for the mutex */

/* ---- ghosts ---- */
byte data[NS];                          /* what the slot truly holds: 0 = half written */
byte pend[NS];                          /* the writer's GPU has this frame still to finish */
byte gq[NR*NS];                         /* the reader's GPU will wait for, read and release this frame */
byte hold[NR*NS];                       /* validated leases */
bool crashed[NR];
bit  wdone;

#if NS == 3
#define SLOTS(X)     X(0) X(1) X(2)
#define RSLOTS(X,r)  X(r,0) X(r,1) X(r,2)
#elif NS == 4
#define SLOTS(X)     X(0) X(1) X(2) X(3)
#define RSLOTS(X,r)  X(r,0) X(r,1) X(r,2) X(r,3)
#else
#define SLOTS(X)     X(0) X(1) X(2) X(3) X(4)
#define RSLOTS(X,r)  X(r,0) X(r,1) X(r,2) X(r,3) X(r,4)
#endif

/* ---------------- all GPUs: queued work ends at any time, in any order ---------------- */
#define WROTE(s)  :: d_step { pend[s] != 0 -> data[s] = pend[s]; ready[s] = pend[s]; pend[s] = 0 }
#define READ(r,s) :: d_step { (G(r,s) != 0 && ready[s] >= G(r,s)) -> \
        if :: H(r,s) == G(r,s) -> assert(data[s] == G(r,s)); H(r,s) = 0 :: else fi; L(r,s) = 0; G(r,s) = 0 }
#ifndef HOST
active proctype gpus() {
end:do
    SLOTS(WROTE)
    RSLOTS(READ,0)
    RSLOTS(READ,1)
    od
}
#endif

/* ---------------- the mutex ----------------
 * Others do one step under it.  For liveness it must be fair: between two tries the writer lets in those who wait, for
 * they may be about to free a slot.  For safety that makes no difference. */
#define MYTURN asking == 0
#ifdef NO_MUTEX
#define LOCKED(action) d_step { true -> action }
#elif defined(LIVE) && !defined(M_UNFAIR_MUTEX)
#define LOCKED(action) asking++; d_step { !choosing -> asking--; action }
#else
#define LOCKED(action) d_step { !choosing -> action }
#endif

/* ---------------- the writer ---------------- */
#ifdef M_HEAD_REUSE
#define NOTHEAD(x) true
#else
#define NOTHEAD(x) (nq == 1 || head_s != x)
#endif
#ifdef M_REUSE_UNREADY
#define COMPLETE(x) true
#else
#define COMPLETE(x) (ready[x] == slot_seq[x])
#endif
/* W1 any slot but the head's (own knowledge); W2 its last frame is complete (the load of `ready`) */
#define CANDIDATE(x) :: atomic { (MYTURN && NOTHEAD(x) && COMPLETE(x)) -> choosing = 1; c = x; old = slot_seq[x] }

#if defined(TABLE_EARLY) || defined(M_TABLE_CACHED)
#define IN(r) seen[r]
#else
#define IN(r) table[r]
#endif

/* a lease that holds the slot */
#ifdef NONZERO
#define HELD(r) (IN(r) && L(r,c) != 0)
#else
#define HELD(r) (IN(r) && L(r,c) != 0 && L(r,c) == old)
#endif

/* a frame that the writer keeps for reader r; nq - 1 is its own newest sequence */
#ifdef DEPTH
#define KEPT(r) (old != 0 && cursor[r] <= old && nq - 1 - old < DEPTH)
#else
#define KEPT(r) (old != 0 && cursor[r] <= old)
#endif

proctype writer() {
    byte nq = 1, c, old;
#ifdef ROUND
    byte turn, tries;
#endif
#if defined(TABLE_EARLY) || defined(M_TABLE_CACHED)
    bit seen[NR];
    d_step { seen[0] = table[0]; seen[1] = table[1] };
#endif
    do
    :: nq > MAXQ -> break
    :: nq <= MAXQ ->
#ifdef TABLE_EARLY
        d_step { seen[0] = table[0]; seen[1] = table[1] };
#endif
choose:
#ifdef ROUND
        atomic { turn = (turn + 1) % NS; if :: tries < NS -> tries++ :: else fi };
        if
        :: atomic { (MYTURN && NOTHEAD(turn) && COMPLETE(turn)) -> choosing = 1; c = turn; old = slot_seq[turn] }
        :: atomic { else -> goto choose }
        fi;
#else
        if
        SLOTS(CANDIDATE)
        fi;
#endif
#ifdef M_MARK_BEFORE_CURSOR
        slot_seq[c] = MARK;
#endif
#ifdef STEAL
#ifdef ROUND
        if :: tries == NS -> goto mark :: else fi;
#else
        if :: goto mark :: skip fi;
#endif
#endif
#ifndef M_NO_CURSOR
        /* W3 no in-order reader needs it; a cursor only grows, so this comes before the mark */
#if MODE0 == INORDER
        if :: (IN(0) && KEPT(0)) -> goto notyet :: else fi;
#endif
#if MODE1 == INORDER
        if :: (IN(1) && KEPT(1)) -> goto notyet :: else fi;
#endif
#endif
#ifdef M_WRITER_REORDER
        if :: HELD(0) -> goto notyet :: else fi;
        if :: HELD(1) -> goto notyet :: else fi;
#endif
mark:
        /* W4 */
        slot_seq[c] = MARK;
#ifdef M_WRITER_REORDER
        choosing = 0;
#else
        /* W5 each lease in its turn; the mutex is given back after the last */
        if :: HELD(0) -> goto restore :: else fi;
        if :: HELD(1) -> goto restore :: atomic { else -> choosing = 0 } fi;
#endif
        /* W7 the slot is ours; the program queues work that ends in `ready = nq` */
        d_step {
            assert(H(0,c) == 0); assert(H(1,c) == 0); assert(pend[c] == 0);
#if defined(DEPTH) && !defined(STEAL)
#if MODE0 == INORDER
            assert(!(table[0] && KEPT(0)));
#endif
#if MODE1 == INORDER
            assert(!(table[1] && KEPT(1)));
#endif
#endif
            data[c] = 0;
#ifndef HOST
            pend[c] = nq
#endif
        };
#ifdef HOST
        data[c] = nq;
        ready[c] = nq;
#endif
#ifdef M_TABLE_CACHED
        d_step { seen[0] = table[0]; seen[1] = table[1] };
#endif
        /* W8 */
        slot_seq[c] = nq;
        /* W9 */
        d_step { head_q = nq; head_s = c; nq++; c = 0; old = 0
#ifdef ROUND
            ; tries = 0
#endif
        };
        goto next;
restore:
        /* W6 only here, before anybody has written */
#ifdef M_NO_RESTORE
        atomic { c = 0; old = 0; choosing = 0 };
#else
        atomic { slot_seq[c] = old; c = 0; old = 0; choosing = 0 };
#endif
        goto choose;
notyet:
#ifdef M_MARK_BEFORE_CURSOR
        atomic { slot_seq[c] = old; c = 0; old = 0; choosing = 0 };
#else
        atomic { c = 0; old = 0; choosing = 0 };
#endif
        goto choose;
next:   skip
    od;
    wdone = 1
}

/* ---------------- readers ---------------- */

/* R5, R6 (and I4, I5): use and release of a validated lease */
inline use(r, q, s) {
    if
    :: d_step { ready[s] >= q -> assert(data[s] == q) };                        /* the CPU waited, and begins to read */
        if
        :: d_step { assert(data[s] == q); H(r,s) = 0; L(r,s) = 0; q = 0; s = 0 }        /* it ends, and releases */
#ifndef HOST
        :: d_step { assert(data[s] == q); G(r,s) = q; q = 0; s = 0 }            /* the release is queued on a stream */
#endif
#ifdef M_CPU_CLEAR
        :: G(r,s) = q; d_step { L(r,s) = 0; q = 0; s = 0 }                      /* queued, and the CPU clears as well */
#endif
        fi
#ifndef HOST
    :: d_step { G(r,s) = q; q = 0; s = 0 }                                      /* wait, read, release: all queued */
#endif
    fi
}

proctype newest(byte r; bit second) {
    byte q, s, last;
    {
end_sleep:
    do
    ::  /* R1 one load of head; nothing new: sleep */
#ifdef M_REACQUIRE
        d_step { (head_q != 0 && head_q >= last) -> q = head_q; s = head_s };
#else
        d_step { head_q > last -> q = head_q; s = head_s };
        d_step { assert(L(r,s) == 0) };                                         /* no release of ours is under way there */
#endif
#ifdef M_READER_REORDER
        if                                                                      /* R3 before others see R2 */
        :: d_step { slot_seq[s] == q -> H(r,s) = q; last = q }; L(r,s) = q; use(r,q,s)
        :: else -> d_step { q = 0; s = 0 }
        fi
#else
        /* R2 */
        L(r,s) = q;
        /* R3 */
        if
        :: d_step { slot_seq[s] == q -> H(r,s) = q; last = q }; use(r,q,s)
#ifdef M_NO_VALIDATE
        :: d_step { slot_seq[s] != q -> H(r,s) = q; last = q }; use(r,q,s)
#else
        :: d_step { slot_seq[s] != q -> assert(head_q != q) };
            /* R4 */
            d_step { L(r,s) = 0; q = 0; s = 0 }
#endif
        fi
#endif
    od
    } unless { crashed[r] && !second }
}

/* `from` is private: the cursor, or one more than a frame whose check failed. `top` is the head as it was before the
 * pass.  The pass is no snapshot: a frame committed during it may be overlooked while a later one is found.  So what
 * is above `top` does not count; what is not above it and is not found was given up by the writer. */
#ifdef M_NO_TOP
#define BELOW_TOP(x) (x != MARK)
#else
#define BELOW_TOP(x) (x <= top)
#endif
proctype inorder(byte r; bit second) {
    byte q, s, i, from, top, last, first, count;
#ifdef M_COUNT_LOST
    byte was;
#endif
#ifdef M_SAME_FRAME
    byte failed, failtop;
#endif
    {
    d_step { from = cursor[r]; first = cursor[r]; last = cursor[r] - 1 };
end_sleep:
    do
    ::  /* I1 sleep until it is committed ... */
        d_step { head_q >= from -> top = head_q; q = NONE; i = 0 };
        /* ... and one pass */
        do
        :: d_step { (i < NS && q != from) ->
                if
                :: (slot_seq[i] >= from && BELOW_TOP(slot_seq[i]) && slot_seq[i] < q) -> q = slot_seq[i]; s = i
                :: else
                fi;
                i++ }
        :: d_step { (i == NS || q == from) -> i = 0;
#ifdef DEPTH
#ifndef STEAL
                assert(q == NONE || q == from || head_q - (q - 1) >= DEPTH);    /* nothing kept was skipped, */
                assert(q != NONE || head_q - top >= DEPTH);                     /* nor was anything kept that was there */
#endif
                assert(q != NONE || head_q > top)                               /* lock-free: only a newer head hides all */
#else
                assert(q == cursor[r])
#endif
                }; break
        od;
#ifdef DEPTH
        if :: q == NONE -> goto again :: else fi;
#endif
        assert(q > last);
        assert(L(r,s) == 0);
#ifdef M_CURSOR_FIRST
        d_step { count = count + 1 + q - cursor[r]; cursor[r] = q + 1; H(r,s) = q; last = q };
        L(r,s) = q;
#else
#ifdef M_COUNT_LOST
        d_step { was = cursor[r]; cursor[r] = q + 1 };
#endif
        /* I2 (R2) */
        L(r,s) = q;
#if defined(DEPTH) && !defined(M_TRUST_CURSOR)
        /* R3 nothing keeps a frame beyond the depth, so the lease is checked */
        if
        :: d_step { slot_seq[s] == q -> H(r,s) = q }
        :: d_step { slot_seq[s] != q ->
                assert(head_q > q);                                             /* lock-free */
#ifndef STEAL
                assert(head_q - q >= DEPTH);
#endif
#ifdef M_SAME_FRAME
                assert(q != failed || head_q > failtop);        /* the same check fails, and nothing is new */
                failed = q; failtop = head_q };
#else
                from = q + 1 };                                 /* not the same again: it may be marked for ever */
#endif
            /* R4 */
            d_step { L(r,s) = 0 };
            goto again
        fi;
#else
        /* no check: up to I3 the cursor keeps the frame, from then on the lease does */
        d_step {
#ifndef M_TRUST_CURSOR
            assert(slot_seq[s] == q);
#endif
            H(r,s) = q };
#endif
        /* I3 */
#ifdef M_COUNT_LOST
        d_step { count = count + 1 + q - was; last = q };
#else
        d_step { count = count + 1 + q - cursor[r]; cursor[r] = q + 1; last = q };
#endif
        assert(count == cursor[r] - first);                                     /* taken + missed: nothing is forgotten */
#endif
        from = cursor[r];
        use(r,q,s);
again:  atomic { q = 0; s = 0; top = 0 }
    od
    } unless { crashed[r] && !second }
}

/* ---------------- joining ---------------- */
#ifdef M_JOIN_ZERO
#define START(h) h
#else
#define START(h) (h == 0 -> 1 : h)      /* before the first frame: 1, for 0 is what an unused slot says */
#endif
/* the page is sent: the reader starts */
#define SEND if :: atomic { mode == INORDER -> run inorder(r, second) } :: atomic { else -> run newest(r, second) } fi
proctype join(byte r, mode; bit second) {
    byte h;
#ifdef M_JOIN_LATE
    cursor[r] = START(head_q);
    SEND;
    LOCKED(table[r] = 1)
#else
#ifdef M_JOIN_UNLOCKED
    h = head_q;                                                                 /* looked at before the mutex is taken */
    LOCKED(table[r] = 1; cursor[r] = START(h); h = 0);
#else
    LOCKED(table[r] = 1; cursor[r] = START(head_q));
#endif
    SEND
#endif
}

/* ---------------- death ---------------- */
#define CPUGONE(r,s) if :: G(r,s) == 0 -> H(r,s) = 0 :: else fi;
#define GPUGONE(r,s) G(r,s) = 0; H(r,s) = 0;
#define NOHOLD(r,s)  H(r,s) = 0;
#define NEWPAGE(r,s) L(r,s) = 0;
proctype killer(byte r) {
end_alive:
#ifdef STOPPED
    crashed[r] = true                                   /* SIGSTOP, for ever: nothing lapses, its GPU goes on */
#else
    d_step { crashed[r] = true; RSLOTS(CPUGONE,r) };    /* SIGKILL: the CPU stops, queued GPU work goes on */
#ifdef M_LAPSE_AT_HUP
    LOCKED(table[r] = 0);                       /* the socket closes first, */
    d_step { RSLOTS(GPUGONE,r) };                       /* the GPU's context goes later */
#else
#ifndef M_RECYCLE_PAGE
    d_step { RSLOTS(GPUGONE,r) };                       /* the GPU work has stopped, */
#endif
    LOCKED(table[r] = 0);                               /* and then the leases lapse */
#endif
#ifdef M_RECYCLE_PAGE
    d_step { RSLOTS(NEWPAGE,r) RSLOTS(NOHOLD,r) };      /* the same page, cleared; the dead reader's GPU writes to it yet */
#else
    d_step { RSLOTS(NEWPAGE,r) };                       /* whoever comes next gets a page of its own */
#endif
#ifdef REJOIN
    run join(r, REJOIN, 1)
#endif
#endif
}

/* ---------------- rest: nothing is lost for ever ---------------- */
active proctype monitor() {
    byte s;
end:timeout;
    d_step {
    assert(wdone);
    s = 0;
    do
    :: s < NS ->
        assert(slot_seq[s] != MARK);
        assert(pend[s] == 0);
#ifndef STOPPED
        assert(!(table[0] && L(0,s) != 0));
        assert(!(table[1] && L(1,s) != 0));
#endif
        s++
    :: else -> break
    od }
}

init {
    atomic {
        cursor[0] = 1; cursor[1] = 1;
        run writer();
#if MODE0 == INORDER
        table[0] = 1; run inorder(0,0);
#elif MODE0 == NEWEST
        table[0] = 1; run newest(0,0);
#endif
#ifdef JOIN
        run join(1, MODE1, 0);
#elif MODE1 == INORDER
        table[1] = 1; run inorder(1,0);
#elif MODE1 == NEWEST
        table[1] = 1; run newest(1,0);
#endif
#if KILL & 1
        run killer(0);
#endif
#if KILL & 2
        run killer(1);
#endif
    }
}

#ifdef LIVE
ltl live { <> wdone }
#endif
