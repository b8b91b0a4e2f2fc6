/* CONF payloads: every key at the ends of its range and outside, defaults, combinations that are
 * refused. */
#include "check.h"

#include <stdlib.h>

#include "core/cursor.h"
#include "fixture.h"

enum { U32, F32 };
enum { AT = 1000 }; /* file offset of the payload */

static uint32_t bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static void put(fixture_buffer *b, uint32_t key, uint32_t kind, uint32_t flags, uint32_t value) {
  fixture_u16(b, (uint16_t)key);
  fixture_u8(b, (uint8_t)kind);
  fixture_u8(b, (uint8_t)flags);
  fixture_u32(b, value);
}

/* A payload with the required keys except `but`. */
static fixture_buffer required_keys_without(uint32_t but) {
  static const uint32_t keys[][3] = {{1, U32, 1},  {2, U32, 3},          {3, U32, 48},
                                     {4, U32, 6},  {7, U32, 100},        {8, U32, 500},
                                     {9, U32, 64}, {11, F32, 0x3727c5ac}};
  fixture_buffer b = {0};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (keys[i][0] != but) put(&b, keys[i][0], keys[i][1], 1, keys[i][2]);
  return b;
}

static bq_status read_and_free(fixture_buffer b, bq_config *out, bq_error *err) {
  /* A copy of exactly this length, so that the sanitizer detects reads after the end. */
  uint8_t *exact = malloc(b.n ? b.n : 1);
  if (b.n) memcpy(exact, b.data, b.n);
  *out = (bq_config){0};
  bq_status status = bq_config_read(exact, b.n, AT, out, err);
  free(exact);
  free(b.data);
  return status;
}

static void test_defaults(void) {
  bq_config c;
  bq_error err = {0};
  CHECK_EQ(read_and_free(required_keys_without(0), &c, &err), BQ_OK);
  CHECK_EQ(c.arch, 1);
  CHECK_EQ(c.layers, 3);
  CHECK_EQ(c.hidden, 48);
  CHECK_EQ(c.heads, 6);
  CHECK_EQ(c.kv_heads, 6);
  CHECK_EQ(c.head_dim, 8);
  CHECK_EQ(c.ffn, 100);
  CHECK_EQ(c.vocab, 500);
  CHECK_EQ(c.context, 64);
  CHECK_EQ(c.norm, BQ_NORM_RMS);
  CHECK(c.norm_eps == 1e-5f);
  CHECK_EQ(c.position, BQ_POSITION_ROPE);
  CHECK(c.rope_theta == 10000.0f);
  CHECK_EQ(c.rope_pairs, BQ_ROPE_HALF);
  CHECK_EQ(c.rope_dim, 8);
  CHECK_EQ(c.activation, BQ_SILU);
  CHECK(c.gated && !c.tied);
  CHECK_EQ(c.tokens, 0);
  CHECK_EQ(c.merges, 0);
}

static void test_round_trip(void) {
  bq_config expected = fixture_bullet().config, c;
  expected.kv_heads = 2;
  expected.rope_pairs = BQ_ROPE_ADJACENT;
  expected.position = BQ_POSITION_ROPE;
  expected.rope_theta = 5e5f;
  expected.rope_dim = 4;
  expected.tied = true;
  expected.gated = false;
  expected.tokens = 90;
  expected.merges = 7;
  bq_error err = {0};
  CHECK_EQ(read_and_free(fixture_conf(&expected), &c, &err), BQ_OK);
  CHECK_MEM(&c.arch, &expected.arch, 9 * sizeof c.arch);
  CHECK(c.norm == expected.norm && c.norm_eps == expected.norm_eps &&
        c.position == expected.position);
  CHECK(c.rope_theta == expected.rope_theta && c.rope_pairs == expected.rope_pairs);
  CHECK(c.rope_dim == 4 && c.activation == expected.activation && !c.gated && c.tied);
  CHECK(c.tokens == 90 && c.merges == 7);
}

