/* The frame ring: a producer, an evictor in another thread, somebody who changes the depth, and a
 * reader; 2 slots, 3 blocks, 4 frames. Names as in src/frame. Sequentially consistent: which memory
 * order each step needs is argued in docs/ring.md and tried under TSan.
 *
 * What must hold:
 *   a reference is given up as often as it was taken, a block becomes free once      (drop_*)
 *   who holds a reference finds the frame he asked for, unchanged                    (reader)
 *   a frame that a reader was told is gone is gone, and got + lost = what he passed  (reader)
 *   what the books say of a lost frame is of that frame, or they say "forgotten"     (reader)
 *   at rest: kept are exactly the frames from tail to head, no more than the depth   (init)
 *
 * Broken on purpose, one macro each; run_spin.py expects an error for every one of them:
 *   BREAK_EXCHANGE   the producer loads, stores and drops instead of exchanging
 *   BREAK_POSITION   the reader trusts a handle without looking at the block's position
 *   BREAK_RECHECK    the producer does not look at the depth again after its own write
 *   BREAK_REMEMBER   the reader does not look at head again after reading the books
 *   BREAK_OWN        an evictor does not look at head after reading the handle
 *   BREAK_COUNT      a reader counts up from 0 and undoes it if it was stale
 */
#ifndef READS
#define READS 3
#endif
#ifndef EVICTIONS
#define EVICTIONS 2
#endif
#define NS 2        /* slots: the capacity */
#define NB 3        /* blocks */
#ifndef N
#define N 4 /* frames published */
#endif
#define RING 16     /* the ring's reference in refs; readers count by 1 */
#define NONE 255

byte slot[NS] = NONE;  /* the handle: block ... */
byte slot_gen[NS];     /* ... and generation */
byte slot_seq[NS];     /* the books: readable after eviction */
byte gen[NB];
byte refs[NB];
byte pos[NB];
byte payload[NB];
bool free[NB] = true;
byte head, tail, depth = 2, done;

#ifdef BREAK_OWN
#define OWN_SLOT(p) true
#else
#define OWN_SLOT(p) ((p) + NS > head)
#endif
#define IN_SLOT(p) (slot[(p) % NS] != NONE && pos[slot[(p) % NS]] == (p))

inline release_if_unused(b) {
  if
  :: refs[b] == 0 -> assert(!free[b]); free[b] = true; payload[b] = NONE
  :: else
  fi
}
inline drop_reader(b) { atomic { assert(refs[b] % RING > 0); refs[b]--; release_if_unused(b) } }
inline drop_ring(b, own) {
  atomic { assert(refs[b] >= RING + own); refs[b] = refs[b] - (RING + own); release_if_unused(b) }
}
#ifdef BREAK_COUNT
inline try_reference(b, g) {
  refs[b]++;
  atomic {
    if
    :: gen[b] == g && refs[b] > 1 -> got = true
    :: else -> refs[b]--; got = false; release_if_unused(b)
    fi
  }
}
#else
inline try_reference(b, g) {
  atomic {
    if
    :: gen[b] == g && refs[b] > 0 -> refs[b]++; got = true
    :: else -> got = false
    fi
  }
}
#endif

/* evict_one(limit): takes the oldest frame below the limit out, if there is one. */
inline evict_one(limit) {
  taken = false;
  do
  :: taken -> break
  :: else ->
     t = tail;
     if
     :: t >= limit || t >= head -> break
     :: else
     fi;
     atomic { b = slot[t % NS]; g = slot_gen[t % NS] }
     if
     :: b != NONE && OWN_SLOT(t) ->   /* head, read after the handle: it is this frame's */
        atomic {
          if
          :: slot[t % NS] == b && slot_gen[t % NS] == g -> slot[t % NS] = NONE; taken = true
          :: else
          fi
        }
        if
        :: taken -> drop_ring(b, 0)
        :: else
        fi
     :: b != NONE && !OWN_SLOT(t) ->   /* a full ring: only a reference tells whose it is */
        try_reference(b, g);
        if
        :: got ->
           if
           :: pos[b] == t ->
              atomic {
                if
                :: slot[t % NS] == b && slot_gen[t % NS] == g ->
                   slot[t % NS] = NONE; taken = true
                :: else
                fi
              }
              if
              :: taken -> drop_ring(b, 1)
              :: else -> drop_reader(b)
              fi
           :: else -> drop_reader(b)
           fi
        :: else
        fi
     :: else
     fi;
     atomic {
       if :: tail == t -> tail = t + 1 :: else fi;
       b = 0; g = 0; t = 0; got = false   /* forgotten: fewer states */
     }
  od;
  atomic { t = 0; taken = false }
}
inline evict_beyond_depth() {
  do
  :: t = tail;
     d = depth;
     h = head;
     if
     :: h - t <= d -> break
     :: else -> atomic { h = h - d; d = 0; t = 0 }; evict_one(h)
     fi
  od;
  atomic { t = 0; d = 0; h = 0 }
}

