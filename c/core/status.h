/* Statuses and errors. Every fallible function in c/ returns a bq_status and, if the caller passes
 * a bq_error, describes what went wrong, where, and with which numbers. Nothing in c/ prints, exits
 * or aborts.
 *
 * The progress statuses MORE and WANT_DATA are no errors: the call did what it could and has to be
 * called again. */
#ifndef BQ_STATUS_H
#define BQ_STATUS_H

#include <stdint.h>

/* X(NAME, hint): the hint tells people what to do about it. */
#define BQ_STATUS_LIST(X)                                                                        \
  X(OK, "")                                                                                      \
  X(MORE, "the slice is used up: call again")                                                    \
  X(WANT_DATA, "feed the bytes that the loader wants, then call again")                          \
  X(NOMEM, "plan again with a smaller context, fewer sessions or a larger budget")               \
  X(ARGUMENT, "a bug in the calling code: see the function's documentation")                     \
  X(STATE, "the object can't do this now: finish loading, or sync tokens first")                 \
  X(FORMAT, "the file is malformed: fetch it again or convert it anew")                          \
  X(TRUNCATED, "the file ends too early: fetch it again")                                        \
  X(CHECKSUM, "the bytes are damaged: fetch this chunk again")                                   \
  X(UNSUPPORTED, "the file needs a newer bq4, or must be converted to a supported type")         \
  X(SHAPE, "the tensor does not fit the configuration: convert the model anew")                  \
  X(CONTEXT_FULL, "start a new chat, or create the session with a larger context")               \
  X(INTEGRITY, "this is another file than the one asked for: check its address and its integrity") \
  X(NO_TOKEN, "let mask, bias and hook leave a token that may be picked") \
  X(NO_SESSION, "close a session, or plan the model for more of them") \
  X(MISMATCH, "restore the session with the model, the KV type and the adapters it was saved with")

typedef enum bq_status {
#define BQ_X(name, hint) BQ_##name,
  BQ_STATUS_LIST(BQ_X)
#undef BQ_X
      BQ_STATUS_COUNT
} bq_status;

#define BQ_NO_OFFSET UINT64_MAX

/* Owned by the caller; optional (NULL) everywhere. `detail` is UTF-8, always
 * terminated. `offset` is a byte offset in the file, or BQ_NO_OFFSET. */
typedef struct bq_error {
  bq_status status;
  uint64_t offset;
  char detail[240];
} bq_error;

const char *bq_status_name(bq_status status); /* "FORMAT"; static storage */
const char *bq_status_hint(bq_status status);

/* Fills *err (may be NULL) and returns `status`, so that callers can write
 * `return bq_fail(err, BQ_FORMAT, at, "...", ...)`.
 * The format knows %s (char *, NULL allowed), %S (const uint8_t *, size_t: bytes
 * of a file, unprintable ones shown as '?'), %u (uint32_t) and %l (uint64_t). */
bq_status bq_fail(bq_error *err, bq_status status, uint64_t offset, const char *format, ...);

#endif
