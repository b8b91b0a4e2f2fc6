/* Helpers for tests of the header of a file. Bytes under test are in a block of exactly their
 * length, so that the sanitizer detects every read after the end. */
#ifndef PREFIX_TOOLS_H
#define PREFIX_TOOLS_H

#include <stdlib.h>

#include "format/read.h"
#include "check.h"
#include "core/cursor.h"
#include "fixture.h"
#include "format/directory.h"
#include "load/loader.h"

/* A header under test: a copy of some bytes. */
typedef struct bytes {
  uint8_t *data;
  size_t n;
} bytes;

static inline bytes copy_of(const uint8_t *data, size_t n) {
  bytes b = {malloc(n ? n : 1), n};
  memcpy(b.data, data, n);
  return b;
}

static inline bq_status read_prefix(bytes b, uint64_t file_bytes, const fixture *f, bool whole,
                                    uint64_t *need, bq_error *err) {
  bq_prefix p;
  bq_prefix_input in = {b.data, b.n, file_bytes, f ? f->manifest : NULL,
                        f ? f->manifest_bytes : 0};
  *err = (bq_error){0};
  bq_status status = bq_prefix_read(&in, whole, need, &p, err);
  if (status) CHECK_EQ(err->status, status);
  if (status) CHECK(err->detail[0]);
  return status;
}

static inline void store(uint8_t *p, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* The ends of the ranges of numbers with 1 to 8 bytes. */
static const uint64_t extremes[] = {0,
                                    1,
                                    2,
                                    7,
                                    8,
                                    255,
                                    256,
                                    65535,
                                    65536,
                                    1u << 24,
                                    (1u << 31) - 1,
                                    1u << 31,
                                    UINT32_MAX - 1,
                                    UINT32_MAX,
                                    1ull << 32,
                                    1ull << 53,
                                    (1ull << 63) - 1,
                                    1ull << 63,
                                    UINT64_MAX - 7,
                                    UINT64_MAX - 1,
                                    UINT64_MAX};
enum { EXTREMES = sizeof extremes / sizeof *extremes };

/* The sections of a valid file: those of the plan and the other ones. Tests change them. */
typedef struct parts {
  fixture f;
  fixture_buffer plan, rest;
} parts;

static inline parts split_fixture(fixture_spec spec) {
  parts p = {.f = fixture_make(&spec)};
  size_t plan_end = 64 + (size_t)bq_load64(p.f.bytes + 16), at = plan_end;
  fixture_put(&p.plan, p.f.bytes + 64, plan_end - 24 - 64);
  while (memcmp(p.f.bytes + at, "SUM8", 4) != 0)
    at += 16 + (size_t)(bq_load64(p.f.bytes + at + 8) + 7) / 8 * 8;
  fixture_put(&p.rest, p.f.bytes + plan_end, at - plan_end);
  return p;
}

/* Joins the sections to a header, reads it and frees the parts. The header may be longer than
 * before if the fixture has a gap before its data. */
static inline bq_status read_parts(parts *p, bq_error *err) {
  fixture_buffer prefix = fixture_prefix(&p->plan, &p->rest, p->f.n);
  bytes b = copy_of(prefix.data, prefix.n);
  uint64_t need = 0;
  bq_status status = read_prefix(b, p->f.n, NULL, true, &need, err);
  free(b.data);
  free(prefix.data);
  fixture_free(&p->f);
  free(p->plan.data);
  free(p->rest.data);
  return status;
}

/* The parts of a file without hashes, whose number depends on the length of the header, and with a
 * gap before the data, so that the header can be longer. */
static inline parts parts_with_gap(void) {
  fixture_spec spec = fixture_llama();
  spec.no_hashes = true;
  spec.gap = 8192;
  return split_fixture(spec);
}

#endif
