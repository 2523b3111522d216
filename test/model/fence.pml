/* The producer's fence: token << 1 | busy. publish() sets busy by compare-exchange on its own
 * token, writes the ring with plain loads and stores, and clears busy; attach() waits for busy to
 * be clear, installs "nobody" and then its own new token (src/frame/producer.cpp, ring_state.cpp).
 * Two producers that take the ring from each other, and the one that loses may still be publishing.
 *
 * What must hold: never are two inside publish(); positions are dense; after attach() has returned
 * nothing of an older producer becomes visible.
 *
 *   BREAK_BUSY   attach() does not wait for a publish in progress
 */
byte fence;          /* token * 2 + busy; 0 = nobody */
byte next_token = 1;
bool control;        /* the ring's control lock */
byte head, published, inside;

proctype session() {
  byte mine, at, f, lives, i;
  bool fenced;
  do
  :: lives == 2 -> break
  :: else ->
     lives++;
     /* attach */
     atomic { !control -> control = true }
     do
     :: atomic {
#ifdef BREAK_BUSY
          true -> fence = 0; break
#else
          fence % 2 == 0 -> fence = 0; break
#endif
        }
     od;
     mine = next_token;
     next_token++;
     fence = mine * 2;
     control = false;
     /* publish */
     i = 0;
     fenced = false;
     do
     :: i == 2 || fenced -> break
     :: else ->
        i++;
        atomic {
          if
          :: fence == mine * 2 -> fence = mine * 2 + 1
          :: else -> fenced = true
          fi
        }
        if
        :: !fenced ->
           inside++;
           assert(inside == 1);
           at = head;
           head = at + 1;
           published++;
           inside--;
           fence = mine * 2
        :: else
        fi
     od
  od
}

init {
  atomic { run session(); run session() }
  _nr_pr == 1;
  assert(head == published)
}