static void test_missing(void) {
  static const uint32_t needed[] = {1, 2, 3, 4, 7, 8, 9, 11};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    bq_config c;
    bq_error err = {0};
    CHECK_EQ(read_and_free(required_keys_without(needed[i]), &c, &err), BQ_FORMAT);
    CHECK_EQ(err.offset, AT);
    CHECK(strstr(err.detail, "lacks"));
    CHECK_EQ(c.layers, 0); /* The output is unchanged. */
  }
}

/* Reads the required keys with one key set to `value`. */
static bq_status read_with(uint32_t key, uint32_t kind, uint32_t value, bq_config *c,
                           bq_error *err) {
  fixture_buffer b = required_keys_without(key);
  put(&b, key, kind, 0, value);
  return read_and_free(b, c, err);
}

static void test_ranges(void) {
  static const struct {
    uint32_t key, min, max; /* of the required keys only */
    bq_status outside;
  } ranges[] = {{1, 1, 65535, BQ_UNSUPPORTED}, {2, 1, 1024, BQ_FORMAT},  {4, 1, 1024, BQ_FORMAT},
                {7, 0, 1 << 20, BQ_FORMAT}, {8, 1, 1 << 24, BQ_FORMAT}, {9, 1, 1 << 24, BQ_FORMAT},
                {10, 0, 1, BQ_UNSUPPORTED}, {12, 0, 3, BQ_UNSUPPORTED}, {14, 0, 1, BQ_UNSUPPORTED},
                {15, 2, 8, BQ_FORMAT},     {16, 0, 4, BQ_UNSUPPORTED}, {17, 0, 1, BQ_FORMAT},
                {18, 0, 1, BQ_FORMAT},     {32, 0, 500, BQ_FORMAT},    {33, 0, 0, BQ_FORMAT},
                {19, 0, 3, BQ_UNSUPPORTED}, {20, 0, 2, BQ_UNSUPPORTED}, {21, 0, 4, BQ_UNSUPPORTED},
                {22, 0, 1 << 24, BQ_FORMAT}, {23, 0, 1024, BQ_FORMAT}, {24, 0, 1024, BQ_FORMAT},
                {34, 0, 1, BQ_FORMAT},     {35, 0, 1, BQ_FORMAT},      {36, 0, 65536, BQ_FORMAT},
                {50, 0, 1, BQ_FORMAT},     {51, 0, 3, BQ_UNSUPPORTED}, {52, 0, 1, BQ_FORMAT},
                {53, 0, 64, BQ_FORMAT},     {38, 0, 1 << 24, BQ_FORMAT}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    const uint32_t key = ranges[i].key, values[] = {ranges[i].min, ranges[i].max};
    bq_config c;
    bq_error err = {0};
    for (int k = 0; k < 2; k++) {
      bq_status status = read_with(key, U32, values[k], &c, &err);
      /* 1,024 heads do not divide hidden 48, which is another error. */
      CHECK(status == BQ_OK || (key == 4 && strstr(err.detail, "don't divide hidden")));
    }
    const uint32_t beyond[] = {values[0] - 1, values[1] + 1, 1u << 31, UINT32_MAX};
    for (int k = 0; k < 4; k++) {
      CHECK_EQ(read_with(key, U32, beyond[k], &c, &err), ranges[i].outside);
      CHECK_EQ(err.offset, AT + (key < 10 ? 56 : 64)); /* The key is the last record. */
    }
    CHECK_EQ(read_with(key, F32, ranges[i].min, &c, &err), BQ_FORMAT); /* the wrong type */
  }
}

