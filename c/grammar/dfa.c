#include "grammar/dfa.h"

static uint32_t mix(uint32_t h, uint32_t value) {
  h = (h ^ value) * 0x9e3779b1u;
  return h ^ h >> 15;
}

static uint32_t saturate(uint64_t a) { return a < BQ_GRAMMAR_NONE ? (uint32_t)a : BQ_GRAMMAR_NONE; }

static bool has_edges(const bq_grammar *g, uint32_t state) {
  return g->states[state].edges > bq_edges_begin(g, state);
}

static bool accepts(const bq_grammar *g, uint32_t state) {
  return g->states[state].flags & BQ_STATE_ACCEPTS;
}

static bool is_limited(const bq_grammar *g, const bq_call *c) {
  return g->rules[c->rule].flags & BQ_GRAMMAR_LENGTH;
}

/* The call of a length-limited rule that a frame belongs to, or NULL. */
static const bq_call *limited_call(const bq_matcher *m, uint32_t frame) {
  const bq_call *c = &m->g->calls[m->frames[frame].call];
  return frame != BQ_BOTTOM_FRAME && is_limited(m->g, c) ? c : NULL;
}

/* Minimum bytes from a state, in a frame with this count, to the end of the text. */
static uint32_t least_from(const bq_matcher *m, uint32_t state, uint32_t frame, uint32_t count) {
  const bq_call *c = limited_call(m, frame);
  const uint64_t characters = (uint64_t)count + bq_lacks(&m->g->states[state]);
  const uint64_t more = c && c->min > characters ? c->min - characters : 0;
  return saturate(m->g->states[state].least + more + m->frames[frame].least);
}

uint32_t bq_min_bytes_to_end(const bq_matcher *m, bq_nfa_state t) {
  return least_from(m, t.state, t.frame, m->frames[t.frame].count);
}

/* The count of an NFA state's frame after an edge. In a length-limited rule the count is the number
 * of characters. */
static uint32_t count_after_edge(const bq_matcher *m, bq_nfa_state t, bq_edge e) {
  return m->frames[t.frame].count + (limited_call(m, t.frame) && e.range & BQ_EDGE_BEGINS ? 1 : 0);
}

bool bq_edge_is_open(const bq_matcher *m, bq_nfa_state t, bq_edge e) {
  const bq_call *c = limited_call(m, t.frame);
  const uint32_t lacks = bq_lacks(&m->g->states[e.target]);
  return !c || (lacks <= c->max && count_after_edge(m, t, e) <= c->max - lacks);
}

uint32_t bq_min_bytes_after_edge(const bq_matcher *m, bq_nfa_state t, bq_edge e) {
  return bq_edge_is_open(m, t, e) ? least_from(m, e.target, t.frame, count_after_edge(m, t, e))
                                : BQ_GRAMMAR_NONE;
}

/* --- frames --------------------------------------------------------------------------------- */

static uint32_t *frame_slot(const bq_matcher *m, uint32_t below, uint32_t call, uint32_t count) {
  uint32_t at = mix(mix(mix(7, below), call), count);
  for (;; at++) {
    uint32_t *slot = &m->frame_slots[at & (2 * BQ_MAX_FRAMES - 1)];
    const bq_frame *f = &m->frames[*slot];
    if (!*slot || (f->below == below && f->call == call && f->count == count)) return slot;
  }
}

/* Returns the frame of a call after `count` repetitions; BQ_TABLE_FULL. */
static uint32_t frame_of(bq_matcher *m, uint32_t below, uint32_t call, uint32_t count) {
  uint32_t *slot = frame_slot(m, below, call, count);
  if (*slot) return *slot;
  if (m->n_frames == BQ_MAX_FRAMES) return BQ_TABLE_FULL;
  const bq_call *c = &m->g->calls[call];
  const uint64_t more = c->min > count + 1 && !is_limited(m->g, c) ? c->min - count - 1 : 0;
  const uint64_t rule = m->g->states[m->g->rules[c->rule].start].least;
  m->frames[m->n_frames] = (bq_frame){
      below, call, count, {BQ_GRAMMAR_NONE, BQ_GRAMMAR_NONE},
      saturate(more * rule + m->g->states[c->next].least + m->frames[below].least)};
  return *slot = m->n_frames++;
}

