/* Shows by time how a browser compiles the relaxed dot product: in one chain, where each operation
 * needs the result of the previous one, and in eight. One instruction (vpdpbusd) has a latency of
 * about five cycles and a throughput of two per cycle. Of three (vpmaddubsw, vpmaddwd, vpaddd) only
 * the last is part of the chain, and eight chains take longer. tests/bench/browsers.mjs runs it.
 *
 *   make -f emscripten.mk bench-token
 */
#include <stdint.h>
#include <wasm_simd128.h>

#define EXPORT(type) __attribute__((visibility("default"), used)) type

enum { STEPS = 64 };

static v128_t data[10]; /* zeros, which the compiler must not use */

static int32_t sum(const v128_t *s, int n) {
  v128_t all = s[0];
  for (int i = 1; i < n; i++) all = wasm_v128_xor(all, s[i]);
  return wasm_i32x4_extract_lane(all, 0);
}

#define DOT(s) wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, b, s)

/* times * STEPS operations. */
#define CHAINS(NAME, N)                                   \
  EXPORT(int32_t) NAME(uint32_t times) {                  \
    v128_t s[N], a = data[8], b = data[9];                \
    for (int i = 0; i < N; i++) s[i] = data[i];           \
    while (times--)                                       \
      for (int step = 0; step < STEPS / N; step++)        \
        for (int i = 0; i < N; i++) {                     \
          s[i] = DOT(s[i]);                               \
          __asm__("" : "+r"(s[i]));                       \
        }                                                 \
    return sum(s, N);                                     \
  }

CHAINS(dot_1, 1)
CHAINS(dot_8, 8)
