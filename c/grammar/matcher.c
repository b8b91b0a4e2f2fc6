#include "grammar/matcher.h"

#include "grammar/dfa.h"

static bq_status overflow(bq_error *err) {
  return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET,
                 "the grammar has too many ways open at once, or calls too deep");
}

void bq_matcher_create(const bq_grammar *g, const bq_vocabulary *v, bq_arena *arena,
                       bq_matcher **out) {
  bq_matcher *m = bq_arena_take(arena, 1, sizeof *m);
  const uint32_t fit = BQ_TRANSITION_BYTES / (2 * g->n_classes);
  bq_matcher fresh = {
      .g = g, .v = v, .max_dfa_states = fit < BQ_MAX_DFA_STATES ? fit : BQ_MAX_DFA_STATES};
  fresh.frames = bq_arena_take(arena, BQ_MAX_FRAMES, sizeof *fresh.frames);
  fresh.nfa_states = bq_arena_take(arena, BQ_MAX_NFA_STATES, sizeof *fresh.nfa_states);
  fresh.dfa_states = bq_arena_take(arena, fresh.max_dfa_states, sizeof *fresh.dfa_states);
  fresh.steps =
      bq_arena_take(arena, (uint64_t)fresh.max_dfa_states * g->n_classes, sizeof *fresh.steps);
  fresh.frame_slots = bq_arena_take(arena, 2 * BQ_MAX_FRAMES, sizeof *fresh.frame_slots);
  fresh.dfa_slots = bq_arena_take(arena, 2 * BQ_MAX_DFA_STATES, sizeof *fresh.dfa_slots);
  fresh.work = bq_arena_take(arena, BQ_MAX_WORK, sizeof *fresh.work);
  fresh.kept = bq_arena_take(arena, BQ_MAX_WORK, sizeof *fresh.kept);
  fresh.seen = bq_arena_take(arena, 2 * BQ_MAX_WORK, sizeof *fresh.seen);
  fresh.path = bq_arena_take(arena, (uint64_t)v->longest + 1, sizeof *fresh.path);
  fresh.masks = bq_arena_take(arena, (uint64_t)(BQ_MAX_MASKS + 1) * v->words, sizeof *fresh.masks);
  fresh.mask_of = bq_arena_take(arena, BQ_MAX_MASKS, sizeof *fresh.mask_of);
  const uint64_t items = g->lists ? BQ_UNIQUE_NODES : 0;
  fresh.items = bq_arena_take(arena, items, sizeof *fresh.items);
  fresh.marked_items = bq_arena_take(arena, items, sizeof *fresh.marked_items);
  fresh.lists = bq_arena_take(arena, (uint64_t)v->longest + 1, sizeof *fresh.lists);
  if (!arena->base || arena->overflow) return;
  *m = fresh;
  *out = m;
  bq_dfa_begin(m);
}

bq_status bq_matcher_begin(bq_matcher *m, bq_error *err) {
  m->here = m->marked = m->ahead = m->start;
  m->now = m->marked_now = m->ahead_now = (bq_unique){0};
  return m->start == BQ_DFA_DEAD ? overflow(err) : BQ_OK;
}

bool bq_matcher_complete(const bq_matcher *m) { return m->dfa_states[m->here].complete; }

static bool state_continues(const bq_matcher *m, uint32_t state) {
  const bq_dfa_state *p = &m->dfa_states[state];
  for (uint32_t i = 0; i < p->n; i++) {
    const bq_nfa_state t = m->nfa_states[p->first + i];
    for (uint32_t e = bq_edges_begin(m->g, t.state); e < m->g->states[t.state].edges; e++)
      if (bq_edge_is_open(m, t, m->g->edges[e])) return true;
  }
  return false;
}

bool bq_matcher_continues(const bq_matcher *m) { return state_continues(m, m->here); }