static void test_head_shapes(void) {
  bq_config c;
  bq_error err = {0};
  CHECK_EQ(read_with(3, U32, 65536, &c, &err), BQ_FORMAT); /* 6 heads don't divide it */
  CHECK_EQ(read_with(3, U32, 65538, &c, &err), BQ_FORMAT); /* 6 heads divide it; too large */
  CHECK_EQ(read_with(3, U32, 0, &c, &err), BQ_FORMAT);
  CHECK_EQ(read_with(5, U32, 3, &c, &err), BQ_OK);
  CHECK_EQ(c.kv_heads, 3);
  CHECK_EQ(read_with(5, U32, 4, &c, &err), BQ_FORMAT);
  CHECK_EQ(err.offset, AT + 64);
  CHECK_EQ(read_with(5, U32, 12, &c, &err), BQ_FORMAT);
  CHECK_EQ(read_with(5, U32, 0, &c, &err), BQ_FORMAT);
  CHECK_EQ(read_with(6, U32, 0, &c, &err), BQ_FORMAT);
  CHECK_EQ(read_with(6, U32, 4096, &c, &err), BQ_OK);
  CHECK_EQ(c.rope_dim, 4096);
  CHECK_EQ(read_with(6, U32, 4097, &c, &err), BQ_FORMAT);
  CHECK_EQ(read_with(6, U32, 7, &c, &err), BQ_FORMAT); /* an odd number, with RoPE */
  CHECK_EQ(read_with(15, U32, 7, &c, &err), BQ_FORMAT);
  fixture_buffer b = required_keys_without(4); /* 1,024 heads of 4,096 */
  put(&b, 4, U32, 1, 1024);
  put(&b, 6, U32, 1, 4096);
  CHECK_EQ(read_and_free(b, &c, &err), BQ_FORMAT);
  b = required_keys_without(4); /* one head, by default of 8,192 */
  fixture_buffer wide = {0};
  for (size_t i = 0; i < b.n; i += 8)
    put(&wide, b.data[i], b.data[i + 2], 1, b.data[i] == 3 ? 8192 : bq_load32(b.data + i + 4));
  put(&wide, 4, U32, 1, 1);
  free(b.data);
  CHECK_EQ(read_and_free(wide, &c, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "1 heads of 8192"));
  b = required_keys_without(0); /* an odd head_dim and learned positions */
  put(&b, 6, U32, 1, 7);
  put(&b, 12, U32, 1, 1);
  CHECK_EQ(read_and_free(b, &c, &err), BQ_OK);
}

static void test_floats(void) {
  static const float good_eps[] = {0.0f, 1e-30f, 1e-5f, 3e38f};
  static const uint32_t bad_eps[] = {0xb727c5acu, 0x7f800000u, 0xff800000u, 0x7fc00000u,
                                     0x7f800001u};
  bq_config c;
  bq_error err = {0};
  for (int i = 0; i < 4; i++) CHECK_EQ(read_with(11, F32, bits(good_eps[i]), &c, &err), BQ_OK);
  for (int i = 0; i < 5; i++) {
    CHECK_EQ(read_with(11, F32, bad_eps[i], &c, &err), BQ_FORMAT);
    CHECK_EQ(read_with(13, F32, bad_eps[i], &c, &err), BQ_FORMAT);
  }
  CHECK_EQ(read_with(13, F32, 0, &c, &err), BQ_FORMAT);
  CHECK_EQ(read_with(13, F32, bits(-0.0f), &c, &err), BQ_FORMAT);
  CHECK_EQ(read_with(13, F32, bits(1e6f), &c, &err), BQ_OK);
  CHECK_EQ(read_with(13, U32, 10000, &c, &err), BQ_FORMAT);
  for (uint32_t key = 25; key <= 31; key++) { /* 0 is the same as a missing key. */
    for (int i = 0; i < 4; i++) CHECK_EQ(read_with(key, F32, bits(good_eps[i]), &c, &err), BQ_OK);
    for (int i = 0; i < 5; i++) CHECK_EQ(read_with(key, F32, bad_eps[i], &c, &err), BQ_FORMAT);
    CHECK_EQ(read_with(key, U32, 1, &c, &err), BQ_FORMAT);
  }
}

