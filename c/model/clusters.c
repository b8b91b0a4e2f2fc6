/* Builds clusters of the head's rows by recursive bisection: rows are split in halves along the
 * axis on which a sample of them differs most. The order of every sum is fixed, and equal rows are
 * ordered by token, so clusters are the same on every machine. */
#include "model/clusters.h"

#include "bq.h"

#include <string.h>

#include "core/fmath.h"
#include "core/half.h"
#include "core/minmax.h"
#include "core/tile.h"
#include "model/model.h"
#include "model/ready.h"

enum { MAX_SAMPLE_ROWS = 512, ITERATIONS = 3 };

/* Build-time scratch. */
typedef struct work {
  const bq_model *m;
  bq_candidate *list; /* [vocab] */
  float *sample;      /* [sample_rows][hidden], in the memory of clusters.rows, which is filled last
                         */
  uint32_t sample_rows;
  float *axis, *row, *sum; /* [hidden] */
} work;

static bq_clusters *lay_out(bq_arena *arena, const bq_config *c, bq_type head, work *w) {
  bq_clusters clusters = {.n = bq_clusters_of(c)};
  bq_clusters *placed = bq_arena_take(arena, 1, sizeof *placed);
  const uint64_t rows = bq_type_bytes(head, bq_type_compute_layout(head), c->vocab, c->hidden);
  clusters.means.data = bq_arena_take(arena, (uint64_t)clusters.n * c->hidden, sizeof(uint16_t));
  clusters.rows.data = bq_arena_take(arena, rows, 1);
  clusters.deviation = bq_arena_take(arena, clusters.n, sizeof *clusters.deviation);
  clusters.token = bq_arena_take(arena, c->vocab, sizeof *clusters.token);
  w->list = bq_arena_take(arena, c->vocab, sizeof *w->list);
  w->sample = (float *)(uintptr_t)clusters.rows.data;
  w->sample_rows = (uint32_t)bq_min64(MAX_SAMPLE_ROWS, rows / sizeof(float) / c->hidden);
  w->axis = bq_arena_take(arena, c->hidden, sizeof(float));
  w->row = bq_arena_take(arena, c->hidden, sizeof(float));
  w->sum = bq_arena_take(arena, c->hidden, sizeof(float));
  if (placed) *placed = clusters;
  return placed;
}

uint64_t bq_clusters_bytes(const bq_config *c, bq_type head) {
  bq_arena arena = {0};
  work w;
  lay_out(&arena, c, head, &w);
  return arena.overflow ? UINT64_MAX : arena.used;
}

/* Quickselect (Hoare). */
void bq_candidates_select(bq_candidate *c, uint32_t n, uint32_t count) {
  int64_t low = 0, high = (int64_t)n - 1;
  while (low < high) {
    const bq_candidate pivot = c[(low + high) / 2];
    int64_t i = low, j = high;
    while (i <= j) {
      while (bq_candidate_before(c[i], pivot)) i++;
      while (bq_candidate_before(pivot, c[j])) j--;
      if (i > j) break;
      const bq_candidate moving = c[i];
      c[i++] = c[j];
      c[j--] = moving;
    }
    if (count <= j) high = j;
    else if (count >= i) low = i;
    else return;
  }
}

/* --- rows ------------------------------------------------------------------------------------- */

static float *read_row(const work *w, uint32_t token, float *y) {
  w->m->head.ops->row(&w->m->head, token, y);
  return y;
}

static void add_to(float *sum, const float *x, float factor, size_t n) {
  for (size_t i = 0; i < n; i++) sum[i] += factor * x[i];
}

static float dot(const work *w, const float *x, const float *y) {
  const uint32_t n = w->m->config.hidden;
  const bq_matrix_ops *ops = &w->m->kernels->matrix[BQ_TYPE_F32];
  const bq_matrix m = {(const uint8_t *)x, 1, n, BQ_TYPE_F32, ops};
  const bq_batch a = {y, n, NULL, 1};
  float sum;
  ops->matmul(&m, &a, 0, 1, &sum, 1);
  return sum;
}

/* Copies row `from` of a tiled matrix to row `to` of another, byte for byte. In each section of a
 * tile, pieces of the 8 rows alternate: part[j] = {end of section j, bytes of a piece}. */
static void copy_tiled(bq_tile_shape s, size_t tiles, const uint8_t *src, uint32_t from,
                       uint8_t *dst, uint32_t to) {
  const uint32_t part[][2] = {{bq_tile_scales_at(s), 2},
                              {bq_tile_mins_at(s), s.scale_bytes},
                              {bq_tile_weights_at(s), s.min_bytes},
                              {bq_tile_size(s), 4}};
  const size_t size = bq_tile_size(s), group = tiles * size;
  src += from / BQ_TILE_ROWS * group;
  dst += to / BQ_TILE_ROWS * group;
  for (size_t i = 0; i < tiles; i++, src += size, dst += size)
    for (uint32_t at = 0, j = 0; j < 4; j++)
      for (const uint32_t n = part[j][1]; at < part[j][0]; at += BQ_TILE_ROWS * n)
        memcpy(dst + at + to % BQ_TILE_ROWS * n, src + at + from % BQ_TILE_ROWS * n, n);
}

static void copy_row(const bq_matrix *head, uint32_t from, uint8_t *dst, uint32_t to) {
  if (bq_type_compute_layout(head->type) == BQ_TILED) {
    const bq_tile_shape s = bq_tile_shape_of(head->type);
    copy_tiled(s, bq_tiles_per_row(s, head->cols), head->data, from, dst, to);
    return;
  }
  const size_t bytes = (size_t)bq_type_bytes(head->type, BQ_ROWS, 1, head->cols);
  memcpy(dst + to * bytes, head->data + from * bytes, bytes);
}