/* The smallest count that no token of `bytes` bytes can distinguish from this one. */
static uint32_t common_count(const bq_grammar *g, const bq_call *c, uint32_t count,
                             uint32_t bytes) {
  /* The characters that remain to be written after a token may also exceed the limit. */
  if (is_limited(g, c)) bytes += g->lacks;
  if (c->max != BQ_GRAMMAR_NONE && c->max - count <= bytes) return count;
  if (count >= c->min) return c->min;
  return c->min - count > bytes ? 0 : count;
}

static uint32_t common_frame(bq_matcher *m, uint32_t frame, unsigned reach) {
  const uint32_t bytes =
      reach == BQ_REACH_NEAR && BQ_NEAR_BYTES < m->v->longest ? BQ_NEAR_BYTES : m->v->longest;
  /* Walks down to a frame whose common frame is known, then up again. The path back is stored in
   * `common`, where the results are stored on the way up. */
  uint32_t up = BQ_GRAMMAR_NONE, at = frame;
  while (at != BQ_BOTTOM_FRAME && (m->frames[at].common[reach] == BQ_GRAMMAR_NONE)) {
    m->frames[at].common[reach] = up;
    up = at;
    at = m->frames[at].below;
  }
  uint32_t below = at == BQ_BOTTOM_FRAME ? BQ_BOTTOM_FRAME : m->frames[at].common[reach];
  while (up != BQ_GRAMMAR_NONE) {
    const uint32_t next = m->frames[up].common[reach], call = m->frames[up].call;
    const uint32_t count = common_count(m->g, &m->g->calls[call], m->frames[up].count, bytes);
    if (below != BQ_TABLE_FULL) below = frame_of(m, below, call, count);
    m->frames[up].common[reach] = below == BQ_TABLE_FULL ? BQ_GRAMMAR_NONE : below;
    up = next;
  }
  return below;
}

/* --- the closure of a step ------------------------------------------------------------------ */

static void visit(bq_matcher *m, uint32_t state, uint32_t frame) {
  if (frame == BQ_TABLE_FULL || m->n_work == BQ_MAX_WORK) {
    m->overflow = true;
    return;
  }
  for (uint32_t at = mix(mix(3, state), frame);; at++) {
    uint32_t *slot = &m->visited[at & (2 * BQ_MAX_WORK - 1)];
    if (*slot <= m->step) { /* of an earlier step */
      m->work[m->n_work] = (bq_nfa_state){state, frame};
      *slot = m->step + ++m->n_work;
      return;
    }
    const bq_nfa_state t = m->work[*slot - m->step - 1];
    if (t.state == state && t.frame == frame) return;
  }
}

/* Enters a call's rule after `count` repetitions. A call at the end of a rule needs no frame of its
 * own; otherwise the frames of lists that call themselves at their end would grow without limit. */
static void enter(bq_matcher *m, uint32_t call, uint32_t below, uint32_t count) {
  const bq_call *c = &m->g->calls[call];
  const uint32_t next = c->next;
  const bool last = c->max == 1 && c->min == 1 && !is_limited(m->g, c) && accepts(m->g, next) &&
                    !has_edges(m->g, next) &&
                    m->g->states[next].calls == bq_calls_begin(m->g, next);
  visit(m, m->g->rules[c->rule].start, last ? below : frame_of(m, below, call, count));
}

/* Leaves a rule that was called. */
static void leave(bq_matcher *m, uint32_t frame) {
  const bq_frame f = m->frames[frame];
  const bq_call *c = &m->g->calls[f.call];
  if (is_limited(m->g, c)) {
    if (f.count >= c->min) visit(m, c->next, f.below);
    return;
  }
  uint32_t count = f.count + 1;
  if (c->max == BQ_GRAMMAR_NONE && count > c->min) count = c->min;
  if (count >= c->min) visit(m, c->next, f.below);
  if (count < c->max) enter(m, f.call, f.below, count);
}

