#include "session/batch.h"

#include <string.h>

#include "core/minmax.h"
#include "model/ready.h"
#include "session/evict.h"

uint32_t bq_tokens_pending(const bq_session *s) {
  if (s->sequence.n_texts) return s->outputs.ready ? 0 : s->sequence.texts[s->sequence.n_texts].row;
  return bq_sequence_pending(s);
}

uint32_t bq_rows_until_boundary(const bq_session *s) {
  const bool bounded = s->options.evict || s->recurrence.floats > 0;
  if (!bounded || s->sequence.n_texts) return UINT32_MAX;
  return BQ_KV_BLOCK - s->sequence.computed % BQ_KV_BLOCK;
}

/* Rows of the session's part in the next batch. */
static uint32_t part_rows(const bq_session *s) {
  return bq_min32(bq_min32(s->options.prefill_window, bq_tokens_pending(s)),
                  bq_rows_until_boundary(s));
}

uint32_t bq_batch_rows(const bq_session *s) {
  return s->part.owner == s ? s->batch.rows : part_rows(s);
}

uint32_t bq_micro_batch_rows(const bq_session *s) {
  return bq_min32(s->options.batch, s->batch.rows - s->batch.row);
}

/* --- members ---------------------------------------------------------------------------------- */

void bq_batch_drop(bq_session *s) {
  bq_session *owner = s->part.owner;
  if (!owner) return;
  for (uint32_t i = 0; i < owner->batch.n_members; i++)
    owner->batch.members[i].s->part.owner = NULL;
  owner->batch.n_members = owner->batch.rows = 0;
}

void bq_batch_split(bq_session *s) {
  if (s->part.owner && s->part.owner->batch.n_members > 1) bq_batch_drop(s);
}

static bq_row text_row(const bq_session *s, uint32_t row) {
  uint32_t i = s->sequence.n_texts;
  while (s->sequence.texts[--i].row > row) continue;
  const bq_text *text = &s->sequence.texts[i];
  return (bq_row){s->batch.members[0].s, text->first, row - text->row, text->second,
                  text[1].row - row};
}

bq_row bq_row_at(const bq_session *s, uint32_t row) {
  if (s->sequence.n_texts) return text_row(s, row);
  uint32_t i = s->batch.n_members;
  while (s->batch.members[--i].row > row) continue;
  bq_session *member = s->batch.members[i].s;
  const uint32_t at = row - s->batch.members[i].row;
  return (bq_row){member, 0, member->part.start + at, member->sequence.second,
                  member->part.length - at};
}

/* Adds a part of `len` tokens of `member` to the batch of `s`. */
static bq_status add_member(bq_session *s, bq_session *member, uint32_t len, bq_error *err) {
  const uint32_t start = member->sequence.computed;
  const uint32_t end = member->sequence.n_texts
                           ? member->sequence.texts[member->sequence.n_texts].first
                           : start + len;
  bq_assert(len > 0 && s->batch.rows + len <= s->options.prefill_window);
  bq_assert(end <= member->options.context);
  bq_batch_drop(member);
  bq_status status = bq_eviction_begin(member, start, len, err);
  if (!status) status = bq_cache_open(&member->kv, start, end, err);
  if (status) return status;
  bq_recurrence_open(&member->recurrence, &s->model->config, &member->skipped, start);
  member->part.owner = s;
  member->part.start = start;
  member->part.length = len;
  s->batch.members[s->batch.n_members++] = (bq_batch_member){member, s->batch.rows};
  s->batch.rows += len;
  return BQ_OK;
}

