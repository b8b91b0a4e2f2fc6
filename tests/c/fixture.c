#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cursor.h"
#include "core/hash.h"
#include "fixture_tensors.h"

enum { CHUNK = 1 << 20 };

/* --- bytes ---------------------------------------------------------------------------------- */

void fixture_put(fixture_buffer *b, const void *bytes, size_t n) {
  if (b->n + n > b->capacity) {
    b->capacity = 2 * (b->n + n) + 256;
    b->data = check_allocation(realloc(b->data, b->capacity));
  }
  if (n) memcpy(b->data + b->n, bytes, n);
  b->n += n;
}

void fixture_u8(fixture_buffer *b, uint8_t v) { fixture_put(b, &v, 1); }
static void put_number(fixture_buffer *b, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) fixture_u8(b, (uint8_t)(v >> 8 * i));
}

void fixture_u16(fixture_buffer *b, uint16_t v) { put_number(b, v, 2); }
void fixture_u32(fixture_buffer *b, uint32_t v) { put_number(b, v, 4); }
void fixture_u64(fixture_buffer *b, uint64_t v) { put_number(b, v, 8); }
void fixture_f32(fixture_buffer *b, float v) {
  uint32_t u;
  memcpy(&u, &v, sizeof u);
  fixture_u32(b, u);
}
void fixture_pad(fixture_buffer *b, size_t align) {
  while (b->n % align) fixture_u8(b, 0);
}