static void begin_step(bq_matcher *m) {
  m->step += 2 * BQ_MAX_WORK;
  for (uint32_t i = 0; !m->step && i < 2 * BQ_MAX_WORK; i++) m->visited[i] = 0;
  m->n_work = m->n_kept = 0;
  m->overflow = false;
}

static void follow(bq_matcher *m, bq_nfa_state t, bq_edge e) {
  if (!bq_edge_is_open(m, t, e)) return;
  const bq_frame f = m->frames[t.frame];
  const uint32_t count = count_after_edge(m, t, e);
  visit(m, e.target, count == f.count ? t.frame : frame_of(m, f.below, f.call, count));
}

/* Computes the epsilon closure: all states that can be reached without a byte. */
static void close_step(bq_matcher *m) {
  for (uint32_t i = 0; i < m->n_work && !m->overflow; i++) {
    const bq_nfa_state t = m->work[i];
    const bool ends = accepts(m->g, t.state);
    if (has_edges(m->g, t.state) || (ends && t.frame == BQ_BOTTOM_FRAME)) m->kept[m->n_kept++] = t;
    if (ends && t.frame != BQ_BOTTOM_FRAME) leave(m, t.frame);
    for (uint32_t k = bq_calls_begin(m->g, t.state); k < m->g->states[t.state].calls; k++) {
      const bq_call *c = &m->g->calls[k];
      if (c->rule == BQ_GRAMMAR_NONE || (!c->min && !is_limited(m->g, c)))
        visit(m, c->next, t.frame);
      if (c->rule != BQ_GRAMMAR_NONE) enter(m, k, t.frame, 0);
    }
  }
}

/* --- DFA states ----------------------------------------------------------------------------- */

static bool precedes(bq_nfa_state a, bq_nfa_state b) {
  return a.state < b.state || (a.state == b.state && a.frame < b.frame);
}

/* Insertion sort: the states are few and nearly in order. */
static void sort_kept(bq_matcher *m) {
  for (uint32_t i = 1; i < m->n_kept; i++) {
    const bq_nfa_state t = m->kept[i];
    uint32_t j = i;
    for (; j && precedes(t, m->kept[j - 1]); j--) m->kept[j] = m->kept[j - 1];
    m->kept[j] = t;
  }
}

static bool has_nfa_states(const bq_matcher *m, const bq_dfa_state *p, uint32_t hash) {
  if (p->hash != hash || p->n != m->n_kept) return false;
  const bq_nfa_state *t = m->nfa_states + p->first;
  for (uint32_t i = 0; i < p->n; i++)
    if (t[i].state != m->kept[i].state || t[i].frame != m->kept[i].frame) return false;
  return true;
}

static uint32_t hash_kept(const bq_matcher *m) {
  uint32_t hash = 1;
  for (uint32_t i = 0; i < m->n_kept; i++)
    hash = mix(mix(hash, m->kept[i].state), m->kept[i].frame);
  return hash;
}