/* --- clusters --------------------------------------------------------------------------------- */

/* Divides a vector by its largest absolute value. */
static void scale_down(float *x, size_t n) {
  float max = 0;
  for (size_t i = 0; i < n; i++) max = max < x[i] ? x[i] : max < -x[i] ? -x[i] : max;
  for (size_t i = 0; max > 0 && i < n; i++) x[i] /= max;
}

/* Finds the axis on which n rows differ most: power iteration over a sample of them. */
static void find_axis(const work *w, const bq_candidate *list, uint32_t n) {
  const size_t hidden = w->m->config.hidden;
  const uint32_t taken = bq_min32(n, w->sample_rows);
  float max_length = -1;
  memset(w->sum, 0, hidden * sizeof *w->sum);
  for (uint32_t i = 0; i < taken; i++)
    add_to(w->sum, read_row(w, list[(uint64_t)i * n / taken].id, w->sample + i * hidden),
           1.0f / (float)taken, hidden);
  for (uint32_t i = 0; i < taken; i++) {
    float *x = w->sample + i * hidden;
    add_to(x, w->sum, -1.0f, hidden);
    const float length = dot(w, x, x);
    if (length > max_length) memcpy(w->axis, x, hidden * sizeof *x);
    max_length = length > max_length ? length : max_length;
  }
  for (uint32_t iteration = 0; iteration < ITERATIONS; iteration++) {
    scale_down(w->axis, hidden);
    memset(w->sum, 0, hidden * sizeof *w->sum);
    for (uint32_t i = 0; i < taken; i++) {
      const float *x = w->sample + i * hidden;
      add_to(w->sum, x, dot(w, x, w->axis), hidden);
    }
    memcpy(w->axis, w->sum, hidden * sizeof *w->axis);
  }
  scale_down(w->axis, hidden);
}

/* Orders n rows so that each run of BQ_CLUSTER_ROWS is a cluster. The recursion depth is log2 of
 * the number of clusters. */
static void bisect(const work *w, bq_candidate *list, uint32_t n) {
  if (n <= BQ_CLUSTER_ROWS) return;
  const uint32_t first = ((n - 1) / BQ_CLUSTER_ROWS / 2 + 1) * BQ_CLUSTER_ROWS;
  find_axis(w, list, n);
  for (uint32_t i = 0; i < n; i++)
    list[i].value = dot(w, w->axis, read_row(w, list[i].id, w->row));
  bq_candidates_select(list, n, first);
  bisect(w, list, first);
  bisect(w, list + first, n - first);
}

/* Writes the mean of rows [from, to); returns their standard deviation. */
static float write_mean(const work *w, uint32_t from, uint32_t to, uint16_t *mean) {
  const size_t hidden = w->m->config.hidden;
  float squares = 0;
  memset(w->sum, 0, hidden * sizeof *w->sum);
  for (uint32_t i = from; i < to; i++)
    add_to(w->sum, read_row(w, w->list[i].id, w->row), 1.0f / (float)(to - from), hidden);
  for (size_t i = 0; i < hidden; i++) mean[i] = bq_f32_to_f16(w->sum[i]);
  for (uint32_t i = from; i < to; i++) {
    add_to(read_row(w, w->list[i].id, w->row), w->sum, -1.0f, hidden);
    squares += dot(w, w->row, w->row) / (float)hidden;
  }
  return bq_sqrtf(squares / (float)(to - from));
}

static void build(const work *w, bq_clusters *c) {
  const bq_config *config = &w->m->config;
  const bq_matrix *head = &w->m->head;
  uint16_t *means = (uint16_t *)(uintptr_t)c->means.data;
  uint8_t *rows = (uint8_t *)(uintptr_t)c->rows.data;
  for (uint32_t i = 0; i < config->vocab; i++) w->list[i] = (bq_candidate){0, i};
  bisect(w, w->list, config->vocab);
  memset(rows, 0,
         (size_t)bq_type_bytes(head->type, bq_type_compute_layout(head->type), config->vocab,
                               config->hidden));
  for (uint32_t i = 0; i < config->vocab; i++) {
    c->token[i] = w->list[i].id;
    copy_row(head, c->token[i], rows, i);
  }
  for (uint32_t i = 0, at = 0; i < c->n; i++, at += BQ_CLUSTER_ROWS)
    c->deviation[i] = write_mean(w, at, bq_min32(at + BQ_CLUSTER_ROWS, config->vocab),
                              means + (size_t)i * config->hidden);
  c->means = (bq_matrix){c->means.data, c->n, config->hidden, BQ_TYPE_F16,
                         &w->m->kernels->matrix[BQ_TYPE_F16]};
  c->rows = *head;
  c->rows.data = rows;
}

bq_status bq_model_cluster(bq_model *m, bq_allocator allocator, bq_error *err) {
  const bq_config *c = &m->config;
  if (m->clusters) return BQ_OK;
  if (m->pages || c->no_head)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET,
                   "a head by clusters is for models that have one, and stay in memory");
  if (m->ready < BQ_READY_ALL(c->layers))
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "the head has not arrived yet");
  const uint64_t bytes = bq_clusters_bytes(c, m->head.type);
  void *memory = bytes <= SIZE_MAX ? allocator.alloc(allocator.ctx, (size_t)bytes) : NULL;
  if (!memory)
    return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET,
                   "the head in clusters takes %l bytes, which the plan has no room for: load the "
                   "model with a share of the head, too",
                   bytes);
  bq_arena arena = {memory, (size_t)bytes, 0, false};
  work w = {.m = m};
  bq_clusters *clusters = lay_out(&arena, c, m->head.type, &w);
  build(&w, clusters);
  m->clusters = clusters;
  return BQ_OK;
}