static void store64(uint8_t *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

void fixture_put_section(fixture_buffer *b, const char *tag, uint32_t flags, const uint8_t *payload,
                         size_t n) {
  fixture_put(b, tag, 4);
  fixture_u32(b, flags);
  fixture_u64(b, n);
  fixture_put(b, payload, n);
  fixture_pad(b, 8);
}

/* Appends a section and frees its payload `part`. */
static void put_part(fixture_buffer *b, const char *tag, uint32_t flags, fixture_buffer part) {
  fixture_put_section(b, tag, flags, part.data, part.n);
  free(part.data);
}

/* --- sections ------------------------------------------------------------------------------- */

static void put_key(fixture_buffer *b, uint16_t key, uint32_t value) {
  fixture_u16(b, key);
  fixture_u8(b, 0);
  fixture_u8(b, 1);
  fixture_u32(b, value);
}

static void put_float_key(fixture_buffer *b, uint16_t key, float value) {
  fixture_u16(b, key);
  fixture_u8(b, 1);
  fixture_u8(b, 1);
  fixture_f32(b, value);
}

static void put_set(fixture_buffer *b, uint32_t first, const bq_layer_set *set) {
  for (uint32_t i = 0; i < BQ_LAYERS_MAX / 32; i++)
    if (set->bits[i]) put_key(b, (uint16_t)(first + i), set->bits[i]);
}

static void put_layer_keys(fixture_buffer *b, const bq_config *c) {
  const uint32_t experts[] = {c->experts, c->experts_used, c->expert_ffn, c->shared_ffn,
                              c->experts_sum};
  for (uint16_t i = 0; i < 5; i++)
    if (experts[i]) put_key(b, (uint16_t)(54 + i), experts[i]);
  put_set(b, 64, &c->global_layers);
  put_set(b, 96, &c->unrotated_layers);
  put_set(b, 128, &c->dense_layers);
  put_set(b, 160, &c->conv_layers);
}

static void put_recurrence_keys(fixture_buffer *b, const bq_config *c) {
  const uint32_t state[] = {c->state_key_heads, c->state_value_heads, c->state_key_dim,
                            c->state_value_dim, c->state_strided,     c->attn_gate,
                            c->mamba,           c->attn_beside};
  for (uint16_t i = 0; i < 8; i++)
    if (state[i]) put_key(b, (uint16_t)(42 + i), state[i]);
  if (c->conv_size) put_key(b, 59, c->conv_size);
  if (c->sub_norms) put_key(b, 205, c->sub_norms);
  if (c->local_rope_dim) put_key(b, 206, c->local_rope_dim);
  if (c->attn_sinks) put_key(b, 207, c->attn_sinks);
}

/* Keys from 19 on that are left out if their value is 0. */
static void put_optional_keys(fixture_buffer *b, const bq_config *c) {
  const uint32_t numbers[] = {c->norm_place, c->block, c->qk_norm, c->window, c->global_every,
                              c->unrotated_every};
  const float floats[] = {c->local_theta, c->attn_scale, c->attn_softcap, c->logit_softcap,
                          c->embed_scale, c->residual_scale, c->logit_scale};
  const uint32_t last[] = {c->bidirectional, c->embed_norm, c->token_types};
  for (uint16_t i = 0; i < 6; i++)
    if (numbers[i]) put_key(b, (uint16_t)(19 + i), numbers[i]);
  for (uint16_t i = 0; i < 7; i++)
    if (floats[i] > 0) put_float_key(b, (uint16_t)(25 + i), floats[i]);
  const uint32_t embedder[] = {c->no_head, c->pooling, c->normalize, c->text_tokens};
  for (uint16_t i = 0; i < 3; i++)
    if (last[i]) put_key(b, (uint16_t)(34 + i), last[i]);
  for (uint16_t i = 0; i < 4; i++)
    if (embedder[i]) put_key(b, (uint16_t)(50 + i), embedder[i]);
  if (c->rope_scale > 0) put_float_key(b, 37, c->rope_scale);
  if (c->rope_original) put_key(b, 38, c->rope_original);
  const float attention[] = {c->alibi_max, c->alibi_scale, c->qkv_clip};
  for (uint16_t i = 0; i < 3; i++)
    if (attention[i] > 0) put_float_key(b, (uint16_t)(39 + i), attention[i]);
}

fixture_buffer fixture_conf(const bq_config *c) {
  fixture_buffer b = {0};
  const uint32_t first[] = {c->arch, c->layers, c->hidden, c->heads, c->kv_heads,
                            c->head_dim, c->ffn, c->vocab, c->context, c->norm};
  for (uint16_t i = 0; i < 10; i++) put_key(&b, (uint16_t)(i + 1), first[i]);
  put_float_key(&b, 11, c->norm_eps);
  put_key(&b, 12, c->position);
  if (c->position == BQ_POSITION_ROPE) {
    put_float_key(&b, 13, c->rope_theta);
    put_key(&b, 14, c->rope_pairs);
    put_key(&b, 15, c->rope_dim);
  }
  put_key(&b, 16, c->activation);
  put_key(&b, 17, c->gated);
  put_key(&b, 18, c->tied);
  put_optional_keys(&b, c);
  put_layer_keys(&b, c);
  put_recurrence_keys(&b, c);
  put_key(&b, 32, c->tokens);
  put_key(&b, 33, c->merges);
  return b;
}

/* Writes the text of a token and returns its length. The vocabulary: <unk>, <s>, </s>, the
 * printable ASCII characters, then words of two or three letters. */
static uint32_t token_text(uint32_t id, char out[8]) {
  static const char *const special[] = {"<unk>", "<s>", "</s>"};
  if (id < 3) return (uint32_t)strlen(strcpy(out, special[id]));
  if (id < 3 + 95) {
    out[0] = (char)(' ' + id - 3);
    return 1;
  }
  out[0] = (char)('a' + (id - 98) % 26);
  out[1] = (char)('a' + (id - 98) / 26 % 26);
  out[2] = (char)('a' + (id - 98) / 676 % 26);
  return id - 98 < 676 ? 2 : 3;
}

static fixture_buffer tokn_section(uint32_t tokens) {
  fixture_buffer b = {0}, text = {0}, ends = {0};
  for (uint32_t i = 0; i < tokens; i++) {
    char word[8];
    fixture_put(&text, word, token_text(i, word));
    fixture_u32(&ends, (uint32_t)text.n);
  }
  const uint32_t head[] = {3, 0, 0, 1, 2, 0, BQ_TOKEN_NONE, 1, tokens, 0, (uint32_t)text.n, 2};
  for (size_t i = 0; i < sizeof head / sizeof *head; i++) fixture_u32(&b, head[i]);
  fixture_put(&b, ends.data, ends.n);
  for (uint32_t i = 0; i < tokens; i++) fixture_f32(&b, 0.0f);
  for (uint32_t i = 0; i < tokens; i++) fixture_u8(&b, i == 0 ? 1 : i < 3 ? 2 : 0);
  fixture_pad(&b, 4);
  fixture_put(&b, text.data, text.n);
  free(text.data);
  free(ends.data);
  return b;
}

static uint32_t dimensions(const fixture_tensor *t) { return t->ndims + (t->stacked > 0); }

static void put_dims(fixture_buffer *b, const fixture_tensor *t) {
  if (t->stacked) fixture_u32(b, t->stacked);
  fixture_u32(b, t->dims[0] / (t->stacked ? t->stacked : 1));
  if (t->ndims == 2) fixture_u32(b, t->dims[1]);
}

/* Writes the list of the types in use, in ascending order. */
static void put_types(fixture_buffer *b, const fixture *f) {
  bool used[BQ_TYPE_COUNT] = {false};
  uint32_t n = 0;
  for (size_t i = 0; i < f->n_tensors; i++) {
    n += !used[f->tensors[i].type];
    used[f->tensors[i].type] = true;
  }
  fixture_u32(b, n);
  for (uint32_t i = 0; i < BQ_TYPE_COUNT; i++) {
    if (!used[i]) continue;
    const char *name = bq_type_get(i)->name;
    fixture_u8(b, (uint8_t)i);
    fixture_u8(b, (uint8_t)strlen(name));
    fixture_put(b, name, strlen(name));
  }
}

/* Number of tensors that are in the file. */
static uint32_t n_stored(const fixture *f) {
  uint32_t n = 0;
  for (size_t i = 0; i < f->n_tensors; i++) n += f->tensors[i].bytes != 0;
  return n;
}

static fixture_buffer tens_section(const fixture *f) {
  fixture_buffer b = {0};
  put_types(&b, f);
  fixture_u32(&b, n_stored(f));
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    if (!t->bytes) continue;
    fixture_u16(&b, (uint16_t)strlen(t->name));
    fixture_put(&b, t->name, strlen(t->name));
    fixture_u8(&b, (uint8_t)t->type);
    fixture_u8(&b, (uint8_t)t->layout);
    fixture_u8(&b, (uint8_t)dimensions(t));
    put_dims(&b, t);
    fixture_u64(&b, t->offset);
    fixture_u64(&b, t->bytes);
  }
  return b;
}

