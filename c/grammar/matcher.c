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
  fresh.visited = bq_arena_take(arena, 2 * BQ_MAX_WORK, sizeof *fresh.visited);
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
  m->current = m->marked = m->ahead = m->start;
  m->now = m->marked_now = m->ahead_now = (bq_unique){0};
  return m->start == BQ_DFA_DEAD ? overflow(err) : BQ_OK;
}

bool bq_matcher_complete(const bq_matcher *m) { return m->dfa_states[m->current].complete; }

static bool state_continues(const bq_matcher *m, uint32_t state) {
  const bq_dfa_state *p = &m->dfa_states[state];
  for (uint32_t i = 0; i < p->n; i++) {
    const bq_nfa_state t = m->nfa_states[p->first + i];
    for (uint32_t e = bq_edges_begin(m->g, t.state); e < m->g->states[t.state].edges; e++)
      if (bq_edge_is_open(m, t, m->g->edges[e])) return true;
  }
  return false;
}

bool bq_matcher_continues(const bq_matcher *m) { return state_continues(m, m->current); }

/* Runs `action` from m->current on; runs it again with compacted tables if a table was full. */
typedef bool attempt(bq_matcher *m, void *ctx);
static bq_status run_with_compaction(bq_matcher *m, attempt *action, void *ctx, bq_error *err) {
  if (action(m, ctx)) return BQ_OK;
  if (bq_dfa_compact(m) && action(m, ctx)) return BQ_OK;
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

/* bq_dfa_step with unique lists: also returns BQ_DFA_DEAD if an item repeats another one, or can
 * only become a repetition. */
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

static bool follow_bytes(bq_matcher *m, void *ctx) {
  span *s = ctx;
  s->state = m->current;
  s->list = m->now;
  for (size_t i = 0; i < s->n && s->state != BQ_TABLE_FULL && s->state != BQ_DFA_DEAD; i++)
    s->state = advance(m, s->state, s->bytes[i], &s->list);
  return s->state != BQ_TABLE_FULL;
}

bq_status bq_matcher_accept(bq_matcher *m, uint32_t id, bq_error *err) {
  span s = {0};
  s.bytes = bq_token_bytes(m->v->tokenizer, id, &s.n);
  bq_status status = s.n ? run_with_compaction(m, follow_bytes, &s, err) : BQ_OK;
  if (status != BQ_OK) return status;
  if (!s.n || s.state == BQ_DFA_DEAD)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "token %u may not come next", id);
  m->current = s.state;
  m->now = s.list;
  bq_unique_compact(&m->now, m->items);
  return BQ_OK;
}

void bq_matcher_mark(bq_matcher *m) {
  m->marked = m->current;
  m->marked_now = m->now;
  for (uint32_t i = 0; i < m->now.n; i++) m->marked_items[i] = m->items[i];
}

void bq_matcher_return(bq_matcher *m) {
  m->current = m->marked;
  m->now = m->marked_now;
  for (uint32_t i = 0; i < m->now.n; i++) m->items[i] = m->marked_items[i];
}

/* --- masks ---------------------------------------------------------------------------------- */

/* Adds to `mask` the tokens in the subtree of `root`, except `root` itself, that are allowed after
 * the DFA state path[depth of root] and the lists lists[depth of root]. Without a mask, returns
 * whether there is such a token. BQ_TABLE_FULL. */
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

/* Number of plain characters that an NFA state accepts by repeating its rule; 0: it isn't such a
 * rule. */
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

/* Plain characters that a state accepts: `left` by repetition at most; `others`: whether it also
 * accepts some by other edges. */
typedef struct plain_options {
  uint32_t left;
  bool others;
} plain_options;

static plain_options plain_at(const bq_matcher *m, uint32_t state) {
  const bq_dfa_state *p = &m->dfa_states[state];
  plain_options options = {0};
  for (uint32_t i = 0; i < p->n; i++) {
    const bq_nfa_state t = m->nfa_states[p->first + i];
    const uint32_t n = plain_left(m, t);
    if (n > options.left) options.left = n;
    if (!n) options.others |= takes_plain(m, t);
  }
  return options;
}

static bool walk_all(bq_matcher *m, uint32_t state, unsigned trie, uint32_t *mask) {
  m->path[0] = state;
  m->lists[0] = m->now;
  return walk(m, &m->v->tries[trie], 0, mask) != BQ_TABLE_FULL;
}

/* Computes the mask of a state within `reach`. */
static bool compute_mask(bq_matcher *m, uint32_t state, unsigned reach, uint32_t *mask) {
  plain_options options = plain_at(m, state);
  const bool far = reach != BQ_REACH_NEAR;
  if (!far && options.left > BQ_NEAR_BYTES) options.left = BQ_NEAR_BYTES;
  /* A plain character doesn't end an item, but near its maximum length an item may only have
   * continuations that repeat another item. */
  if (m->now.head && options.left < BQ_PLAIN_LENGTHS) options.left = 0;
  for (uint32_t i = 0; i < m->v->words; i++) mask[i] = 0;
  if (options.left) bq_vocabulary_plain(m->v, 0, options.left, mask);
  const bool plain = !options.left || (options.others && options.left < BQ_PLAIN_LENGTHS);
  return walk_all(m, state, BQ_TRIE_REST, mask) &&
         (!far || walk_all(m, state, BQ_TRIE_FAR, mask)) &&
         (!plain || walk_all(m, state, BQ_TRIE_PLAIN, mask));
}

