/* Assertions of invariants: conditions that hold for every possible file, model and caller. Input
 * is never checked by an assertion, but by code that returns a status.
 *
 * Builds for tests and fuzzers define BQ_ASSERTS (emscripten.mk) and stop with the expression and
 * its line. Shipped builds have no code for them, so a condition must have no side effects. */
#ifndef BQ_ASSERT_H
#define BQ_ASSERT_H

#ifdef BQ_ASSERTS
#include <assert.h>
#define bq_assert(condition) assert(condition)
#else
#define bq_assert(condition) \
  ((void)sizeof((condition) ? 1 : 0)) /* not evaluated; its names count as used */
#endif

#endif
