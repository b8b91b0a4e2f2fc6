/* A test is a void function; main() RUNs each one and returns check_summary().
 *
 *   static void test_add(void) { CHECK_EQ(1 + 1, 2); }
 *   int main(void) { RUN(test_add); return check_summary(); }
 *
 * A failed check is printed and the test goes on; REQUIRE leaves it instead. The last
 * line of output is "N passed, M failed, K skipped", counting tests, not checks. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Whether sanitizers watch this program, which then runs some twenty times slower than as wasm.
 * Tests of many combinations compute a part of them here, and all of them as wasm. */
#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

static struct {
  int passed, failed, skipped;
  int failures; /* in the running test */
  bool skip;    /* the running test asked to be skipped */
} check_state;

enum { CHECK_SHOWN = 10 }; /* failures of one test that are printed in full */

/* True when this failure should be described. */
static inline bool check_fails(const char *file, int line) {
  if (++check_state.failures > CHECK_SHOWN) return false;
  printf("%s:%d: ", file, line);
  return true;
}

static inline bool check_true(bool ok, const char *what, const char *file, int line) {
  if (!ok && check_fails(file, line)) printf("CHECK(%s)\n", what);
  return ok;
}

static inline bool check_eq(int64_t got, int64_t want, const char *what, const char *file,
                            int line) {
  if (got != want && check_fails(file, line)) {
    printf("%s is %" PRId64 ", not %" PRId64 "\n", what, got, want);
  }
  return got == want;
}

static inline bool check_str(const char *got, const char *want, const char *what, const char *file,
                             int line) {
  bool ok = got == want || (got && want && strcmp(got, want) == 0);
  if (!ok && check_fails(file, line)) {
    printf("%s is \"%s\", not \"%s\"\n", what, got ? got : "(null)", want ? want : "(null)");
  }
  return ok;
}

static inline bool check_mem(const void *got, const void *want, size_t n, const char *what,
                             const char *file, int line) {
  const unsigned char *a = (const unsigned char *)got, *b = (const unsigned char *)want;
  for (size_t i = 0; i < n; i++) {
    if (a[i] == b[i]) continue;
    if (check_fails(file, line)) {
      printf("%s: byte %zu of %zu is 0x%02x, not 0x%02x\n", what, i, n, a[i], b[i]);
    }
    return false;
  }
  return true;
}

#define CHECK(cond) check_true((cond), #cond, __FILE__, __LINE__)
#define CHECK_EQ(got, want) check_eq((int64_t)(got), (int64_t)(want), #got, __FILE__, __LINE__)
#define CHECK_STR(got, want) check_str((got), (want), #got, __FILE__, __LINE__)
/* Bit for bit: n bytes. */
#define CHECK_MEM(got, want, n) check_mem((got), (want), (n), #got, __FILE__, __LINE__)

#define REQUIRE(cond) \
  do {                \
    if (!CHECK(cond)) return; \
  } while (0)

/* Leaves the test, counted as skipped. Only for data that a plain checkout doesn't have. */
#define SKIP(why)                   \
  do {                              \
    printf("%s: %s\n", __func__, (why)); \
    check_state.skip = true;        \
    return;                         \
  } while (0)

static inline void check_run(void (*test)(void), const char *name) {
  check_state.failures = 0;
  check_state.skip = false;
  test();
  const char *verdict = check_state.failures ? "FAILED" : check_state.skip ? "skipped" : "ok";
  if (check_state.failures > CHECK_SHOWN) {
    printf("%s: %d more failures\n", name, check_state.failures - CHECK_SHOWN);
  }
  if (check_state.failures) check_state.failed++;
  else if (check_state.skip) check_state.skipped++;
  else check_state.passed++;
  printf("%s: %s\n", name, verdict);
  fflush(stdout);
}

#define RUN(test) check_run((test), #test)

static inline int check_summary(void) {
  printf("%d passed, %d failed, %d skipped\n", check_state.passed, check_state.failed,
         check_state.skipped);
  return check_state.failed ? 1 : 0;
}

#endif