/* Runs `todo` from m->here on; once more with compacted tables if they were full. */
typedef bool attempt(bq_matcher *m, void *ctx);
static bq_status with_room(bq_matcher *m, attempt *todo, void *ctx, bq_error *err) {
  if (todo(m, ctx)) return BQ_OK;
  if (bq_dfa_compact(m) && todo(m, ctx)) return BQ_OK;
  return overflow(err);
}

/* The only byte that may follow a state; -1: the text may end, or several bytes may follow. */
static int only_byte(const bq_matcher *m, uint32_t state) {
  const bq_dfa_state *p = &m->dfa_states[state];
  int only = -1;
  if (p->complete) return -1;
  for (uint32_t i = 0; i < p->n; i++) {
    const bq_nfa_state t = m->nfa_states[p->first + i];
    for (uint32_t e = bq_edges_begin(m->g, t.state); e < m->g->states[t.state].edges; e++) {
      if (!bq_edge_is_open(m, t, m->g->edges[e])) continue;
      const int low = (int)bq_edge_low(m->g->edges[e]), high = (int)bq_edge_high(m->g->edges[e]);
      if (low != high || (only >= 0 && low != only)) return -1;
      only = low;
    }
  }
  return only;
}

/* bq_dfa_step with unique lists: also BQ_DFA_DEAD where an item would repeat another, or could only
 * become a repetition. */
static uint32_t advance(bq_matcher *m, uint32_t state, uint8_t byte, bq_unique *u) {
  if (!m->g->lists) return bq_dfa_step(m, state, byte);
  if (!bq_unique_step(u, m->items, m->dfa_states[state].marks, byte)) return BQ_DFA_DEAD;
  const uint32_t next = bq_dfa_step(m, state, byte);
  if (!u->item || next == BQ_TABLE_FULL || !(m->dfa_states[next].marks & BQ_STATE_CLOSE))
    return next;
  return only_byte(m, next) == '"' && bq_unique_contains(u, m->items) ? BQ_DFA_DEAD : next;
}

/* --- tokens --------------------------------------------------------------------------------- */

typedef struct span {
  const uint8_t *bytes;
  size_t n;
  uint32_t state; /* state after the bytes */
  bq_unique list;
} span;

static bool follow(bq_matcher *m, void *ctx) {
  span *s = ctx;
  s->state = m->here;
  s->list = m->now;
  for (size_t i = 0; i < s->n && s->state != BQ_TABLE_FULL && s->state != BQ_DFA_DEAD; i++)
    s->state = advance(m, s->state, s->bytes[i], &s->list);
  return s->state != BQ_TABLE_FULL;
}

bq_status bq_matcher_accept(bq_matcher *m, uint32_t id, bq_error *err) {
  span s = {0};
  s.bytes = bq_token_bytes(m->v->tokenizer, id, &s.n);
  bq_status status = s.n ? with_room(m, follow, &s, err) : BQ_OK;
  if (status != BQ_OK) return status;
  if (!s.n || s.state == BQ_DFA_DEAD)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "token %u may not come next", id);
  m->here = s.state;
  m->now = s.list;
  bq_unique_compact(&m->now, m->items);
  return BQ_OK;
}

void bq_matcher_mark(bq_matcher *m) {
  m->marked = m->here;
  m->marked_now = m->now;
  for (uint32_t i = 0; i < m->now.n; i++) m->marked_items[i] = m->items[i];
}

void bq_matcher_return(bq_matcher *m) {
  m->here = m->marked;
  m->now = m->marked_now;
  for (uint32_t i = 0; i < m->now.n; i++) m->items[i] = m->marked_items[i];
}

/* --- masks ---------------------------------------------------------------------------------- */

/* Adds the tokens in the subtree of `root` (itself excluded) that may follow path[its depth], with
 * the lists lists[its depth], to `mask`. Without a mask: returns whether there is one.
 * BQ_TABLE_FULL. */