static void put_text(fixture_buffer *b, const char *tag, const char *text) {
  fixture_put_section(b, tag, 0, (const uint8_t *)text, strlen(text));
}

static fixture_buffer filled_buffer(size_t n, char c) {
  fixture_buffer b = {0};
  while (b.n < n) fixture_u8(&b, (uint8_t)c);
  return b;
}

static const char CHAT[] =
    "{\"roles\": {\"user\": {\"before\": \"\", \"after\": \"\\n\"}, "
    "\"assistant\": {\"before\": \"\", \"after\": \"\\n\"}}, \"stop\": [\"\\n\"], \"bos\": true}";

/* --- v2 ------------------------------------------------------------------------------------- */

static void put_header(fixture_buffer *b, uint64_t plan, uint64_t prefix, uint64_t file) {
  fixture_put(b, "BQ4F", 4);
  const uint32_t versions[] = {2, 0, 0};
  for (int i = 0; i < 3; i++) fixture_u32(b, versions[i]);
  const uint64_t lengths[] = {plan, prefix, file};
  for (int i = 0; i < 3; i++) fixture_u64(b, lengths[i]);
  fixture_put(b, "a fixture's id..", 16);
  fixture_u64(b, bq_xxh64(b->data, 56, 0));
}

static void put_sum(fixture_buffer *b, size_t from) {
  uint8_t sum[8];
  store64(sum, bq_xxh64(b->data + from, b->n - from, 0));
  fixture_put_section(b, "SUM8", 0, sum, 8);
}