static void test_embedder(void) {
  bq_config expected = fixture_bullet().config, c;
  expected.no_head = expected.normalize = true;
  expected.pooling = BQ_POOL_CLS;
  expected.text_tokens = 20;
  bq_error err = {0};
  REQUIRE(read_and_free(fixture_conf(&expected), &c, &err) == BQ_OK);
  CHECK(c.no_head && c.normalize && c.pooling == BQ_POOL_CLS && c.text_tokens == 20);
  expected.tied = true; /* but the model has no head */
  CHECK_EQ(read_and_free(fixture_conf(&expected), &c, &err), BQ_FORMAT);
}

static void test_experts(void) {
  static const struct {
    uint32_t keys[5]; /* experts, experts_used, expert_ffn, shared_ffn, experts_sum */
    bq_status status;
  } cases[] = {{{8, 2, 0, 0, 0}, BQ_OK},        {{8, 8, 40, 24, 1}, BQ_OK},
               {{8, 0, 0, 0, 0}, BQ_FORMAT},    {{8, 9, 0, 0, 0}, BQ_FORMAT},
               {{0, 2, 0, 0, 0}, BQ_FORMAT},    {{0, 0, 40, 0, 0}, BQ_FORMAT},
               {{0, 0, 0, 24, 0}, BQ_FORMAT},   {{0, 0, 0, 0, 1}, BQ_FORMAT},
               {{1025, 2, 0, 0, 0}, BQ_FORMAT}, {{99, 65, 0, 0, 0}, BQ_FORMAT},
               {{8, 2, 0, 0, 2}, BQ_FORMAT},    {{8, 2, (1 << 20) + 1, 0, 0}, BQ_FORMAT}};
  bq_config c;
  bq_error err = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture_buffer b = required_keys_without(0);
    for (uint32_t k = 0; k < 5; k++) put(&b, 54 + k, U32, 1, cases[i].keys[k]);
    CHECK_EQ(read_and_free(b, &c, &err), cases[i].status);
    if (cases[i].status == BQ_OK)
      CHECK_EQ(c.expert_ffn, cases[i].keys[2] ? cases[i].keys[2] : c.ffn);
  }
  static const struct {
    uint32_t experts, sigmoid;
    bq_status status;
  } sigmoids[] = {{8, 1, BQ_OK}, {8, 2, BQ_FORMAT}, {0, 1, BQ_FORMAT}};
  for (size_t i = 0; i < sizeof sigmoids / sizeof *sigmoids; i++) {
    fixture_buffer b = required_keys_without(0);
    put(&b, 54, U32, 1, sigmoids[i].experts);
    put(&b, 55, U32, 1, sigmoids[i].experts ? 2 : 0);
    put(&b, 203, U32, 1, sigmoids[i].sigmoid);
    CHECK_EQ(read_and_free(b, &c, &err), sigmoids[i].status);
  }
  static const uint32_t beside[][2] = {{20, 1}, {17, 0}}; /* parallel; without gates */
  for (int i = 0; i < 2; i++) {
    fixture_buffer b = required_keys_without(0);
    put(&b, 54, U32, 1, 8);
    put(&b, 55, U32, 1, 2);
    put(&b, beside[i][0], U32, 1, beside[i][1]);
    CHECK_EQ(read_and_free(b, &c, &err), i ? BQ_OK : BQ_UNSUPPORTED);
  }
}

