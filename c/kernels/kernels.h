/* Kernels: all inner loops of the engine, in one table of functions per instruction set.
 *
 * There are four tables: scalar (plain C, the reference of the tests), simd128, relaxed and
 * relaxed16 (wasm). A table without an entry of its own uses the entry of the previous table. Every
 * entry gives the SAME BITS in every table, for every size: tests/c/test_kernels.c compares them
 * entry by entry. The canonical orders below define these bits; see docs/inside/architecture.md,
 * "Equal bits on every machine".
 *
 * Canonical orders
 *   - f32 sum over n values: four lanes, value i in lane i mod 4, each lane in rising i, then
 *     (l0 + l1) + (l2 + l3). Fused multiply-add is never used.
 *   - f32 dot product: the same with x[i] * y[i].
 *   - quantized matvec: one f32 accumulator per row, blocks in rising k;
 *     acc += ((float)dot * a_scale) * w_scale, where dot is the exact i32 sum over the weights that
 *     share both scales, that is, min(32, weight block) products. Types with a minimum have
 *     unsigned q in dot and then add acc += ((float)sum * a_scale) * w_min, where sum is the exact
 *     sum of the quantized activations.
 *   - Finite inputs whose results stay finite never give NaN. The payload of other NaNs is
 *     unspecified.
 *
 * Activations are quantized per block of 32 along k (k is padded with zeros):
 *     m = max |x[i]|;  if !(m >= 0x1p-100f): scale 0, all q 0
 *     scale = m / 127.0f;  inv = 127.0f / m
 *     q[i] = clamp(round_to_nearest_even(x[i] * inv), -127, 127)
 *
 * Aliasing: outputs never overlap inputs unless an entry says so. Pointers named x, y, w are at
 * least 4-byte aligned; weights and panels are 16-byte aligned.
 *
 * Weights and their scales are finite (the loader rejects others); a KV cache may hold infinities.
 */
#ifndef BQ_KERNELS_H
#define BQ_KERNELS_H

#include "core/type.h"

/* A weight matrix in the compute layout: rows x cols, y[rows] = W x[cols]. */
typedef struct bq_matrix {
  const uint8_t *data; /* bq_type_bytes(type, bq_type_compute_layout(type), rows, cols) bytes */
  uint32_t rows, cols;
  bq_type type;
  const struct bq_matrix_ops *ops; /* chosen once at load from the kernel table */
} bq_matrix;

/* A batch of activation rows, the input of a matmul. Float weights read `x`, quantized weights read
 * `panel`, which `quantize` makes from x. */
typedef struct bq_batch {
  const float *x;       /* [tokens][x_stride] */
  size_t x_stride;      /* floats from one token to the next, >= cols */
  const uint8_t *panel; /* kernels->panel_bytes(cols, tokens) bytes */
  size_t tokens;
} bq_batch;

typedef struct bq_matrix_ops {
  /* Writes y[t * y_stride + r] for r in [row0, row1), t in [0, tokens). row0 is a multiple of 8,
   * and row1 is a multiple of 8 or the number of rows. Other rows of y stay unchanged. */
  void (*matmul)(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1, float *y,
                 size_t y_stride);
  /* Reads one row of W as f32: y[cols]. (Embedding lookup.) */
  void (*row)(const bq_matrix *w, size_t row, float *y);
  bool quantized; /* matmul reads batch->panel, not batch->x */
  uint8_t groups; /* number of groups of 8 rows that are computed at once for one token; a remainder
                     of fewer groups takes as long. 0: any number */
} bq_matrix_ops;

#define BQ_PANEL_TOKENS 8u

/* The types of a KV cache. A type's number is its position in this list, which saved sessions
 * contain: append only. js/shared/names.js has the same names. kernels/kv.h draws the layouts.
 *
 * FLOATS, BYTES, PACKED(table, NAME, name, bits of a number, attend, store)
 *   attend, store: the entries of the SIMD table `table`. SCALAR, SIMD128: those of that table;
 *   OWN: of its own. A FLOATS type is widened to f32, a PACKED type is unpacked to i8. */
#define BQ_KV_LIST(FLOATS, BYTES, PACKED, table) \
  FLOATS(table, F32, f32, 32, SIMD128, SCALAR)   \
  FLOATS(table, F16, f16, 16, SIMD128, SIMD128)  \
  BYTES(table, I8, i8, 8, OWN, SIMD128)          \
  PACKED(table, I4, i4, 4, OWN, SCALAR)          \
  PACKED(table, I2, i2, 2, OWN, SCALAR)