/* Sets the offsets of tensors, from `prefix` on; returns the offset of the end of the data. */
static uint64_t place_tensors(const fixture_spec *spec, fixture *f, uint64_t prefix) {
  uint64_t at = prefix;
  for (size_t i = 0; i < f->n_tensors; i++) {
    at = (at + 63) / 64 * 64 + spec->gap;
    f->tensors[i].offset = at;
    at += f->tensors[i].bytes;
  }
  return at + spec->gap;
}

fixture_buffer fixture_prefix(const fixture_buffer *plan, const fixture_buffer *rest,
                              uint64_t file_bytes) {
  fixture_buffer b = {0};
  uint64_t prefix = 64 + plan->n + 24 + rest->n + 24;
  put_header(&b, plan->n + 24, (prefix + 63) / 64 * 64, file_bytes);
  fixture_put(&b, plan->data, plan->n);
  put_sum(&b, 64);
  fixture_put(&b, rest->data, rest->n);
  put_sum(&b, 0);
  fixture_pad(&b, 64);
  return b;
}

static fixture_buffer hash_section(uint64_t data_bytes, bool sha256) {
  fixture_buffer b = {0};
  fixture_u32(&b, sha256 ? 2 : 1);
  fixture_u32(&b, CHUNK);
  uint64_t words = (data_bytes + CHUNK - 1) / CHUNK * (sha256 ? 4 : 1);
  for (uint64_t i = 0; i < words; i++) fixture_u64(&b, 0);
  return b;
}

/* The header of a v2 file. Chunk hashes are 0; fixture_seal computes them. The length of the header
 * does not depend on the offsets of the tensors. */
static fixture_buffer make_prefix(const fixture_spec *spec, fixture *f, uint64_t data_bytes,
                                  uint64_t file_bytes) {
  fixture_buffer plan = {0}, rest = {0};
  put_part(&plan, "CONF", 1, fixture_conf(&f->config));
  put_text(&plan, "LICE", "MIT");
  put_part(&plan, "TENS", 1, tens_section(f));
  put_text(&plan, "NAME", "fixture");
  if (f->config.tokens) put_part(&rest, "TOKN", 0, tokn_section(f->config.tokens));
  put_text(&rest, "CHAT", CHAT);
  put_part(&rest, "CARD", 0, filled_buffer(spec->card_bytes, 'x'));
  if (!spec->no_hashes) put_part(&rest, "HASH", 0, hash_section(data_bytes, spec->sha256));
  fixture_buffer b = fixture_prefix(&plan, &rest, file_bytes);
  free(plan.data);
  free(rest.data);
  return b;
}

static void make_v2(const fixture_spec *spec, fixture *f) {
  uint64_t data = place_tensors(spec, f, 0);
  fixture_buffer b = make_prefix(spec, f, data, data);
  f->prefix_bytes = b.n;
  free(b.data);
  uint64_t end = place_tensors(spec, f, f->prefix_bytes);
  b = make_prefix(spec, f, data, end);
  for (size_t i = 0; i < f->n_tensors; i++) {
    while (b.n < f->tensors[i].offset) fixture_u8(&b, 0);
    fixture_put(&b, f->tensors[i].stored, (size_t)f->tensors[i].bytes);
  }
  while (b.n < end) fixture_u8(&b, 0);
  f->bytes = b.data;
  f->n = b.n;
  fixture_seal(f->bytes, f->n);
}

/* The offset of section `tag` within [from, to); `to` if there is none. */
static size_t find_section(const uint8_t *bytes, size_t from, size_t to, const char *tag) {
  while (from + 16 <= to && memcmp(bytes + from, tag, 4) != 0) {
    uint64_t length = bq_load64(bytes + from + 8);
    if (length > to - from - 16) return to;
    from += 16 + (size_t)((length + 7) / 8 * 8);
  }
  return from + 16 <= to ? from : to;
}