/* Returns the DFA state that consists of m->kept, or BQ_TABLE_FULL. */
static uint32_t state_of_kept(bq_matcher *m) {
  if (m->overflow) return BQ_TABLE_FULL;
  if (!m->n_kept) return BQ_DFA_DEAD;
  sort_kept(m);
  const uint32_t hash = hash_kept(m);
  uint32_t *slot;
  for (uint32_t at = hash;; at++) {
    slot = &m->dfa_slots[at & (2 * BQ_MAX_DFA_STATES - 1)];
    if (!*slot) break;
    if (has_nfa_states(m, &m->dfa_states[*slot], hash)) return *slot;
  }
  if (m->n_dfa_states == m->max_dfa_states || m->n_kept > BQ_MAX_NFA_STATES - m->n_nfa_states)
    return BQ_TABLE_FULL;
  bq_dfa_state p = {.first = m->n_nfa_states, .n = m->n_kept, .hash = hash};
  for (unsigned reach = 0; reach < BQ_REACHES; reach++)
    p.common[reach] = p.mask[reach] = BQ_GRAMMAR_NONE;
  for (uint32_t i = 0; i < p.n; i++) {
    m->nfa_states[m->n_nfa_states++] = m->kept[i];
    p.marks |= (uint8_t)(m->g->states[m->kept[i].state].flags & BQ_STATE_MARKS);
    p.complete |= m->kept[i].frame == BQ_BOTTOM_FRAME && accepts(m->g, m->kept[i].state);
  }
  uint16_t *steps = m->steps + (size_t)m->n_dfa_states * m->g->n_classes;
  for (uint32_t i = 0; i < m->g->n_classes; i++) steps[i] = BQ_TRANSITION_UNKNOWN;
  m->dfa_states[m->n_dfa_states] = p;
  return *slot = m->n_dfa_states++;
}

uint32_t bq_dfa_step(bq_matcher *m, uint32_t state, uint8_t byte) {
  uint16_t *step = bq_dfa_transition(m, state, byte);
  if (*step != BQ_TRANSITION_UNKNOWN) return *step;
  const bq_dfa_state *p = &m->dfa_states[state];
  begin_step(m);
  for (uint32_t i = 0; i < p->n; i++) {
    const bq_nfa_state t = m->nfa_states[p->first + i];
    for (uint32_t e = bq_edges_begin(m->g, t.state); e < m->g->states[t.state].edges; e++)
      if (byte >= bq_edge_low(m->g->edges[e]) && byte <= bq_edge_high(m->g->edges[e]))
        follow(m, t, m->g->edges[e]);
  }
  close_step(m);
  const uint32_t next = state_of_kept(m);
  if (next != BQ_TABLE_FULL) *step = (uint16_t)next;
  return next;
}

uint32_t bq_dfa_canonical(bq_matcher *m, uint32_t state, unsigned reach) {
  bq_dfa_state *p = &m->dfa_states[state];
  if (p->common[reach] != BQ_GRAMMAR_NONE) return p->common[reach];
  begin_step(m);
  for (uint32_t i = 0; i < p->n; i++) {
    const bq_nfa_state t = m->nfa_states[p->first + i];
    visit(m, t.state, common_frame(m, t.frame, reach));
  }
  for (uint32_t i = 0; i < m->n_work; i++) m->kept[m->n_kept++] = m->work[i];
  const uint32_t common = state_of_kept(m);
  if (common != BQ_TABLE_FULL) p->common[reach] = common;
  return common;
}

/* --- beginning and compaction --------------------------------------------------------------- */

static void empty_slots(bq_matcher *m) {
  for (uint32_t i = 0; i < 2 * BQ_MAX_FRAMES; i++) m->frame_slots[i] = 0;
  for (uint32_t i = 0; i < 2 * BQ_MAX_DFA_STATES; i++) m->dfa_slots[i] = 0;
  for (uint32_t i = 0; i < 2 * BQ_MAX_WORK; i++) m->visited[i] = 0;
  for (uint32_t i = 0; i < BQ_MAX_MASKS; i++) m->mask_of[i] = BQ_GRAMMAR_NONE;
}

/* Moves the frames that are marked in `keep` to the front, in order. Afterwards `keep` maps old
 * frames to new ones. */
static void keep_frames(bq_matcher *m, uint32_t *keep) {
  uint32_t n = 1;
  for (uint32_t i = 1; i < m->n_frames; i++) {
    if (!keep[i]) continue;
    bq_frame f = m->frames[i];
    f.below = keep[f.below];
    for (unsigned reach = 0; reach < BQ_REACHES; reach++) f.common[reach] = BQ_GRAMMAR_NONE;
    keep[i] = n;
    m->frames[n++] = f;
  }
  m->n_frames = n;
}