/* Returns the mask of a state within `reach` from the cache, or computes it. */
static bool cached_mask(bq_matcher *m, uint32_t state, unsigned reach, const uint32_t **mask) {
  const uint32_t owner = BQ_REACHES * state + reach;
  uint32_t slot = m->dfa_states[state].mask[reach];
  if (slot == BQ_GRAMMAR_NONE || m->mask_of[slot] != owner) {
    slot = m->next_mask;
    m->mask_of[slot] = BQ_GRAMMAR_NONE;
    if (!compute_mask(m, state, reach, m->masks + (size_t)slot * m->v->words)) return false;
    m->dfa_states[state].mask[reach] = slot;
    m->mask_of[slot] = owner;
    m->next_mask = (slot + 1) % BQ_MAX_MASKS;
  }
  *mask = m->masks + (size_t)slot * m->v->words;
  return true;
}

/* Completes the mask of a string that accepts `left` more characters: the cached mask `near` covers
 * near tokens, the others are checked each time. */
static bool add_far(bq_matcher *m, uint32_t left, const uint32_t *near, uint32_t *mask) {
  for (uint32_t i = 0; i < m->v->words; i++) mask[i] = near[i];
  if (left > BQ_NEAR_BYTES) bq_vocabulary_plain(m->v, BQ_NEAR_BYTES, left, mask);
  return walk_all(m, m->current, BQ_TRIE_FAR, mask);
}

static bool make_mask(bq_matcher *m, void *ctx) {
  wanted_mask *wanted = ctx;
  uint32_t *uncached = m->masks + (size_t)BQ_MAX_MASKS * m->v->words;
  const plain_options options = plain_at(m, m->current);
  /* If more characters may follow than any token has, tokens of all lengths share a mask. */
  const bool counted =
      options.left && !options.others && options.left <= m->v->longest && !m->now.head;
  const unsigned reach = counted ? BQ_REACH_NEAR : BQ_REACH_ALL;
  const uint32_t common = bq_dfa_canonical(m, m->current, reach);
  const uint32_t *cached;
  if (common == BQ_TABLE_FULL) return false;
  wanted->mask = uncached;
  /* In a list of unique items the mask depends on the items, so it is never cached. */
  if (m->now.head) return compute_mask(m, common, reach, uncached);
  if (!cached_mask(m, common, reach, &cached)) return false;
  if (counted) return add_far(m, options.left, cached, uncached);
  wanted->mask = cached;
  return true;
}

bq_status bq_matcher_mask(bq_matcher *m, const uint32_t **mask, bq_error *err) {
  wanted_mask wanted = {0};
  bq_status status = run_with_compaction(m, make_mask, &wanted, err);
  if (status == BQ_OK) *mask = wanted.mask;
  return status;
}

/* --- forced bytes, and the shortest end ----------------------------------------------------- */

typedef struct text {
  uint8_t *out;
  size_t capacity, n;
  bool fits;
} text;

static bool find_forced(bq_matcher *m, void *ctx) {
  text *t = ctx;
  uint32_t state = m->current;
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
  bq_status status = run_with_compaction(m, find_forced, &t, err);
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
  bq_status status = n < m->v->longest ? run_with_compaction(m, find_longer, &s, err) : BQ_OK;
  *extends = status == BQ_OK && s.state;
  return status;
}

uint32_t bq_matcher_least(const bq_matcher *m) {
  const bq_dfa_state *p = &m->dfa_states[m->current];
  uint32_t min_bytes = BQ_GRAMMAR_NONE;
  for (uint32_t i = 0; i < p->n; i++) {
    const uint32_t bytes = bq_min_bytes_to_end(m, m->nfa_states[p->first + i]);
    if (bytes < min_bytes) min_bytes = bytes;
  }
  const uint32_t more = m->g->lists ? m->g->slack + m->now.n : 0;
  return min_bytes < BQ_GRAMMAR_NONE - more ? min_bytes + more : BQ_GRAMMAR_NONE;
}

/* The byte after which the text has the shortest end; -1: no byte is allowed. */
static int shortest_byte(const bq_matcher *m, const bq_dfa_state *p) {
  uint32_t min_bytes = BQ_GRAMMAR_NONE;
  int byte = -1;
  for (uint32_t i = 0; i < p->n; i++) {
    const bq_nfa_state t = m->nfa_states[p->first + i];
    for (uint32_t e = bq_edges_begin(m->g, t.state); e < m->g->states[t.state].edges; e++) {
      const bq_edge edge = m->g->edges[e];
      const uint32_t bytes = bq_min_bytes_after_edge(m, t, edge);
      if (bytes < min_bytes) byte = (int)bq_edge_low(edge);
      if (bytes < min_bytes) min_bytes = bytes;
    }
  }
  return byte;
}

/* Returns the state after the byte with the shortest end or, if that byte would complete a repeated
 * item, after a byte that extends the item. BQ_DFA_DEAD, BQ_TABLE_FULL. */
static uint32_t step_to_end(bq_matcher *m, uint32_t state, bq_unique *u, uint8_t *out) {
  const int byte = shortest_byte(m, &m->dfa_states[state]);
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
  uint32_t state = m->current;
  bq_unique list = m->now;
  t->fits = true;
  for (t->n = 0; !m->dfa_states[state].complete; t->n++) {
    t->fits = t->n < t->capacity;
    if (!t->fits) return true;
    state = step_to_end(m, state, &list, t->out + t->n);
    if (state == BQ_TABLE_FULL) return false;
    t->fits = state != BQ_DFA_DEAD;
    if (!t->fits) return true;
  }
  return true;
}

bq_status bq_matcher_shortest(bq_matcher *m, uint8_t *out, size_t capacity, size_t *n,
                              bq_error *err) {
  text t = {out, capacity, 0, false};
  bq_status status = run_with_compaction(m, find_shortest, &t, err);
  *n = t.n;
  if (status == BQ_OK && !t.fits)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "the shortest end is longer than %l bytes",
                   (uint64_t)capacity);
  return status;
}