uint8_t *fixture_section(const uint8_t *bytes, size_t n, const char *tag, size_t *length) {
  bool file = n > 64 && memcmp(bytes, "BQ4F", 4) == 0;
  size_t plan_end = file ? 64 + (size_t)bq_load64(bytes + 16) : n;
  size_t at = find_section(bytes, file ? 64 : 0, plan_end, tag);
  if (at == plan_end && file) {
    size_t end = (size_t)bq_load64(bytes + 24);
    at = find_section(bytes, plan_end, end, tag);
    if (at == end) return NULL;
  } else if (at == plan_end) {
    return NULL;
  }
  if (length) *length = (size_t)bq_load64(bytes + at + 8);
  return (uint8_t *)bytes + at + 16;
}

static void seal_hashes(uint8_t *bytes, size_t n, size_t prefix, size_t at) {
  uint64_t length = bq_load64(bytes + at + 8);
  if (length < 8 || length > prefix - at - 16) return;
  bool sha256 = bq_load32(bytes + at + 16) == 2;
  size_t width = sha256 ? BQ_SHA256_BYTES : 8;
  for (size_t c = 0; 8 + (c + 1) * width <= length; c++) {
    size_t from = prefix + c * CHUNK;
    if (from >= n) return;
    size_t size = n - from < CHUNK ? n - from : CHUNK;
    uint8_t *place = bytes + at + 24 + c * width;
    if (sha256) bq_sha256(bytes + from, size, place);
    else store64(place, bq_xxh64(bytes + from, size, 0));
  }
}

void fixture_seal(uint8_t *bytes, size_t n) {
  if (n < 64 || bq_load32(bytes + 4) != 2) return;
  store64(bytes + 56, bq_xxh64(bytes, 56, 0));
  uint64_t plan = bq_load64(bytes + 16), prefix = bq_load64(bytes + 24);
  if (plan > n - 64 || plan < 24 || prefix > n || prefix < 64 + plan) return;
  size_t end = 64 + (size_t)plan, rest = (size_t)prefix;
  store64(bytes + end - 8, bq_xxh64(bytes + 64, end - 64 - 24, 0));
  size_t hash = find_section(bytes, end, rest, "HASH");
  if (hash < rest) seal_hashes(bytes, n, rest, hash);
  size_t sum = find_section(bytes, end, rest, "SUM8");
  if (sum + 24 <= rest) store64(bytes + sum + 16, bq_xxh64(bytes, sum, 0));
}

/* --- v1 ------------------------------------------------------------------------------------- */

static void put_v1_entry(fixture_buffer *b, const fixture_tensor *t) {
  uint32_t block = bq_type_get(t->type)->block;
  fixture_u32(b, (uint32_t)strlen(t->name));
  fixture_put(b, t->name, strlen(t->name));
  fixture_u32(b, dimensions(t));
  put_dims(b, t);
  fixture_u32(b, block);
  fixture_u32(b, (uint32_t)(weights_of(t) / block));
  fixture_u64(b, t->offset);
}

static fixture_buffer v1_directory(const fixture *f) {
  fixture_buffer b = {0};
  fixture_put(&b, "BQ4F", 4);
  fixture_u32(&b, 1);
  fixture_u32(&b, n_stored(f));
  for (size_t i = 0; i < f->n_tensors; i++)
    if (f->tensors[i].bytes) put_v1_entry(&b, &f->tensors[i]);
  return b;
}

static fixture_buffer xtra_section(const fixture *f) {
  fixture_buffer b = {0};
  fixture_u32(&b, (uint32_t)f->n_tensors - n_stored(f));
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    if (t->bytes) continue;
    fixture_u16(&b, (uint16_t)strlen(t->name));
    fixture_put(&b, t->name, strlen(t->name));
    fixture_u8(&b, (uint8_t)dimensions(t));
    put_dims(&b, t);
    fixture_put(&b, t->stored, weights_of(t) * 4);
  }
  return b;
}

/* The header of another container, which the loader does not read. */
static fixture_buffer foreign_header(void) {
  fixture_buffer b = {0};
  fixture_put(&b, "a header of some other format", 29);
  return b;
}

