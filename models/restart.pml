/* restart.pml - a writer dies, a new one opens a new session.  For Spin 6.5.2; models/run holds the configurations.
 *
 * Sessions 1 to SESS, one writer after the other; each but the last is killed at any step.  Every session has a control
 * page, slots and a reader's page of its own.  One newest-mode reader lives through all of them.  Steps W1..W9 and
 * R1..R6 are those of lease.pml; there is no in-order reader here (W3 drops out).
 *
 * The reader's service thread meets the new writer (J1: it is in the new table, then has the new pages) at any time,
 * also in the middle of an acquire.  The caller changes over only at the start of an acquire (J2), and counts anew.
 * A frame of the old session may be kept for long after that; its release goes to the page it was taken in.
 * The dead writer's GPU work may land until it is stopped; a new session may begin before that.
 *
 * What is checked:
 * - the frame that is read is whole, and is of the session and sequence that were validated, at both ends of the read;
 * - W7: no validated lease of the same session on a slot that the writer takes;
 * - no frame of an older session is handed out after one of a newer;
 * - a dead writer's head stays named and, if it was ready, whole: at death, and at rest;
 * - R4: a failed check means a newer head, so the dead writer's last frame can be taken;
 * - at rest the reader holds nothing;
 * - LTL (LIVE): the reader gets a frame of the last session, under weak fairness.
 *
 * SESS   sessions, 2 or 3           MAXQ   frames of each session; MAXQ1 those of the first
 * KEEP   the program may keep one frame while it takes others
 * HOST     no GPU in the writer: its CPU makes the frame and raises `ready`
 * CPUONLY  the reader's GPU neither waits nor releases
 * NO_REST  without the checks at rest, to see what else a mutation breaks
 * M_...  mutations
 */
#ifndef SESS
#define SESS 2
#endif
#ifndef MAXQ
#define MAXQ 3
#endif
#ifndef MAXQ1
#define MAXQ1 MAXQ
#endif
#define LAST(p) (p == 1 -> MAXQ1 : MAXQ)
#define NS   3
#define MARK 99
#define I(p,s)   (((p)-1)*NS+(s))
#define TAG(p,q) ((p)*16+(q))
#ifdef M_SAME_SLOTS
#define D(p,s) data[s]                  /* the new session takes over the old memory */
#else
#define D(p,s) data[I(p,s)]
#endif

/* ---- shared words, a set for each session ---- */
byte head_q[SESS+1], head_s[SESS+1];
byte slot_seq[SESS*NS];
byte ready[SESS*NS];
byte lease[SESS*NS];
bit  table[SESS+1];
bit  choosing[SESS+1];

/* ---- the reader's process ---- */
byte cur = 1;                           /* the newest session that the service thread has joined */

/* ---- ghosts ---- */
byte data[SESS*NS];                     /* what the memory truly holds: TAG, or 0 = half written */
byte pend[SESS*NS];                     /* the writer's GPU has this frame still to finish */
byte gq[SESS*NS];                       /* the reader's GPU will wait for, read and release this frame */
byte hold[SESS*NS];                     /* validated leases */
bit  open[SESS+1];                      /* a writer has opened this session */
bool dead[SESS+1];                      /* killed: its CPU does nothing more */
bit  gone[SESS+1];                      /* nor does its GPU, and readers can know it */
byte handed;                            /* session of the last frame handed out */
bit  wdone;

#define HEADKEPT(p) (head_q[p] == 0 || (slot_seq[I(p,head_s[p])] == head_q[p] && \
        (ready[I(p,head_s[p])] != head_q[p] || D(p,head_s[p]) == TAG(p,head_q[p]))))

/* ---------------- all GPUs ---------------- */
#define WROTE(p,s) :: d_step { pend[I(p,s)] != 0 -> \
        D(p,s) = TAG(p,pend[I(p,s)]); ready[I(p,s)] = pend[I(p,s)]; pend[I(p,s)] = 0 }
#define READ(p,s)  :: d_step { (gq[I(p,s)] != 0 && ready[I(p,s)] >= gq[I(p,s)]) -> \
        assert(D(p,s) == TAG(p,gq[I(p,s)])); hold[I(p,s)] = 0; lease[I(p,s)] = 0; gq[I(p,s)] = 0 } \
    :: d_step { (gq[I(p,s)] != 0 && gone[p] && ready[I(p,s)] < gq[I(p,s)]) -> \
        hold[I(p,s)] = 0; lease[I(p,s)] = 0; gq[I(p,s)] = 0 }   /* freed by the poison; reported as lost */
active proctype gpus() {
end:do
    WROTE(1,0) WROTE(1,1) WROTE(1,2) READ(1,0) READ(1,1) READ(1,2)
    WROTE(2,0) WROTE(2,1) WROTE(2,2) READ(2,0) READ(2,1) READ(2,2)
#if SESS > 2
    WROTE(3,0) WROTE(3,1) WROTE(3,2) READ(3,0) READ(3,1) READ(3,2)
#endif
    od
}

/* ---------------- the writer of session p ---------------- */
#define CANDIDATE(x) :: atomic { ((nq == 1 || head_s[p] != x) && ready[I(p,x)] == slot_seq[I(p,x)]) -> \
        choosing[p] = 1; c = x; old = slot_seq[I(p,x)] }