static void mark_frames(const bq_matcher *m, uint32_t state, uint32_t *keep) {
  const bq_dfa_state *p = &m->dfa_states[state];
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t f = m->nfa_states[p->first + i].frame; f != BQ_BOTTOM_FRAME && !keep[f];
         f = m->frames[f].below)
      keep[f] = 1;
}

/* Creates a DFA state again from its old NFA states, which are after all new ones in the table.
 * BQ_TABLE_FULL. */
static uint32_t rebuild_state(bq_matcher *m, bq_dfa_state old, const uint32_t *frames) {
  begin_step(m);
  for (uint32_t i = 0; i < old.n; i++) {
    const bq_nfa_state t = m->nfa_states[old.first + i];
    m->kept[m->n_kept++] = (bq_nfa_state){t.state, frames[t.frame]};
  }
  return state_of_kept(m);
}

bool bq_dfa_compact(bq_matcher *m) {
  uint32_t *kept[] = {&m->start, &m->current, &m->marked, &m->ahead};
  enum { KEPT = sizeof kept / sizeof *kept };
  bq_dfa_state old[KEPT];
  bool rebuilt[KEPT] = {false};
  /* This memory is free until the slots of frames are filled again. */
  uint32_t *frames = m->frame_slots + BQ_MAX_FRAMES;
  for (uint32_t i = 0; i < BQ_MAX_FRAMES; i++) frames[i] = 0;
  for (uint32_t i = 0; i < KEPT; i++) {
    old[i] = m->dfa_states[*kept[i]];
    mark_frames(m, *kept[i], frames);
  }
  keep_frames(m, frames);
  m->n_nfa_states = 0;
  m->n_dfa_states = 1;
  for (uint32_t i = 0; i < 2 * BQ_MAX_DFA_STATES; i++) m->dfa_slots[i] = 0;
  /* States are rebuilt in the order of their NFA states, so that none is overwritten before it is
   * read. */
  for (uint32_t n = 0; n < KEPT; n++) {
    uint32_t next = KEPT;
    for (uint32_t i = 0; i < KEPT; i++)
      if (!rebuilt[i] && (next == KEPT || old[i].first < old[next].first)) next = i;
    rebuilt[next] = true;
    *kept[next] = rebuild_state(m, old[next], frames);
  }
  for (uint32_t i = 0; i < 2 * BQ_MAX_FRAMES; i++) m->frame_slots[i] = 0;
  for (uint32_t i = 1; i < m->n_frames; i++)
    *frame_slot(m, m->frames[i].below, m->frames[i].call, m->frames[i].count) = i;
  for (uint32_t i = 0; i < BQ_MAX_MASKS; i++) m->mask_of[i] = BQ_GRAMMAR_NONE;
  return m->n_frames < BQ_MAX_FRAMES / 2 && m->n_nfa_states < BQ_MAX_NFA_STATES / 2;
}

bool bq_dfa_begin(bq_matcher *m) {
  empty_slots(m);
  m->frames[BQ_BOTTOM_FRAME] = (bq_frame){.common = {BQ_BOTTOM_FRAME}};
  m->dfa_states[BQ_DFA_DEAD] = (bq_dfa_state){.mask = {BQ_GRAMMAR_NONE, BQ_GRAMMAR_NONE}};
  for (uint32_t i = 0; i < m->g->n_classes; i++) m->steps[i] = BQ_DFA_DEAD;
  m->n_frames = m->n_dfa_states = 1;
  m->n_nfa_states = 0;
  begin_step(m);
  visit(m, m->g->states ? m->g->rules[m->g->root].start : 0, BQ_BOTTOM_FRAME);
  close_step(m);
  const uint32_t start = state_of_kept(m);
  m->start = m->current = m->marked = m->ahead = start == BQ_TABLE_FULL ? BQ_DFA_DEAD : start;
  return start != BQ_TABLE_FULL;
}
