/* Checks of C tests. A test is a void function; main() RUNs each one and returns check_summary().
 *
 *   static void test_add(void) { CHECK_EQ(1 + 1, 2); }
 *   int main(void) { RUN(test_add); return check_summary(); }
 *
 * A failed check is printed and the test continues; after a failed REQUIRE it returns. The last
 * line of output is "N passed, M failed, K skipped", the numbers of tests. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Whether the program is compiled with sanitizers; it is then twenty times slower than as wasm.
 * Tests of many combinations run a part of them with sanitizers, and all of them as wasm. */
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
  int failures; /* number of failed checks of the current test */
  bool skip;    /* whether the current test is skipped */
} check_state;

enum { CHECK_SHOWN = 10 }; /* maximum number of printed failures of a test */

/* Counts a failure and prints its place. Returns whether the caller has to print its
 * description. */
static inline bool check_fails(const char *file, int line) {
  if (++check_state.failures > CHECK_SHOWN) return false;
  printf("%s:%d: ", file, line);
  return true;
}

static inline bool check_true(bool passed, const char *description, const char *file, int line) {
  if (!passed && check_fails(file, line)) printf("CHECK(%s)\n", description);
  return passed;
}

static inline bool check_eq(int64_t actual, int64_t expected, const char *description,
                            const char *file, int line) {
  if (actual != expected && check_fails(file, line)) {
    printf("%s: expected %" PRId64 ", found %" PRId64 "\n", description, expected, actual);
  }
  return actual == expected;
}

static inline bool check_str(const char *actual, const char *expected, const char *description,
                             const char *file, int line) {
  bool passed = actual == expected || (actual && expected && strcmp(actual, expected) == 0);
  if (!passed && check_fails(file, line)) {
    printf("%s: expected \"%s\", found \"%s\"\n", description, expected ? expected : "(null)",
           actual ? actual : "(null)");
  }
  return passed;
}

static inline bool check_mem(const void *actual, const void *expected, size_t n,
                             const char *description, const char *file, int line) {
  const unsigned char *a = (const unsigned char *)actual, *b = (const unsigned char *)expected;
  for (size_t i = 0; i < n; i++) {
    if (a[i] == b[i]) continue;
    if (check_fails(file, line)) {
      printf("%s: byte %zu of %zu: expected 0x%02x, found 0x%02x\n", description, i, n, b[i], a[i]);
    }
    return false;
  }
  return true;
}

#define CHECK(cond) check_true((cond), #cond, __FILE__, __LINE__)
#define CHECK_EQ(actual, expected) \
  check_eq((int64_t)(actual), (int64_t)(expected), #actual, __FILE__, __LINE__)
#define CHECK_STR(actual, expected) check_str((actual), (expected), #actual, __FILE__, __LINE__)
/* Compares n bytes. */
#define CHECK_MEM(actual, expected, n) \
  check_mem((actual), (expected), (n), #actual, __FILE__, __LINE__)

#define REQUIRE(cond) \
  do {                \
    if (!CHECK(cond)) return; \
  } while (0)

/* Returns from the test, which counts as skipped. Used only for data that is not in the
 * repository. */
#define SKIP(reason)                        \
  do {                                      \
    printf("%s: %s\n", __func__, (reason)); \
    check_state.skip = true;                \
    return;                                 \
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