/* Dense layers after the pooling, and keys of encoders: ranges and combinations. */
static void test_dense_layers_and_encoders(void) {
  enum { NORM_PLACE = 19, BIDIRECTIONAL = 34, DENSE1 = 60, DENSE2, ACTIVATION, LABELS };
  enum { FIRST_UNNORMED = 192, BIAS_BUCKETS };
  static const struct {
    uint32_t keys[3][2];
    bq_status status;
  } cases[] = {
      {{{DENSE1, 65536}, {DENSE2, 7}, {ACTIVATION, 3}}, BQ_OK},
      {{{DENSE2, 3}, {LABELS, 1}}, BQ_OK},
      {{{DENSE1, 65537}}, BQ_FORMAT},
      {{{DENSE2, 65537}}, BQ_FORMAT},
      {{{DENSE1, 4}, {ACTIVATION, 4}}, BQ_UNSUPPORTED},
      {{{DENSE2, 4}, {ACTIVATION, 1}}, BQ_FORMAT},
      {{{LABELS, 1}}, BQ_FORMAT},
      {{{DENSE2, 4}, {LABELS, 2}}, BQ_FORMAT},
      {{{FIRST_UNNORMED, 1}}, BQ_OK},
      {{{FIRST_UNNORMED, 2}}, BQ_FORMAT},
      {{{FIRST_UNNORMED, 1}, {NORM_PLACE, 3}}, BQ_FORMAT},
      {{{BIAS_BUCKETS, 32}, {BIDIRECTIONAL, 1}}, BQ_OK},
      {{{BIAS_BUCKETS, 32}}, BQ_UNSUPPORTED},
      {{{BIAS_BUCKETS, 16}, {BIDIRECTIONAL, 1}}, BQ_UNSUPPORTED},
      {{{BIAS_BUCKETS, 33}, {BIDIRECTIONAL, 1}}, BQ_FORMAT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bq_config c;
    bq_error err = {0};
    fixture_buffer b = required_keys_without(0);
    for (int k = 0; k < 3 && cases[i].keys[k][0]; k++)
      put(&b, cases[i].keys[k][0], U32, 1, cases[i].keys[k][1]);
    CHECK_EQ(read_and_free(b, &c, &err), cases[i].status);
    if (cases[i].keys[0][0] == DENSE1 && !cases[i].status)
      CHECK(c.dense1 == 65536 && c.dense2 == 7 && c.dense_activation == BQ_DENSE_RELU);
    if (cases[i].keys[0][0] == FIRST_UNNORMED && !cases[i].status) CHECK(c.first_unnormed);
    if (cases[i].keys[0][0] == BIAS_BUCKETS && !cases[i].status) CHECK_EQ(c.bias_buckets, 32);
  }
}

/* Global layers with heads of another size, and per-layer embeddings with a table and without, also
 * in an encoder. */
static void test_layer_shapes(void) {
  enum { NORM_PLACE = 19, WINDOW = 22, GLOBAL_EVERY, BIDIRECTIONAL = 34, GLOBAL_HEAD_DIM = 195 };
  enum { SHARED_KV = 197, LAYER_EMBED = 202, PROJECTED = 204, SUB_NORMS, LOCAL_ROPE_DIM, SINKS,
         EXPERTS = 54 };
  static const struct {
    uint32_t keys[5][2];
    bq_status status;
    uint32_t embeds; /* length of a token's row in the table */
  } cases[] = {
      {{{NORM_PLACE, 2}, {LAYER_EMBED, 16}}, BQ_OK, 48},
      {{{NORM_PLACE, 2}, {LAYER_EMBED, 16}, {PROJECTED, 1}}, BQ_OK, 0},
      {{{NORM_PLACE, 2}, {LAYER_EMBED, 12}, {PROJECTED, 1}}, BQ_FORMAT, 0},
      {{{NORM_PLACE, 2}, {LAYER_EMBED, 16}, {PROJECTED, 2}}, BQ_FORMAT, 0},
      {{{PROJECTED, 1}}, BQ_FORMAT, 0},
      {{{WINDOW, 4}, {GLOBAL_EVERY, 2}, {GLOBAL_HEAD_DIM, 16}}, BQ_OK, 0},
      {{{WINDOW, 4}, {GLOBAL_EVERY, 2}, {GLOBAL_HEAD_DIM, 16}, {BIDIRECTIONAL, 1}}, BQ_OK, 0},
      {{{GLOBAL_HEAD_DIM, 16}, {BIDIRECTIONAL, 1}}, BQ_UNSUPPORTED, 0},
      {{{WINDOW, 4}, {GLOBAL_EVERY, 2}, {SHARED_KV, 1}, {BIDIRECTIONAL, 1}}, BQ_FORMAT, 0},
      {{{LOCAL_ROPE_DIM, 2}}, BQ_OK, 0},
      {{{LOCAL_ROPE_DIM, 3}}, BQ_FORMAT, 0},
      {{{LOCAL_ROPE_DIM, 4096}}, BQ_FORMAT, 0},
      {{{LOCAL_ROPE_DIM, 2}, {12, 3}}, BQ_FORMAT, 0}, /* without rotary positions */
      {{{SINKS, 1}}, BQ_OK, 0},
      {{{SINKS, 2}}, BQ_FORMAT, 0},
      {{{SUB_NORMS, 1}}, BQ_OK, 0},
      {{{SUB_NORMS, 2}}, BQ_FORMAT, 0},
      {{{SUB_NORMS, 1}, {EXPERTS, 4}, {EXPERTS + 1, 2}}, BQ_UNSUPPORTED, 0},
      {{{SUB_NORMS, 1}, {10, 1}}, BQ_UNSUPPORTED, 0}, /* layer norms */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bq_config c;
    bq_error err = {0};
    fixture_buffer b = required_keys_without(0);
    put(&b, 25, F32, 1, bits(100)); /* local_theta */
    for (int k = 0; k < 5 && cases[i].keys[k][0]; k++)
      put(&b, cases[i].keys[k][0], U32, 1, cases[i].keys[k][1]);
    CHECK_EQ(read_and_free(b, &c, &err), cases[i].status);
    if (!cases[i].status) CHECK_EQ(bq_config_layer_embeds(&c), cases[i].embeds);
  }
}

/* Gates of attention with norms of q and k. */
static void test_gates(void) {
  static const struct {
    uint32_t gate, norm;
    bq_status status;
  } cases[] = {{1, 1, BQ_OK}, {1, 2, BQ_UNSUPPORTED}, {1, 3, BQ_OK}, {2, 2, BQ_OK},
               {3, 1, BQ_UNSUPPORTED}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bq_config c;
    bq_error err = {0};
    fixture_buffer b = required_keys_without(0);
    put(&b, 21, U32, 1, cases[i].norm);
    put(&b, 47, U32, 1, cases[i].gate);
    CHECK_EQ(read_and_free(b, &c, &err), cases[i].status);
    if (cases[i].status) CHECK(strstr(err.detail, "attn_gate"));
    else CHECK_EQ(c.attn_gate, cases[i].gate);
  }
}

/* Recurrent layers: conv_size 4, 2 key heads, 4 value heads; each case changes one key. */
static void test_recurrence(void) {
  static const uint32_t keys[] = {59, 42, 43, 44, 45, 48, 49}, plain[] = {4, 2, 4, 8, 16, 2, 1};
  static const struct {
    uint32_t key, value;
    bq_status status;
    const char *detail;
  } cases[] = {{48, 2, BQ_OK, ""},
               {48, 3, BQ_OK, ""},
               {49, 0, BQ_OK, ""},
               {48, 4, BQ_UNSUPPORTED, "mamba is 4"},
               {48, 0, BQ_UNSUPPORTED, "only Mamba-2"},
               {43, 0, BQ_FORMAT, "a state needs"},
               {43, 3, BQ_FORMAT, "do not divide 3"},
               {44, 0, BQ_FORMAT, "a state needs"},
               {44, 257, BQ_FORMAT, "state_key_dim is 257"},
               {59, 0, BQ_FORMAT, "a state needs"},
               {59, 1, BQ_FORMAT, "conv_size is 1"},
               {19, 2, BQ_UNSUPPORTED, "norms of inputs"},
               {20, 1, BQ_UNSUPPORTED, "parallel block"},
               {7, 0, BQ_OK, ""}};
  bq_config c;
  bq_error err = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture_buffer b = required_keys_without(cases[i].key == 7 ? 7 : 0);
    bool changed = false;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
      const bool here = keys[k] == cases[i].key;
      put(&b, keys[k], U32, 1, here ? cases[i].value : plain[k]);
      changed |= here;
    }
    if (!changed) put(&b, cases[i].key, U32, 1, cases[i].value);
    put(&b, 160, U32, 1, 1);
    CHECK_EQ(read_and_free(b, &c, &err), cases[i].status);
    if (cases[i].status) CHECK(strstr(err.detail, cases[i].detail));
  }
  CHECK(bq_config_recurs(&c, 0) && bq_config_attends(&c, 0) && !bq_config_recurs(&c, 1));
  CHECK(c.ffn == 0 && c.mamba == BQ_MAMBA_GATE_NORM && c.attn_beside);
  static const uint32_t useless[][2] = {{48, 1}, {194, 1}}; /* They need heads, or experts. */
  for (int i = 0; i < 2; i++) {
    fixture_buffer b = required_keys_without(0);
    put(&b, useless[i][0], U32, 1, useless[i][1]);
    CHECK_EQ(read_and_free(b, &c, &err), BQ_FORMAT);
  }
  fixture_buffer b = required_keys_without(7); /* experts, with an MLP of width 0 */
  put(&b, 7, U32, 1, 0);
  put(&b, 54, U32, 1, 8);
  put(&b, 55, U32, 1, 2);
  CHECK_EQ(read_and_free(b, &c, &err), BQ_FORMAT);
}