proctype writer(byte p) {
    byte nq = 1, c, old;
    {
    do
    :: nq > LAST(p) -> break
    :: nq <= LAST(p) ->
choose: if                                                                      /* W1, W2 */
        CANDIDATE(0) CANDIDATE(1) CANDIDATE(2)
        fi;
        slot_seq[I(p,c)] = MARK;                                                /* W4 */
        if                                                                      /* W5 */
        :: (table[p] && lease[I(p,c)] != 0 && lease[I(p,c)] == old) ->
            atomic { slot_seq[I(p,c)] = old; c = 0; old = 0; choosing[p] = 0 }; /* W6 */
            goto choose
        :: atomic { else -> choosing[p] = 0 }
        fi;
#ifdef HOST
        d_step { assert(hold[I(p,c)] == 0); D(p,c) = 0 };                       /* W7 */
        D(p,c) = TAG(p,nq);
        ready[I(p,c)] = nq;
#else
        d_step { assert(hold[I(p,c)] == 0); assert(pend[I(p,c)] == 0); D(p,c) = 0; pend[I(p,c)] = nq }; /* W7 */
#endif
        slot_seq[I(p,c)] = nq;                                                  /* W8 */
        d_step { head_q[p] = nq; head_s[p] = c; nq++; c = 0; old = 0 }          /* W9 */
    od;
    if :: p == SESS -> wdone = 1 :: else fi
    } unless { dead[p] }
}

/* ---------------- death of writer p, and the next session ---------------- */
proctype killer(byte p) {
    d_step { dead[p] = true; assert(HEADKEPT(p)) };
    /* the lock is free: the next writer may open before the driver has stopped the dead one's GPU work */
    atomic {
        open[p+1] = 1;
        run writer(p+1);
        if :: p + 1 < SESS -> run killer(p+1) :: else fi
    };
    d_step { pend[I(p,0)] = 0; pend[I(p,1)] = 0; pend[I(p,2)] = 0; gone[p] = 1 }
}

/* ---------------- the reader ---------------- */
proctype service() {
    byte n;
end:do
    :: atomic {
        if
        :: (cur + 1 <= SESS && open[cur+1] && !dead[cur+1]) -> n = cur + 1
        :: (cur + 2 <= SESS && open[cur+2] && !dead[cur+2]) -> n = cur + 2      /* it comes late, and meets the newest */
        fi };
        if
        :: d_step { (!choosing[n] && !dead[n]) -> table[n] = 1 };               /* J1 */
            cur = n
        :: dead[n]                                                              /* it died before it answered: look again */
        fi;
        n = 0
    od
}

#ifdef M_RELEASE_NEW
#define KEPTPAGE p                      /* the page of the session that is current at the release */
#else
#define KEPTPAGE kp
#endif
#define LETGO(p,q,s) assert(D(p,s) == TAG(p,q)); hold[I(p,s)] = 0

proctype reader() {
    byte p = 1, q, s, last;
#ifdef KEEP
    byte kp, kq, ks;                                                            /* a frame that the program keeps */
#endif
end_sleep:
    do
    :: atomic { p != cur -> p = cur;                                            /* J2 */
#ifndef M_LAST_KEPT
        last = 0
#endif
        }
    :: atomic { (p == cur && head_q[p] > last) -> q = head_q[p]; s = head_s[p]; /* R1 */
            assert(lease[I(p,s)] == 0) };
        lease[I(p,s)] = q;                                                      /* R2 */
#ifdef M_MIX
        p = cur;                                                                /* J2 in the middle of an acquire */
#endif
        if                                                                      /* R3 */
        :: d_step { slot_seq[I(p,s)] == q ->
                hold[I(p,s)] = q; last = q; assert(p >= handed); handed = p };
            if                                                                  /* R5, R6 */
            :: d_step { ready[I(p,s)] >= q -> assert(D(p,s) == TAG(p,q)) };
                if
                :: d_step { LETGO(p,q,s); lease[I(p,s)] = 0 }
#ifndef CPUONLY
                :: d_step { assert(D(p,s) == TAG(p,q)); gq[I(p,s)] = q }
#endif
#ifdef KEEP
                :: d_step { (kq == 0) -> kp = p; kq = q; ks = s }               /* kept; more frames are taken meanwhile */
#endif
                fi
#ifndef CPUONLY
            :: d_step { gq[I(p,s)] = q }
#endif
#ifndef M_NO_LOST
            :: d_step { (gone[p] && ready[I(p,s)] < q) -> hold[I(p,s)] = 0; lease[I(p,s)] = 0 }    /* lost with its writer */
#endif
            fi
        :: d_step { slot_seq[I(p,s)] != q -> assert(head_q[p] != q) };
            lease[I(p,s)] = 0                                                   /* R4 */
        fi;
        atomic { q = 0; s = 0 }
#ifdef KEEP
    :: d_step { kq != 0 -> LETGO(kp,kq,ks); lease[I(KEPTPAGE,ks)] = 0; kp = 0; kq = 0; ks = 0 }
#endif
    od
}

/* ---------------- rest ---------------- */
#ifndef NO_REST
active proctype monitor() {
    byte n;
end:timeout;
    d_step {
    assert(wdone);
    assert(cur == SESS);
    n = 1;
    do
    :: n <= SESS -> assert(HEADKEPT(n)); n++
    :: else -> break
    od;
    n = 0;
    do
    :: n < SESS*NS -> assert(lease[n] == 0); assert(pend[n] == 0); n++
    :: else -> break
    od;
    }
}
#endif

init {
    atomic { table[1] = 1; open[1] = 1; run writer(1); run reader(); run service(); run killer(1) }
}

#ifdef LIVE
ltl live { <> (handed == SESS) }
#endif
