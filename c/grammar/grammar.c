#include "grammar/grammar.h"

#include "core/cursor.h"

_Static_assert(sizeof(bq_rule) == 8 && sizeof(bq_state) == 16 && sizeof(bq_edge) == 8 &&
                   sizeof(bq_call) == 16,
               "read in place");

static bq_status fail_range(bq_error *err, const char *what, uint32_t index) {
  return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET, "the grammar's %s %u is out of range", what, index);
}

static bq_status check_rules(const bq_grammar *g, bq_error *err) {
  for (uint32_t i = 0; i < g->n_rules; i++)
    if (g->rules[i].start >= g->n_states || g->rules[i].flags > BQ_GRAMMAR_LENGTH)
      return fail_range(err, "rule", i);
  return g->root < g->n_rules ? BQ_OK : fail_range(err, "root", g->root);
}

static bq_status check_states(bq_grammar *g, bq_error *err) {
  uint32_t edges = 0, calls = 0;
  for (uint32_t i = 0; i < g->n_states; i++) {
    const bq_state *s = &g->states[i];
    const bool last = i + 1 == g->n_states;
    if (s->edges < edges || s->edges > g->n_edges || s->calls < calls || s->calls > g->n_calls ||
        (s->flags & 255) > (BQ_STATE_ACCEPTS | BQ_STATE_MARKS) || s->least > BQ_GRAMMAR_LIMIT ||
        (last && (s->edges != g->n_edges || s->calls != g->n_calls)))
      return fail_range(err, "state", i);
    edges = s->edges;
    calls = s->calls;
    g->lists |= (s->flags & BQ_STATE_MARKS) != 0;
    if (bq_lacks(s) > g->lacks) g->lacks = bq_lacks(s);
  }
  return BQ_OK;
}

static bq_status check_steps(const bq_grammar *g, bq_error *err) {
  for (uint32_t i = 0; i < g->n_edges; i++) {
    const bq_edge e = g->edges[i];
    if (e.target >= g->n_states || e.range >= 2 * BQ_EDGE_BEGINS ||
        bq_edge_low(e) > bq_edge_high(e))
      return fail_range(err, "edge", i);
  }
  for (uint32_t i = 0; i < g->n_calls; i++) {
    const bq_call *c = &g->calls[i];
    if (c->next >= g->n_states || c->min > c->max || !c->max ||
        (c->rule >= g->n_rules && c->rule != BQ_GRAMMAR_NONE))
      return fail_range(err, "call", i);
  }
  return BQ_OK;
}

/* Computes the byte classes: a class begins where the range of an edge begins, and after its
 * end. */
static void find_classes(bq_grammar *g) {
  bool begins[257] = {true};
  for (uint32_t i = 0; i < g->n_edges; i++)
    begins[bq_edge_low(g->edges[i])] = begins[bq_edge_high(g->edges[i]) + 1] = true;
  uint32_t class = 0;
  for (uint32_t byte = 0; byte < 256; byte++) {
    if (byte && begins[byte]) class++;
    g->class_of[byte] = (uint8_t)class;
  }
  g->n_classes = class + 1;
}

bq_status bq_grammar_read(const uint8_t *bytes, size_t n, bq_grammar *g, bq_error *err) {
  bq_cursor c = {.data = bytes, .size = n};
  const uint32_t magic = bq_cursor_u32(&c), version = bq_cursor_u32(&c);
  if (!c.bad && (magic != BQ_GRAMMAR_MAGIC || version != BQ_GRAMMAR_VERSION))
    return bq_fail(err, BQ_FORMAT, 0, "these bytes are no grammar of version %u",
                   BQ_GRAMMAR_VERSION);
  *g = (bq_grammar){.n_rules = bq_cursor_u32(&c), .n_states = 0};
  g->n_states = bq_cursor_u32(&c);
  g->n_edges = bq_cursor_u32(&c);
  g->n_calls = bq_cursor_u32(&c);
  g->root = bq_cursor_u32(&c);
  g->slack = bq_cursor_u32(&c);
  const uint32_t counts[] = {g->n_rules, g->n_states, g->n_edges, g->n_calls, g->slack};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    if (counts[i] > BQ_GRAMMAR_LIMIT) return fail_range(err, "size", counts[i]);
  g->rules = (const void *)bq_cursor_bytes(&c, (uint64_t)g->n_rules * sizeof(bq_rule));
  g->states = (const void *)bq_cursor_bytes(&c, (uint64_t)g->n_states * sizeof(bq_state));
  g->edges = (const void *)bq_cursor_bytes(&c, (uint64_t)g->n_edges * sizeof(bq_edge));
  g->calls = (const void *)bq_cursor_bytes(&c, (uint64_t)g->n_calls * sizeof(bq_call));
  if (c.bad || bq_cursor_left(&c))
    return bq_fail(err, BQ_TRUNCATED, n, "the grammar does not end where it says");
  bq_status status = check_rules(g, err);
  if (status == BQ_OK) status = check_states(g, err);
  if (status == BQ_OK) status = check_steps(g, err);
  if (status == BQ_OK) find_classes(g);
  return status;
}