/* Keys that are combined. */
static void test_layer_kinds(void) {
  bq_config c;
  bq_error err = {0};
  fixture_buffer b = required_keys_without(0);
  put(&b, 22, U32, 1, 7);
  put(&b, 23, U32, 1, 3);
  REQUIRE(read_and_free(b, &c, &err) == BQ_OK);
  for (uint32_t i = 0; i < 12; i++) CHECK_EQ(bq_config_window(&c, i), i % 3 == 2 ? 0 : 7);
  c.global_every = 0;
  CHECK_EQ(bq_config_window(&c, 2), 7);
  b = required_keys_without(0);
  put(&b, 19, U32, 1, 3);
  put(&b, 20, U32, 1, 1);
  CHECK_EQ(read_and_free(b, &c, &err), BQ_UNSUPPORTED);
}

/* Whether a set has exactly two layers. */
static bool has_only(const bq_layer_set *set, uint32_t a, uint32_t b) {
  for (uint32_t i = 0; i < BQ_LAYERS_MAX; i++)
    if (bq_layer_set_has(set, i) != (i == a || i == b)) return false;
  return true;
}

/* Sets of layers in a model of 70 layers, in several words. */
static void test_layer_sets(void) {
  bq_config c;
  bq_error err = {0};
  fixture_buffer b = required_keys_without(2);
  put(&b, 2, U32, 1, 70);
  put(&b, 22, U32, 1, 7);
  put(&b, 64, U32, 1, 1u << 3);
  put(&b, 66, U32, 1, 1u << 5);
  put(&b, 97, U32, 1, 1u << 31 | 1);
  put(&b, 54, U32, 1, 4);
  put(&b, 55, U32, 1, 2);
  put(&b, 128, U32, 1, 1);
  put(&b, 130, U32, 1, 1u << 5);
  REQUIRE(read_and_free(b, &c, &err) == BQ_OK);
  CHECK(has_only(&c.global_layers, 3, 69));
  CHECK(has_only(&c.unrotated_layers, 32, 63));
  CHECK(has_only(&c.dense_layers, 0, 69));
  CHECK_EQ(bq_config_window(&c, 3), 0);
  CHECK_EQ(bq_config_window(&c, 4), 7);
  CHECK(!bq_config_rotated(&c, 63) && bq_config_rotated(&c, 62));
  CHECK(bq_config_dense(&c, 69) && !bq_config_dense(&c, 1));
}