/* The list, or its packed types, applied to X. */
#define BQ_KV_TYPES(X, table) BQ_KV_LIST(X, X, X, table)
#define BQ_KV_PACKED_TYPES(X, table) BQ_KV_LIST(BQ_SKIP_TYPE, BQ_SKIP_TYPE, X, table)

typedef enum bq_kv_type {
#define BQ_X(table, NAME, ...) BQ_KV_##NAME,
  BQ_KV_TYPES(BQ_X, )
#undef BQ_X
  BQ_KV_COUNT
} bq_kv_type;

/* Positions of a KV cache are stored in blocks of this many: block b has the positions from b *
 * BQ_KV_BLOCK on. */
#define BQ_KV_BLOCK 256u

/* The KV cache of one KV head in one layer. blocks[b] + offset is the address of the head's part of
 * block b: bq_kv_bytes(type, BQ_KV_BLOCK, head_dim) bytes, 16-byte aligned, laid out as drawn in
 * kernels/kv.h. Blocks that are neither written nor read may be NULL. */
typedef struct bq_kv_view {
  uint8_t *const *blocks;
  size_t offset;
  uint32_t head_dim;
} bq_kv_view;

/* Distance from which on the bias of a score is constant. */
enum { BQ_BIAS_FAR = 128 };

/* A part of an attention call. To share the attention of one token over a long i8 cache, threads
 * compute it in three passes, with a barrier between them. All passes have the same rows, at most
 * BQ_ATTEND_ROWS. A thread computes the units [from, to) of a pass:
 *   SCORES   blocks of 32 positions, beginning with that of the first visible position
 *   WEIGHTS  rows, beginning with row0: exponentials of the scores, quantized
 *   VALUES   groups of 8 dims: sums of values
 * No sum is split among threads, so the bits are those of a call that computes everything. */
typedef enum bq_attend_pass {
  BQ_ATTEND_ALL, /* no pass */
  BQ_ATTEND_SCORES,
  BQ_ATTEND_WEIGHTS,
  BQ_ATTEND_VALUES
} bq_attend_pass;
typedef struct bq_attend_part {
  bq_attend_pass pass;
  size_t from, to;
  void *shared; /* scores and weights: bq_attend_shared(...) bytes per row, 16-byte aligned */
} bq_attend_part;
enum { BQ_ATTEND_ROWS = 4 }; /* queries computed together */
/* Whether the build has the code by which threads share the work of a token. */
#ifdef BQ_ONE_THREAD
enum { BQ_HAS_THREADS = 0 };
#else
enum { BQ_HAS_THREADS = 1 };
#endif

/* An attention call: the queries of the heads that share one KV head, for consecutive tokens. Row r
 * is head r % heads of token r / heads, whose position is p = position + r / heads. The row attends
 * to the positions [from, end), all of which the cache holds:
 *   from = max(first, window && p + 1 > window ? p + 1 - window : 0)
 *   end  = full ? min(full, window ? p + window : full) : p + 1 */
typedef struct bq_attend_job {
  bq_kv_view kv;
  const float *q; /* [tokens][stride], of which [heads][head_dim] are read */
  float *y;       /* [tokens][stride], of which [heads][head_dim] are written */
  size_t stride;  /* floats from one token to the next */
  size_t heads;   /* query heads per token */
  size_t position;
  size_t first;      /* first position of the text; a multiple of BQ_KV_SCALED */
  size_t row0, row1; /* rows to compute: [row0, row1) */
  float scale;
  void *scratch; /* bq_attend_scratch(...) bytes, 16-byte aligned */
  size_t window; /* sliding window: number of visible positions, p included; 0: all */
  size_t full;   /* bidirectional attention: rows attend to [first, full), or to their window of it;
                    0: causal attention */
  float softcap; /* scores are squashed to -softcap...softcap by tanh; 0: no softcap */
  const float *slopes; /* [heads], ALiBi: slope per position of distance; NULL: no ALiBi */
  const float *sinks;  /* [heads]: a score of each head that adds to the sum of exponentials, but to
                          which no position belongs; NULL: none */
  const float *biases; /* [buckets][bias_stride], of which [heads] are read; NULL: no biases */
  size_t bias_stride;
  const uint8_t *bias_buckets; /* [2 * BQ_BIAS_FAR + 1]: the bucket of each distance j - p, from
                                  -BQ_BIAS_FAR to BQ_BIAS_FAR; larger distances have the bucket of
                                  the nearest end */
  uint32_t *attention_sums;      /* Accumulated attention per group of 32 positions,
                                    [tokens][attention_sums_stride]: each row adds its softmax
                                    weights, 65536 in total. NULL: not accumulated */
  size_t attention_sums_stride;
  const bq_attend_part *part; /* NULL: the call computes all passes */
} bq_attend_job;