static uint32_t walk(bq_matcher *m, const bq_trie *trie, uint32_t root, uint32_t *mask) {
  const uint32_t end = trie->end[root];
  for (uint32_t node = root + 1; node < end;) {
    const uint32_t depth = trie->depth[node], state = m->path[depth - 1];
    uint32_t next =
        m->g->lists ? BQ_TRANSITION_UNKNOWN : *bq_dfa_transition(m, state, trie->byte[node]);
    if (next == BQ_TRANSITION_UNKNOWN) {
      m->lists[depth] = m->lists[depth - 1];
      next = advance(m, state, trie->byte[node], &m->lists[depth]);
    }
    if (next == BQ_TABLE_FULL) return BQ_TABLE_FULL;
    if (next == BQ_DFA_DEAD) {
      node = trie->end[node];
      continue;
    }
    m->path[depth] = next;
    uint32_t i = trie->first[node];
    const uint32_t last = trie->first[node + 1];
    if (i < last && !mask) return 1;
    for (; i < last; i++) mask[trie->ids[i] / 32] |= 1u << trie->ids[i] % 32;
    node++;
  }
  return 0;
}

/* How many more plain characters an NFA state takes by repeating its rule; 0 if it doesn't. */
static uint32_t plain_left(const bq_matcher *m, bq_nfa_state t) {
  const bq_frame *f = &m->frames[t.frame];
  if (t.frame == BQ_BOTTOM_FRAME) return 0;
  const bq_call *c = &m->g->calls[f->call];
  const bq_rule *rule = &m->g->rules[c->rule];
  return rule->flags & BQ_GRAMMAR_PLAIN && rule->start == t.state ? c->max - f->count : 0;
}

/* Whether an edge of an NFA state contains a plain byte. */
static bool takes_plain(const bq_matcher *m, bq_nfa_state t) {
  for (uint32_t e = bq_edges_begin(m->g, t.state); e < m->g->states[t.state].edges; e++) {
    const uint32_t low = bq_edge_low(m->g->edges[e]), high = bq_edge_high(m->g->edges[e]);
    if (high >= 0x20 && !(low == high && (low == '"' || low == '\\'))) return true;
  }
  return false;
}

typedef struct wanted_mask {
  const uint32_t *mask;
} wanted_mask;

/* How a state takes plain characters: at most `left` by repetition, and whether in other ways too.
 */
typedef struct plain_ways {
  uint32_t left;
  bool others;
} plain_ways;

static plain_ways plain_at(const bq_matcher *m, uint32_t state) {
  const bq_dfa_state *p = &m->dfa_states[state];
  plain_ways ways = {0};
  for (uint32_t i = 0; i < p->n; i++) {
    const bq_nfa_state t = m->nfa_states[p->first + i];
    const uint32_t n = plain_left(m, t);
    if (n > ways.left) ways.left = n;
    if (!n) ways.others |= takes_plain(m, t);
  }
  return ways;
}

static bool walk_all(bq_matcher *m, uint32_t state, unsigned trie, uint32_t *mask) {
  m->path[0] = state;
  m->lists[0] = m->now;
  return walk(m, &m->v->tries[trie], 0, mask) != BQ_TABLE_FULL;
}

/* Computes the mask of a state within `reach`. */
static bool fill(bq_matcher *m, uint32_t state, unsigned reach, uint32_t *mask) {
  plain_ways ways = plain_at(m, state);
  const bool far = reach != BQ_REACH_NEAR;
  if (!far && ways.left > BQ_NEAR_BYTES) ways.left = BQ_NEAR_BYTES;
  /* A plain character ends no item, but an item of maximum length may have to be another one's
   * repetition. */
  if (m->now.head && ways.left < BQ_PLAIN_LENGTHS) ways.left = 0;
  for (uint32_t i = 0; i < m->v->words; i++) mask[i] = 0;
  if (ways.left) bq_vocabulary_plain(m->v, 0, ways.left, mask);
  const bool plain = !ways.left || (ways.others && ways.left < BQ_PLAIN_LENGTHS);
  return walk_all(m, state, BQ_TRIE_REST, mask) &&
         (!far || walk_all(m, state, BQ_TRIE_FAR, mask)) &&
         (!plain || walk_all(m, state, BQ_TRIE_PLAIN, mask));
}

