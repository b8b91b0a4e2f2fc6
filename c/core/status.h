/* Statuses and errors. Every function in c/ that can fail returns a bq_status. If the caller passes
 * a bq_error, the function fills it in with a description of the failure, its offset and the
 * numbers involved. No code in c/ prints, exits or aborts.
 *
 * MORE and WANT_DATA are not errors but progress: the call did a part of its work and has to be
 * repeated. */
#ifndef BQ_STATUS_H
#define BQ_STATUS_H

#include <stdint.h>

/* X(NAME, hint): the hint is advice to the user. */
#define BQ_STATUS_LIST(X)                                                                          \
  X(OK, "")                                                                                        \
  X(MORE, "call again")                                                                            \
  X(WANT_DATA, "feed the bytes that the loader wants, then call again")                            \
  X(NOMEM, "plan again with a smaller context, fewer sessions or a larger budget")                 \
  X(ARGUMENT, "a bug in the calling code: see the function's documentation")                       \
  X(STATE, "the object can't do this now: finish loading, or sync tokens first")                   \
  X(FORMAT, "the file is malformed: fetch it again or convert it again")                           \
  X(TRUNCATED, "the file ends too early: fetch it again")                                          \
  X(CHECKSUM, "the bytes are damaged: fetch this chunk again")                                     \
  X(UNSUPPORTED, "the file needs a newer bq4, or must be converted to a supported type")           \
  X(SHAPE, "the tensor does not fit the configuration: convert the model again")                   \
  X(CONTEXT_FULL, "start a new chat, or create the session with a larger context")                 \
  X(INTEGRITY, "this is another file than the one asked for: check its address and its integrity") \
  X(NO_TOKEN, "let mask, bias and hook leave a token that may be picked")                          \
  X(NO_SESSION, "close a session, or plan the model for more of them")                             \
  X(MISMATCH, "restore the session with the model, the KV type and the adapters it was saved "     \
              "with")

typedef enum bq_status {
#define BQ_X(name, hint) BQ_##name,
  BQ_STATUS_LIST(BQ_X)
#undef BQ_X
      BQ_STATUS_COUNT
} bq_status;

#define BQ_NO_OFFSET UINT64_MAX

/* Description of a failure, owned by the caller; NULL is accepted everywhere. */
typedef struct bq_error {
  bq_status status;
  uint64_t offset;  /* byte offset in the file, or BQ_NO_OFFSET */
  char detail[240]; /* UTF-8, always terminated */
} bq_error;

const char *bq_status_name(bq_status status); /* "FORMAT"; static storage */
const char *bq_status_hint(bq_status status);

/* Fills *err (may be NULL) and returns `status`, so that callers can write
 * `return bq_fail(err, BQ_FORMAT, at, "...", ...)`.
 * The format supports %s (char *, NULL allowed), %S (const uint8_t *, size_t: bytes of a file, at
 * most 80, unprintable ones shown as '?'), %u (uint32_t) and %l (uint64_t). A detail that is too
 * long is cut off. */
bq_status bq_fail(bq_error *err, bq_status status, uint64_t offset, const char *format, ...);

#endif
