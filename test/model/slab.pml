/* An open slab: one word that a producer fills by compare-exchange, that anybody may close by an
 * exchange with 0, and a count of live frames with a bias while it is open (src/frame/slabs.h).
 * Two producers fill (one of them fenced, but it does not know yet), two threads close, and frames
 * go at any moment.
 *
 * What must hold: the slab is freed once, when it is closed and its last frame is gone; a frame
 * that was put into it is never in freed memory.
 *
 *   BREAK_COUNT   the producer counts its frame in the slab after it has taken the room, instead of
 *                 in the word itself: a close between the two frees the slab under it
 */
#define BIAS 100
#define ROOM 3

byte word;             /* 0 = none open; else 1 + frames taken */
short live = BIAS;
bool freed;
byte taken, done;

inline lower(by) {
  atomic {
    live = live - (by);
    assert(live >= 0);
    if
    :: live == 0 -> assert(!freed); freed = true
    :: else
    fi
  }
}

proctype producer() {
  byte w, mine, tries;
  do
  :: tries == 3 -> break
  :: else ->
     tries++;
     w = word;
     if
     :: w != 0 && w - 1 < ROOM ->
        atomic {
          if
          :: word == w -> word = w + 1; mine++; taken++
          :: else -> w = 0
          fi
        }
        if
        :: w != 0 ->
#ifdef BREAK_COUNT
           live++;
#endif
           assert(!freed)
        :: else
        fi
     :: else
     fi
  od;
  do  /* the frames are written, published, and go */
  :: mine == 0 -> break
  :: else ->
     assert(!freed);
     mine--;
     lower(1)
  od;
  done++
}

proctype closer() {
  byte w;
  atomic { w = word; word = 0 }
  if
  :: w != 0 ->
#ifdef BREAK_COUNT
     lower(BIAS)
#else
     lower(BIAS - (w - 1))
#endif
  :: else
  fi;
  done++
}

init {
  atomic { word = 1; run producer(); run producer(); run closer(); run closer() }
  done == 4;
  assert(word == 0 && freed && live == 0)
}