/* The mask of a state within `reach`, computed unless it is kept. */
static bool keep_mask(bq_matcher *m, uint32_t state, unsigned reach, const uint32_t **mask) {
  const uint32_t owner = BQ_REACHES * state + reach;
  uint32_t slot = m->dfa_states[state].mask[reach];
  if (slot == BQ_GRAMMAR_NONE || m->mask_of[slot] != owner) {
    slot = m->next_mask;
    m->mask_of[slot] = BQ_GRAMMAR_NONE;
    if (!fill(m, state, reach, m->masks + (size_t)slot * m->v->words)) return false;
    m->dfa_states[state].mask[reach] = slot;
    m->mask_of[slot] = owner;
    m->next_mask = (slot + 1) % BQ_MAX_MASKS;
  }
  *mask = m->masks + (size_t)slot * m->v->words;
  return true;
}

/* Completes the mask of a string that takes `left` more characters: the kept mask covers near
 * tokens, the others are checked each time. */
static bool add_far(bq_matcher *m, uint32_t left, const uint32_t *near, uint32_t *mask) {
  for (uint32_t i = 0; i < m->v->words; i++) mask[i] = near[i];
  if (left > BQ_NEAR_BYTES) bq_vocabulary_plain(m->v, BQ_NEAR_BYTES, left, mask);
  return walk_all(m, m->here, BQ_TRIE_FAR, mask);
}

static bool make_mask(bq_matcher *m, void *ctx) {
  wanted_mask *wanted = ctx;
  uint32_t *own = m->masks + (size_t)BQ_MAX_MASKS * m->v->words;
  const plain_ways ways = plain_at(m, m->here);
  /* If more characters may follow than any token has, tokens of any length share a mask. */
  const bool counted = ways.left && !ways.others && ways.left <= m->v->longest && !m->now.head;
  const unsigned reach = counted ? BQ_REACH_NEAR : BQ_REACH_ALL;
  const uint32_t common = bq_dfa_canonical(m, m->here, reach);
  const uint32_t *kept;
  if (common == BQ_TABLE_FULL) return false;
  wanted->mask = own;
  /* In a list of unique items the mask depends on the items, so it is never kept. */
  if (m->now.head) return fill(m, common, reach, own);
  if (!keep_mask(m, common, reach, &kept)) return false;
  if (counted) return add_far(m, ways.left, kept, own);
  wanted->mask = kept;
  return true;
}

bq_status bq_matcher_mask(bq_matcher *m, const uint32_t **mask, bq_error *err) {
  wanted_mask wanted = {0};
  bq_status status = with_room(m, make_mask, &wanted, err);
  if (status == BQ_OK) *mask = wanted.mask;
  return status;
}

/* --- what is forced, and the shortest end --------------------------------------------------- */

typedef struct text {
  uint8_t *out;
  size_t capacity, n;
  bool fits;
} text;

static bool find_forced(bq_matcher *m, void *ctx) {
  text *t = ctx;
  uint32_t state = m->here;
  bq_unique list = m->now;
  int byte;
  for (t->n = 0; t->n < t->capacity && (byte = only_byte(m, state)) >= 0; t->n++) {
    const uint32_t next = advance(m, state, (uint8_t)byte, &list);
    if (next == BQ_TABLE_FULL) return false;
    if (next == BQ_DFA_DEAD) break;
    t->out[t->n] = (uint8_t)byte;
    state = next;
  }
  m->ahead = state;
  m->ahead_now = list;
  return true;
}

bq_status bq_matcher_forced(bq_matcher *m, uint8_t *out, size_t capacity, size_t *n,
                            bq_error *err) {
  text t = {out, capacity, 0, true};
  bq_status status = with_room(m, find_forced, &t, err);
  *n = t.n;
  return status;
}