typedef struct bq_kernels {
  const char *name; /* "scalar", "simd128", "relaxed", "relaxed16" */

  /* Indexed by bq_type. `matmul` is NULL for types that the engine doesn't compute with. */
  bq_matrix_ops matrix[BQ_TYPE_COUNT];

  /* quantize writes activations, x [tokens][x_stride] with k floats each, to a panel: int8 values,
   * an f32 scale per block of 32, and sums of the values. Each table has its own layout, so a panel
   * is only valid for matmuls of the same table. Tokens from t on, t a multiple of BQ_PANEL_TOKENS,
   * are at panel + panel_bytes(k, t), in the layout of a panel of their own, so threads can share
   * the work. A panel of 2n tokens, or of n, takes at most n times the bytes of a panel of two. */
  size_t (*panel_bytes)(size_t k, size_t tokens);
  void (*quantize)(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel);

  /* y[i] = (x[i] * (1 / sqrt(sum(x*x) / n + eps))) * w[i]; w may be NULL (weightless: no
   * multiplication by it)        y may be x */
  void (*rmsnorm)(const float *x, const float *w, float eps, size_t n, float *y);
  /* mean = sum(x) / n; d = x - mean; inv = 1 / sqrt(sum(d*d) / n + eps);
   * y[i] = ((d[i] * inv) * w[i]) + b[i]; b may be NULL (no addition)    y may be x */
  void (*layernorm)(const float *x, const float *w, const float *b, float eps, size_t n, float *y);
  /* y[i] += x[i] */
  void (*add)(float *y, const float *x, size_t n);
  /* gate[i] = act(gate[i]) * up[i]; up may be NULL: gate[i] = act(gate[i]).
   *   silu(g) = g / (1 + exp(-g))
   *   gelu(g) = g / (1 + exp(-2u)), u = 0.7978845608 * (g + 0.044715 * g^3)   [tanh form]
   *   gelu_erf(g) = (0.5 * g) * (1 + erf(0.70710678 * g))                      [exact form]
   *   relu(g) = g > 0 ? g : 0 */
  void (*silu_mul)(float *gate, const float *up, size_t n);
  void (*gelu_mul)(float *gate, const float *up, size_t n);
  void (*gelu_erf_mul)(float *gate, const float *up, size_t n);
  void (*relu_mul)(float *gate, const float *up, size_t n);
  /* Rotates pairs in place: (a, b) -> (a*c - b*s, a*s + b*c), cs = [dim/2][2] = (cos, sin).
   * adjacent: pair i = (x[2i], x[2i+1]); otherwise (x[i], x[i + dim/2]). */
  void (*rope)(float *x, const float *cs, size_t dim, bool adjacent);
  /* Attention. For each row, over the positions j that it attends to:
   *   s[j] = dot(q, k[j]) * scale                             (f32; f16, widened exactly)
   *   s[j] = (sum over blocks, rising, of ((float)dot * q_scale) * k_scale[j]) * scale       (i8)
   *   softcap: s[j] = tanh(s[j] / softcap) * softcap          (bq_tanhf)
   *   slopes:  s[j] = s[j] + slopes[head] * (float)-|j - p|
   *   biases:  s[j] = s[j] + biases[bias_buckets[j - p]][head]
   *   e[j] = exp(s[j] - max(s)); the lane of j in their sum is j mod 4
   *   sinks:   max(s) includes the sink; lane 0 of the sum begins with exp(sink - max(s))
   *   f32, f16: w[j] = e[j] * (1 / sum(e));
   *     y[d] = sum over j, rising, of w[j] * v[j][d]          (one accumulator per d, from 0)
   *   i8: the query is quantized as activations are, in blocks of 32 along head_dim. The weights
   *   of the positions are quantized likewise, in blocks of 32 from position 0 on (0 for positions
   *   that the row doesn't attend to):
   *     w[j] = e[j] * v_scale[j]
   *     y[d] = (sum over blocks, rising, of (float)dot(w, v[d]) * w_scale) * (1 / sum(e))
   *   attention_sums, for each group of 32 positions: part = sum of w[j] (f32, f16) or e[j] (i8),
   *   in lanes as above; it increases by part * 65536 or part * (1 / sum(e)) * 65536, rounded down
   *   and clamped to 0...65536 (NaN: 0)
   *   i4, i2: as i8, with q' of kv_store in place of q in keys and values */
  void (*attend[BQ_KV_COUNT])(const bq_attend_job *job);
  /* Stores keys and values of `tokens` positions from `position` on; k, v: [tokens][stride], of
   * which head_dim floats are read. f16: rounded to nearest even. i8:
   *   k per block of 32 along head_dim: m = max |x|, scale = f16(min(m / 127, 65504))
   *   v over all of head_dim:           m = max |x|, scale = min(m, FLT_MAX) / 127,
   *                                     0 if !(m >= 0x1p-100)
   *   q[i] = clamp(round_to_nearest_even(x[i] * (1 / scale)), -127, 127); all 0 if scale is 0
   * i4, i2: the same scales and q. Each 32 q along head_dim, padded with zeros, then become
   *   range = max q - min q,  step = (range + parts - 1) / parts,
   *   least = clamp(min q - (top * step - range + 1) / 2, -128, 127 - top * step),
   *   c[i] = min((q[i] - least + step / 2) / step, top), 0 if step is 0,
   *   q'[i] = least + step * c[i]
   * in integers, every quotient rounded down; q' is -128...127. i4: top and parts are 15, so the
   * levels cover the range including both ends. i2: top is 3 and parts is 4, so the levels are the
   * middles of four parts of the range.
   * Other positions keep their contents: threads may store different positions at the same time. */
  void (*kv_store[BQ_KV_COUNT])(const bq_kv_view *kv, size_t position, size_t tokens,
                                const float *k, const float *v, size_t stride);
  /* Converts row-major blocks to tiles. `rows` (1...8) rows of blocks, row_bytes bytes each, of a
   * tiled type or of a storage type without an import function, become one group of 8 rows. Missing
   * rows become weights of q = 0 with scale 0. */
  void (*tile_rows)(bq_type type, const uint8_t *src, size_t row_bytes, size_t rows, size_t cols,
                    uint8_t *dst);
} bq_kernels;