static void test_refused_layer_sets(void) {
  static const struct {
    uint32_t beside[2][2]; /* keys and values */
    uint32_t key, value;
    const char *detail;
  } cases[] = {{{{22, 7}}, 64, 1u << 3, "layer set is "}, /* there are three layers */
               {{{22, 7}}, 65, 1, "layer set is "},
               {{{22, 7}}, 95, 1u << 31, "layer set is "},
               {{{0, 0}}, 64, 1, "layer set is "}, /* no window */
               {{{22, 7}, {23, 2}}, 64, 1, "layer set is "},
               {{{12, 1}}, 96, 1, "layer set is "}, /* positions are learned */
               {{{24, 2}}, 96, 1, "layer set is "},
               {{{0, 0}}, 128, 1, "layer set is "}, /* no experts */
               {{{54, 4}, {55, 2}}, 128, 8, "layer set is "},
               {{{0, 0}}, 160, 1, "layer set is "}, /* no recurrent layers */
               {{{59, 3}}, 160, 8, "layer set is "}};
  bq_config c;
  bq_error err = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture_buffer b = required_keys_without(0);
    for (int k = 0; k < 2; k++)
      if (cases[i].beside[k][0]) put(&b, cases[i].beside[k][0], U32, 1, cases[i].beside[k][1]);
    const uint64_t at = AT + b.n;
    put(&b, cases[i].key, U32, 1, cases[i].value);
    CHECK_EQ(read_and_free(b, &c, &err), BQ_FORMAT);
    CHECK(strstr(err.detail, cases[i].detail));
    CHECK_EQ(err.offset, at);
  }
  fixture_buffer b = required_keys_without(0); /* An empty set is the same as a missing key. */
  put(&b, 64, U32, 1, 0);
  CHECK_EQ(read_and_free(b, &c, &err), BQ_OK);
  b = required_keys_without(0);
  put(&b, 64, F32, 1, 0);
  CHECK_EQ(read_and_free(b, &c, &err), BQ_FORMAT);
  b = required_keys_without(0);
  put(&b, 159, U32, 1, 0);
  put(&b, 159, U32, 1, 0);
  CHECK_EQ(read_and_free(b, &c, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "layer set appears twice"));
  b = required_keys_without(0);
  put(&b, 208, U32, 1, 0); /* an unknown key */
  CHECK_EQ(read_and_free(b, &c, &err), BQ_UNSUPPORTED);
}