static bool find_longer(bq_matcher *m, void *ctx) {
  span *s = ctx;
  s->state = 0;
  for (unsigned i = 0; i < BQ_TRIES && !s->state; i++) {
    const bq_trie *trie = &m->v->tries[i];
    uint32_t node = 0;
    size_t at = 0;
    for (; at < s->n; at++)
      if (!(node = bq_trie_child(trie, node, s->bytes[at]))) break;
    if (at < s->n) continue;
    m->path[at] = m->ahead;
    m->lists[at] = m->ahead_now;
    s->state = walk(m, trie, node, NULL);
  }
  return s->state != BQ_TABLE_FULL;
}

bq_status bq_matcher_extends(bq_matcher *m, const uint8_t *tail, size_t n, bool *extends,
                             bq_error *err) {
  span s = {.bytes = tail, .n = n};
  bq_status status = n < m->v->longest ? with_room(m, find_longer, &s, err) : BQ_OK;
  *extends = status == BQ_OK && s.state;
  return status;
}

uint32_t bq_matcher_least(const bq_matcher *m) {
  const bq_dfa_state *p = &m->dfa_states[m->here];
  uint32_t least = BQ_GRAMMAR_NONE;
  for (uint32_t i = 0; i < p->n; i++) {
    const uint32_t of = bq_min_bytes_to_end(m, m->nfa_states[p->first + i]);
    if (of < least) least = of;
  }
  const uint32_t more = m->g->lists ? m->g->slack + m->now.n : 0;
  return least < BQ_GRAMMAR_NONE - more ? least + more : BQ_GRAMMAR_NONE;
}

/* The byte after which the fewest bytes remain; -1: no byte is allowed. */
static int nearer_byte(const bq_matcher *m, const bq_dfa_state *p) {
  uint32_t least = BQ_GRAMMAR_NONE;
  int byte = -1;
  for (uint32_t i = 0; i < p->n; i++) {
    const bq_nfa_state t = m->nfa_states[p->first + i];
    for (uint32_t e = bq_edges_begin(m->g, t.state); e < m->g->states[t.state].edges; e++) {
      const bq_edge edge = m->g->edges[e];
      const uint32_t of = bq_min_bytes_after_edge(m, t, edge);
      if (of < least) byte = (int)bq_edge_low(edge);
      if (of < least) least = of;
    }
  }
  return byte;
}

/* The state after the byte that leads to the end soonest or, if that would repeat an item, after
 * one that extends it. BQ_DFA_DEAD, BQ_TABLE_FULL. */
static uint32_t go_nearer(bq_matcher *m, uint32_t state, bq_unique *u, uint8_t *out) {
  const int byte = nearer_byte(m, &m->dfa_states[state]);
  if (byte < 0) return BQ_DFA_DEAD;
  const bq_unique before = *u;
  *out = (uint8_t)byte;
  uint32_t next = advance(m, state, *out, u);
  for (uint8_t other = 'a'; next == BQ_DFA_DEAD && u->item && other <= 'z' + 10; other++) {
    *u = before;
    *out = other <= 'z' ? other : (uint8_t)(other - 'z' - 1 + '0');
    next = advance(m, state, *out, u);
  }
  return next;
}

static bool find_shortest(bq_matcher *m, void *ctx) {
  text *t = ctx;
  uint32_t state = m->here;
  bq_unique list = m->now;
  t->fits = true;
  for (t->n = 0; !m->dfa_states[state].complete; t->n++) {
    t->fits = t->n < t->capacity;
    if (!t->fits) return true;
    state = go_nearer(m, state, &list, t->out + t->n);
    if (state == BQ_TABLE_FULL) return false;
    t->fits = state != BQ_DFA_DEAD;
    if (!t->fits) return true;
  }
  return true;
}

bq_status bq_matcher_shortest(bq_matcher *m, uint8_t *out, size_t capacity, size_t *n,
                              bq_error *err) {
  text t = {out, capacity, 0, false};
  bq_status status = with_room(m, find_shortest, &t, err);
  *n = t.n;
  if (status == BQ_OK && !t.fits)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "the shortest end is longer than %l bytes",
                   (uint64_t)capacity);
  return status;
}