bq_status bq_batch_open(bq_session *s, bq_session *const *others, size_t n, bq_error *err) {
  if (s->model->ready < BQ_READY_EMBEDDING)
    return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "the embedding has not arrived yet");
  bq_batch_drop(s);
  s->batch.n_members = s->batch.rows = 0;
  s->batch.layer = bq_next_layer(s, 0);
  s->batch.row = s->batch.embedded = s->batch.gathered = s->batch.head_unit = s->batch.head_at =
      s->batch.phase = 0;
  s->batch.spread = BQ_SPREAD_NONE;
  bq_status status = add_member(s, s, part_rows(s), err);
  for (size_t i = 0; i < n && !status; i++)
    if (bq_tokens_pending(others[i]))
      status = add_member(s, others[i], bq_tokens_pending(others[i]), err);
  if (status) bq_batch_drop(s);
  return status;
}

bool bq_batch_matches(const bq_session *s, bq_session *const *others, size_t n) {
  if (s->part.owner != s) return false;
  uint32_t members = 1;
  for (size_t i = 0; i < n; i++) {
    if (!bq_tokens_pending(others[i])) continue;
    if (members == s->batch.n_members || s->batch.members[members].s != others[i]) return false;
    members++;
  }
  return members == s->batch.n_members;
}

void bq_batch_close(bq_session *s) {
  for (uint32_t i = 0; i < s->batch.n_members; i++) {
    bq_session *member = s->batch.members[i].s;
    bq_eviction_end(member);
    if (!member->sequence.n_texts) {
      member->sequence.computed = member->part.start + member->part.length;
      bq_recurrence_close(&member->recurrence, member->sequence.computed);
    }
    member->outputs.ready =
        member->sequence.computed == member->sequence.n_tokens + member->sequence.n_draft;
  }
  bq_batch_drop(s);
}

/* --- outputs ---------------------------------------------------------------------------------- */

/* First position of a member's part that has an output. */
static uint32_t first_output(const bq_session *s) {
  return s->outputs.from > s->part.start ? s->outputs.from : s->part.start;
}

static uint32_t part_end(const bq_session *s) {
  return s->part.start + s->part.length;
}

bool bq_batch_has_outputs(const bq_session *s) {
  if (s->part.owner != s) return s->sequence.computed + part_rows(s) > s->outputs.from;
  /* The parts of other members always reach the end of their sequence. */
  return s->batch.n_members > 1 || part_end(s) > s->outputs.from;
}

/* The outputs of all members are stored one after the other in the first member's buffer. */
bq_output_range bq_output_rows(const bq_session *s) {
  const uint32_t first = s->batch.gathered ? 0 : first_output(s) - s->part.start;
  const uint32_t end = s->batch.gathered ? s->batch.gathered : s->part.length;
  const uint32_t at = first + s->batch.head_at;
  const uint32_t max_rows = bq_head_is_clustered(s) ? 1 : s->options.batch;
  return (bq_output_range){at, bq_min32(max_rows, end - at),
                           bq_output_at(s, first_output(s) + s->batch.head_at)};
}

void bq_batch_gather(bq_session *s) {
  const size_t hidden = s->model->config.hidden;
  if (s->batch.n_members == 1 || s->batch.gathered) return;
  for (uint32_t i = 0; i < s->batch.n_members; i++) {
    const bq_session *member = s->batch.members[i].s;
    const uint32_t first = first_output(member), n = part_end(member) - first;
    const uint32_t row = s->batch.members[i].row + first - member->part.start;
    memmove(s->batch.x + s->batch.gathered * hidden, s->batch.x + row * hidden,
            n * hidden * sizeof *s->batch.x);
    s->batch.gathered += n;
  }
}

void bq_batch_scatter(const bq_session *s) {
  const float *from = bq_output_at(s, first_output(s));
  for (uint32_t i = 0; i < s->batch.n_members; i++) {
    const bq_session *member = s->batch.members[i].s;
    const uint32_t first = first_output(member);
    const size_t n = (size_t)(part_end(member) - first) * s->outputs.cols;
    bq_assert(first < part_end(member) &&
              part_end(member) - member->outputs.from <= member->options.rows);
    if (i > 0) memcpy(bq_output_at(member, first), from, n * sizeof *from);
    from += n;
  }
}