static void test_records(void) {
  bq_config c;
  bq_error err = {0};
  fixture_buffer b = required_keys_without(0);
  put(&b, 1000, 77, 0, 5); /* An unknown, optional key is skipped. */
  put(&b, 0, 0, 0, 5);
  put(&b, 208, 0, 0, 5);
  put(&b, 65535, 0, 0, 5);
  CHECK_EQ(read_and_free(b, &c, &err), BQ_OK);
  b = required_keys_without(0);
  put(&b, 1000, 0, 1, 5); /* required */
  CHECK_EQ(read_and_free(b, &c, &err), BQ_UNSUPPORTED);
  CHECK(strstr(err.detail, "1000"));
  CHECK_EQ(err.offset, AT + 64);
  b = required_keys_without(0);
  put(&b, 7, U32, 0, 100); /* twice */
  CHECK_EQ(read_and_free(b, &c, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "twice"));
  b = required_keys_without(0);
  put(&b, 17, U32, 2, 1); /* an unknown flag */
  CHECK_EQ(read_and_free(b, &c, &err), BQ_UNSUPPORTED);
  b = required_keys_without(0);
  fixture_u8(&b, 0); /* an incomplete record */
  CHECK_EQ(read_and_free(b, &c, &err), BQ_FORMAT);
  CHECK_EQ(read_and_free((fixture_buffer){0}, &c, &err), BQ_FORMAT);
  CHECK_EQ(read_and_free(required_keys_without(0), &c, NULL), BQ_OK);
}

int main(void) {
  RUN(test_defaults);
  RUN(test_round_trip);
  RUN(test_missing);
  RUN(test_ranges);
  RUN(test_head_shapes);
  RUN(test_floats);
  RUN(test_embedder);
  RUN(test_experts);
  RUN(test_dense_layers_and_encoders);
  RUN(test_layer_shapes);
  RUN(test_gates);
  RUN(test_recurrence);
  RUN(test_layer_kinds);
  RUN(test_layer_sets);
  RUN(test_refused_layer_sets);
  RUN(test_records);
  return check_summary();
}