proctype producer() {
  byte b, g, t, d, h, mine, old, at, i;
  bool got, taken;
  do
  :: i == N -> break
  :: else ->
     atomic {
       if
       :: free[0] -> mine = 0
       :: !free[0] && free[1] -> mine = 1
       :: !free[0] && !free[1] && free[2] -> mine = 2
       :: else -> mine = NONE
       fi;
       if
       :: mine != NONE -> free[mine] = false
       :: else
       fi
     }
     if
     :: mine == NONE -> h = head; evict_one(h); h = 0   /* the oldest frame gives its block */
     :: else ->
        at = head;
        /* the block is ours alone: no references, and a reader never counts up from none */
        atomic {
          pos[mine] = at;
          payload[mine] = at;
#ifndef BREAK_COUNT
          assert(refs[mine] == 0);
#endif
          gen[mine]++; refs[mine] = RING
        }
        slot_seq[at % NS] = at;
#ifdef BREAK_EXCHANGE
        old = slot[at % NS];
        atomic { slot[at % NS] = mine; slot_gen[at % NS] = gen[mine] }
#else
        if
        :: at < tail + NS ->   /* below the tail slots are empty, and only the producer fills them */
           old = NONE;
           atomic { assert(slot[at % NS] == NONE); slot[at % NS] = mine; slot_gen[at % NS] = gen[mine] }
        :: else ->
           atomic { old = slot[at % NS]; slot[at % NS] = mine; slot_gen[at % NS] = gen[mine] }
        fi;
#endif
        head = at + 1;
        if
        :: old != NONE -> drop_ring(old, 0)
        :: else
        fi;
        atomic { if :: at + 1 > NS && tail < at + 1 - NS -> tail = at + 1 - NS :: else fi }
        atomic { old = 0; at = 0; mine = 0; h = 0 }
#ifndef BREAK_RECHECK
        evict_beyond_depth();
#endif
        i++
     fi
  od;
  done++
}

proctype evictor() {
  byte b, g, t, h;
  bool got, taken;
  h = head;
  evict_one(h);
#if EVICTIONS > 1
  h = head;
  evict_one(h);
#endif
  atomic { h = 0; done++ }
}

proctype resizer() {
  byte b, g, t, d, h;
  bool got, taken;
  depth = 1;
  evict_beyond_depth();
  done++
}

proctype reader() {
  byte b, g, c, next, book, n, lost, had;
  bool got;
  do
  :: n == READS -> break
  :: else ->
     n++;
     if
     :: c < head ->
        got = false;
        atomic { b = slot[c % NS]; g = slot_gen[c % NS] }
        if
        :: b != NONE ->
           try_reference(b, g);
#ifndef BREAK_POSITION
           if
           :: got && pos[b] != c -> drop_reader(b); got = false
           :: else
           fi
#endif
        :: else
        fi;
        if
        :: got ->
           assert(pos[b] == c && payload[b] == c);
           assert(!free[b] && pos[b] == c && payload[b] == c);
           drop_reader(b);
           had++;
           c++
        :: else ->
           assert(!IN_SLOT(c));
           book = slot_seq[c % NS];
#ifdef BREAK_REMEMBER
           assert(book == c);
#else
           assert(c + NS <= head || book == c);
#endif
           atomic {
             next = (c + 1 > tail -> c + 1 : tail);
             lost = lost + (next - c);
             c = next; next = 0; book = 0
           }
        fi;
        atomic { b = 0; g = 0; got = false }
     :: else
     fi
  od;
  assert(had + lost == c && c <= head);
  done++
}

init {
  byte p;
  atomic {
    run producer();
#if EVICTORS > 0
    run evictor();
#endif
#if EVICTORS > 1
    run evictor();
#endif
#ifdef RESIZER
    run resizer();
#endif
#ifdef READER
    run reader();
#endif
  }
  done == RUNNING;
  assert(head == N && tail <= head && head - tail <= depth);
  assert(slot[0] == NONE || pos[slot[0]] >= tail);   /* nothing is left behind */
  assert(slot[1] == NONE || pos[slot[1]] >= tail);
  p = tail;
  do
  :: p == head -> break
  :: else -> assert(IN_SLOT(p)); p++
  od;
  p = 0;
  do
  :: p == NB -> break
  :: else ->
     assert(refs[p] == ((slot[0] == p) + (slot[1] == p)) * RING);
     assert(free[p] == (refs[p] == 0));
     p++
  od
}
