#include "core/status.h"

#include <stdarg.h>
#include <stddef.h>

static const char *const names[] = {
#define BQ_X(name, hint) #name,
    BQ_STATUS_LIST(BQ_X)
#undef BQ_X
};

static const char *const hints[] = {
#define BQ_X(name, hint) hint,
    BQ_STATUS_LIST(BQ_X)
#undef BQ_X
};

const char *bq_status_name(bq_status status) {
  return (unsigned)status < BQ_STATUS_COUNT ? names[status] : "UNKNOWN";
}

const char *bq_status_hint(bq_status status) {
  return (unsigned)status < BQ_STATUS_COUNT ? hints[status] : "";
}

/* A bounded writer that truncates silently, because formatting an error text must not fail. */
typedef struct text {
  char *at, *end; /* end: the address of the terminator */
} text;

static void put(text *t, char c) {
  if (t->at < t->end) *t->at++ = c;
}

static void put_string(text *t, const char *s) {
  for (; s && *s; s++) put(t, *s);
}

static void put_number(text *t, uint64_t v) {
  char digits[20];
  int n = 0;
  do digits[n++] = (char)('0' + v % 10);
  while (v /= 10);
  while (n) put(t, digits[--n]);
}

bq_status bq_fail(bq_error *err, bq_status status, uint64_t offset, const char *format, ...) {
  if (!err) return status;
  err->status = status;
  err->offset = offset;
  text t = {err->detail, err->detail + sizeof err->detail - 1};
  va_list args;
  va_start(args, format);
  for (const char *f = format; *f; f++) {
    if (*f != '%') {
      put(&t, *f);
      continue;
    }
    switch (*++f) {
    case 's': put_string(&t, va_arg(args, const char *)); break;
    case 'u': put_number(&t, va_arg(args, uint32_t)); break;
    case 'l': put_number(&t, va_arg(args, uint64_t)); break;
    case 'S': {
      const uint8_t *bytes = va_arg(args, const uint8_t *);
      size_t n = va_arg(args, size_t);
      for (size_t i = 0; i < n && i < 80; i++)
        put(&t, bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '?');
      break;
    }
    default: put(&t, *f);
    }
  }
  va_end(args);
  *t.at = 0;
  return status;
}