static fixture_buffer manifest_of(const fixture *f) {
  fixture_buffer m = {0};
  put_part(&m, "CONF", 1, fixture_conf(&f->config));
  put_part(&m, "TENS", 1, tens_section(f));
  put_text(&m, "NAME", "fixture");
  if (f->config.tokens) put_part(&m, "TOKN", 0, tokn_section(f->config.tokens));
  put_text(&m, "CHAT", CHAT);
  put_part(&m, "XTRA", 0, xtra_section(f));
  return m;
}

/* A file of v1 or of another container: a header, then tensors, which a manifest lists. */
static void make_foreign(const fixture_spec *spec, fixture *f) {
  const bool v1 = spec->version == 1;
  fixture_buffer b = v1 ? v1_directory(f) : foreign_header();
  f->prefix_bytes = b.n;
  free(b.data);
  uint64_t at = f->prefix_bytes;
  for (size_t k = 0; k < f->n_tensors; k++) {
    /* Scattered: the second half of the tensors, then the first half, with gaps of odd lengths. */
    size_t i = spec->scattered ? (k + f->n_tensors / 2) % f->n_tensors : k;
    if (!f->tensors[i].bytes) continue;
    if (spec->scattered) at += 1 + k % 7;
    if (spec->align) at = (at + spec->align - 1) / spec->align * spec->align;
    f->tensors[i].offset = at;
    at += f->tensors[i].bytes;
  }
  b = v1 ? v1_directory(f) : foreign_header();
  while (b.n < at) fixture_u8(&b, 0xa5); /* Bytes in gaps are never read. */
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    if (t->bytes) memcpy(b.data + t->offset, t->stored, (size_t)t->bytes);
  }
  f->bytes = b.data;
  f->n = b.n;
  b = manifest_of(f);
  f->manifest = b.data;
  f->manifest_bytes = b.n;
}

/* --- fixtures ------------------------------------------------------------------------------- */

fixture_spec fixture_llama(void) {
  return (fixture_spec){
      .version = 2,
      .config = {.arch = 1, .layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .head_dim = 8,
                 .ffn = 48, .vocab = 96, .context = 64, .norm = BQ_NORM_RMS, .norm_eps = 1e-5f,
                 .position = BQ_POSITION_ROPE, .rope_theta = 10000.0f, .rope_dim = 8,
                 .activation = BQ_SILU, .gated = true},
      .seed = 1};
}

fixture_spec fixture_bullet(void) {
  return (fixture_spec){
      .version = 2,
      .config = {.arch = 2, .layers = 2, .hidden = 32, .heads = 4, .kv_heads = 4, .head_dim = 8,
                 .ffn = 64, .vocab = 96, .context = 32, .norm = BQ_NORM_LAYER, .norm_eps = 1e-5f,
                 .position = BQ_POSITION_LEARNED, .rope_theta = 10000.0f, .rope_dim = 8,
                 .activation = BQ_GELU, .gated = true},
      .biases = true,
      .seed = 1};
}

fixture_spec fixture_modern(void) {
  fixture_spec s = fixture_llama();
  s.config = (bq_config){.arch = 5, .layers = 3, .hidden = 40, .heads = 4, .kv_heads = 2,
                         .head_dim = 12, .ffn = 56, .vocab = 96, .context = 64, .norm_eps = 1e-6f,
                         .rope_theta = 10000.0f, .rope_dim = 8, .activation = BQ_GELU_ERF,
                         .gated = true, .norm_place = BQ_NORM_SANDWICH, .qk_norm = BQ_QK_HEADS,
                         .window = 5, .global_every = 2, .unrotated_every = 3,
                         .local_theta = 500.0f, .attn_scale = 0.2f, .attn_softcap = 5.0f,
                         .logit_softcap = 9.0f, .embed_scale = 6.0f, .residual_scale = 0.5f,
                         .logit_scale = 0.7f, .embed_norm = true, .token_types = 2};
  s.factors = true;
  return s;
}

