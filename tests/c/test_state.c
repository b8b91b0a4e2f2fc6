/* The loops of session/state_update.h against the sums that they define, one value at a time. */
#include "check.h"
#include "core/fmath.h"
#include "random.h"
#include "session/state_update.h"

enum { MOST_ROWS = 16, MOST_COLS = 24, MOST = MOST_ROWS * MOST_COLS };

static bool same(const float *a, const float *b, size_t n) {
  return memcmp(a, b, n * sizeof *a) == 0;
}

/* A state of rows x cols, from one matrix to another or in place. */
static void check_matrix(uint64_t *seed, size_t rows, size_t cols, bool in_place) {
  float s[MOST], next[MOST], to[MOST], q[MOST_ROWS], k[MOST_ROWS], v[MOST_COLS];
  float sum[MOST_COLS], expected_sum[MOST_COLS], out[MOST_COLS], expected_out[MOST_COLS];
  const float decay = 0.9f + 0.05f * random_float(seed);
  random_floats(seed, s, MOST, 1);
  random_floats(seed, q, MOST_ROWS, 1);
  random_floats(seed, k, MOST_ROWS, 1);
  random_floats(seed, v, MOST_COLS, 1);
  for (size_t j = 0; j < cols; j++) {
    expected_sum[j] = expected_out[j] = 0;
    for (size_t i = 0; i < rows; i++) {
      const float kept = s[i * cols + j] * decay, added = k[i] * v[j];
      const float product = kept * k[i];
      expected_sum[j] += product;
      next[i * cols + j] = kept + added;
      const float read = next[i * cols + j] * q[i];
      expected_out[j] += read;
    }
  }
  bq_state_multiply(s, rows, cols, decay, k, sum);
  CHECK(same(sum, expected_sum, cols));
  float *result = in_place ? s : to;
  bq_state_update(s, result, rows, cols, decay, q, k, v, out);
  CHECK(same(result, next, rows * cols));
  CHECK(same(out, expected_out, cols));
}

static void test_matrices(void) {
  uint64_t seed = 1;
  for (size_t rows = 4; rows <= MOST_ROWS; rows += 4)
    for (size_t cols = 4; cols <= MOST_COLS; cols += 4)
      for (int in_place = 0; in_place < 2; in_place++)
        check_matrix(&seed, rows, cols, in_place != 0);
}

static void test_convolution(void) {
  enum { STRIDE = MOST_COLS + 3, TAPS = 4 };
  float taps[MOST_COLS * TAPS], state[3 * STRIDE], row[MOST_COLS], next[3 * STRIDE], y[MOST_COLS];
  uint64_t seed = 2;
  for (size_t n = 4; n <= MOST_COLS; n += 4) {
    random_floats(&seed, taps, MOST_COLS * TAPS, 1);
    random_floats(&seed, state, 3 * STRIDE, 1);
    random_floats(&seed, row, MOST_COLS, 1);
    /* Channel 0: the sum of products of -0 is 0. */
    for (size_t k = 0; k < TAPS; k++) taps[k] = 0.5f;
    for (size_t k = 0; k < 3; k++) state[k * STRIDE] = row[0] = -0.0f;
    memcpy(next, state, sizeof next);
    for (size_t i = 0; i < n; i++) {
      float sum = 0;
      for (size_t k = 0; k < 3; k++) sum += taps[i * TAPS + k] * state[k * STRIDE + i];
      y[i] = sum + taps[i * TAPS + 3] * row[i];
      next[i] = state[STRIDE + i];
      next[STRIDE + i] = state[2 * STRIDE + i];
      next[2 * STRIDE + i] = row[i];
    }
    bq_convolve_4(taps, state, STRIDE, row, n);
    CHECK(same(row, y, n));
    CHECK(same(state, next, 3 * STRIDE));
  }
}

static void test_swish(void) {
  const float edges[] = {0.0f, -0.0f, 87.5f, -87.5f, 100.0f, -100.0f, 1e30f, -1e30f};
  float x[MOST_COLS], y[MOST_COLS];
  uint64_t seed = 3;
  random_floats(&seed, x, MOST_COLS, 30);
  memcpy(x, edges, sizeof edges);
  for (size_t i = 0; i < MOST_COLS; i++) y[i] = x[i] * (1.0f / (1.0f + bq_expf(-x[i])));
  bq_swish(x, MOST_COLS);
  CHECK(same(x, y, MOST_COLS));
}

int main(void) {
  RUN(test_matrices);
  RUN(test_convolution);
  RUN(test_swish);
  return check_summary();
}