/* Bytes that the cache of one KV head takes for `positions` positions, a multiple of 16; UINT64_MAX
 * if an argument exceeds the limits of kernels/kv.c. */
uint64_t bq_kv_bytes(bq_kv_type type, uint64_t positions, uint64_t head_dim);
/* Copies the 32 positions from `from` on to the 32 positions from `to` on; both are multiples of
 * 32. */
void bq_kv_copy(bq_kv_type type, const bq_kv_view *kv, size_t from, size_t to);
/* Bytes of scratch that attend needs over at most `positions` positions; UINT64_MAX as above. */
uint64_t bq_attend_scratch(bq_kv_type type, uint64_t positions, uint64_t head_dim);
/* Bytes of bq_attend_part.shared for a row over at most `positions` positions, a multiple of 16;
 * UINT64_MAX as above. */
uint64_t bq_attend_shared(uint64_t positions);

/* The tables. NULL where the compiler's flags don't allow the instruction set. */
const bq_kernels *bq_kernels_scalar(void);
const bq_kernels *bq_kernels_simd128(void);
const bq_kernels *bq_kernels_relaxed(void);
const bq_kernels *bq_kernels_relaxed16(void);
/* The best table of this build; a shipped module links no other (emscripten.mk). */
const bq_kernels *bq_kernels_best(void);

/* Known-answer test: runs every entry of `k` that a token needs on 1 KB of fixed data. Returns
 * whether the hash of the results is that of the scalar table. Run once at load
 * (docs/inside/architecture.md). */
bool bq_kernels_self_test(const bq_kernels *k);
/* The hashes: of all entries except matmuls of rare types, and of the latter. They change with the
 * lists of types. */
#define BQ_KNOWN_ANSWER 0xea7ae0386249f950ull
#define BQ_KNOWN_RARE_ANSWER 0x6b6e9a3c3b92c7e0ull

#endif