fixture_spec fixture_listed(void) {
  fixture_spec s = fixture_llama();
  s.config.layers = 4;
  s.config.window = 5;
  s.config.global_layers = (bq_layer_set){{1u << 0 | 1u << 3}};
  s.config.unrotated_layers = (bq_layer_set){{1u << 0 | 1u << 1}};
  s.config.experts = 4;
  s.config.experts_used = 2;
  s.config.expert_ffn = 16;
  s.config.dense_layers = (bq_layer_set){{1u << 1 | 1u << 2}};
  return s;
}

fixture_spec fixture_convolution(void) {
  fixture_spec s = fixture_llama();
  s.config.conv_size = 3;
  s.config.attn_gate = BQ_ATTN_GATE_HEADS;
  s.config.conv_layers = (bq_layer_set){{1u << 0}};
  return s;
}

fixture_spec fixture_delta(void) {
  fixture_spec s = fixture_convolution();
  s.config.attn_gate = BQ_ATTN_GATE_DIMS;
  s.config.state_key_heads = 2;
  s.config.state_value_heads = 4;
  s.config.state_key_dim = 6;
  s.config.state_value_dim = 8;
  return s;
}

fixture_spec fixture_mamba(bool beside) {
  fixture_spec s = fixture_convolution();
  s.config.mamba = beside ? BQ_MAMBA_GATE : BQ_MAMBA_GATE_NORM;
  s.config.attn_beside = beside;
  s.config.state_key_heads = 1;
  s.config.state_value_heads = 3;
  s.config.state_key_dim = 6;
  s.config.state_value_dim = 20;
  return s;
}

fixture fixture_make(const fixture_spec *input) {
  fixture_spec spec = *input;
  if (!spec.version) spec.version = 2;
  fixture f = {.config = spec.config};
  f.config.tokens = spec.no_tokenizer ? 0 : spec.config.vocab;
  f.config.merges = 0;
  builder m = {&spec, &f, spec.seed};
  add_tensors(&m);
  if (spec.version != 2) make_foreign(&spec, &f);
  else make_v2(&spec, &f);
  return f;
}

void fixture_free(fixture *f) {
  for (size_t i = 0; i < f->n_tensors; i++) {
    free(f->tensors[i].values);
    free(f->tensors[i].input);
    free(f->tensors[i].stored);
  }
  free(f->tensors);
  free(f->bytes);
  free(f->manifest);
  *f = (fixture){0};
}

const fixture_tensor *fixture_find(const fixture *f, const char *name) {
  for (size_t i = 0; i < f->n_tensors; i++)
    if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
  return NULL;
}

/* --- memory ------------------------------------------------------------------------------- */

/* A record in front of each block has the start of malloc's block and the length. Guard bytes after
 * the block are checked when it is freed, because wasm has no sanitizer. */
enum { GUARD = BQ_ALIGN, GUARD_BYTE = 0xa7 };

typedef struct record {
  void *start;
  size_t bytes;
} record;

static void *allocate(void *ctx, size_t bytes) {
  fixture_memory *m = ctx;
  uint8_t *start = bytes < SIZE_MAX / 2 ? malloc(bytes + 2 * BQ_ALIGN + GUARD) : NULL;
  if (!start) return NULL;
  uint8_t *p = start + 2 * BQ_ALIGN - (uintptr_t)start % BQ_ALIGN;
  ((record *)(void *)p)[-1] = (record){start, bytes};
  memset(p + bytes, GUARD_BYTE, GUARD);
  m->used += bytes;
  m->blocks++;
  if (m->used > m->peak) m->peak = m->used;
  return p;
}

static void release(void *ctx, void *p) {
  fixture_memory *m = ctx;
  if (!p) return;
  record r = ((record *)p)[-1];
  for (size_t i = 0; i < GUARD; i++)
    if (((uint8_t *)p)[r.bytes + i] != GUARD_BYTE) abort();
  m->used -= r.bytes;
  m->blocks--;
  free(r.start);
}

bq_allocator fixture_allocator(fixture_memory *memory) {
  return (bq_allocator){memory, allocate, release};
}
