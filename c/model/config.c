#include "model/config.h"

#include "core/half.h"
#include "core/minmax.h"
#include "core/type.h"

enum { RECORD = 8, KEYS = 80, SET_WORDS = BQ_LAYERS_MAX / 32, SETS = 4, FIRST_SET = 64 };
/* Ids of keys: layer sets have a key for each word of 32 layers. In the table `keys`, the keys with
 * ids after the sets follow directly after those before the sets. */
enum { AFTER_SETS = FIRST_SET + SETS * SET_WORDS, IDS = AFTER_SETS + KEYS - FIRST_SET };
enum { KIND_U32 = 0, KIND_F32 = 1, REQUIRED = 1 };

enum {
  ARCH = 1, LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB, CONTEXT, NORM, NORM_EPS,
  POSITION, ROPE_THETA, ROPE_PAIRS, ROPE_DIM, ACTIVATION, GATED, TIED, NORM_PLACE, BLOCK, QK_NORM,
  WINDOW, GLOBAL_EVERY, UNROTATED_EVERY, LOCAL_THETA, ATTN_SCALE, ATTN_SOFTCAP, LOGIT_SOFTCAP,
  EMBED_SCALE, RESIDUAL_SCALE, LOGIT_SCALE,
  TOKENS = 32, MERGES = 33, BIDIRECTIONAL, EMBED_NORM, TOKEN_TYPES, ROPE_SCALE,
  ROPE_ORIGINAL, ALIBI_MAX, ALIBI_SCALE, QKV_CLIP,
  STATE_KEY_HEADS, STATE_VALUE_HEADS, STATE_KEY_DIM, STATE_VALUE_DIM, STATE_STRIDED, ATTN_GATE,
  MAMBA, ATTN_BESIDE,
  NO_HEAD = 50, POOLING, NORMALIZE, TEXT_TOKENS, EXPERTS, EXPERTS_USED, EXPERT_FFN,
  SHARED_FFN, EXPERTS_SUM, CONV_SIZE, DENSE1, DENSE2, DENSE_ACTIVATION, LABELS,
  FIRST_UNNORMED = AFTER_SETS, RELATIVE, SHARED_ALWAYS, GLOBAL_HEAD_DIM, GLOBAL_KV_HEADS,
  SHARED_KV, SHARED_KV_FFN, VALUE_NORM, KEYS_AS_VALUES, LAYER_SCALE, LAYER_EMBED,
  EXPERTS_SIGMOID, LAYER_EMBED_PROJECTED, SUB_NORMS, LOCAL_ROPE_DIM, ATTN_SINKS
};

/* The valid values of a key. Floats are finite and not negative; rope_theta is positive. */
typedef struct key {
  const char *name; /* NULL: no such key */
  bool real;        /* f32 */
  bool needed;
  bool choice;      /* an enumeration, which later versions may extend: values above `max` are
                       UNSUPPORTED instead of FORMAT */
  uint32_t min, max;
} key;

/* docs/FORMAT.md, "CONF keys". */
static const key keys[KEYS] = {
    [ARCH] = {"arch", false, true, true, 1, 65535},
    [LAYERS] = {"layers", false, true, false, 1, 1024},
    [HIDDEN] = {"hidden", false, true, false, 1, 65536},
    [HEADS] = {"heads", false, true, false, 1, 1024},
    [KV_HEADS] = {"kv_heads", false, false, false, 1, 1024},
    [HEAD_DIM] = {"head_dim", false, false, false, 1, 4096},
    [FFN] = {"ffn", false, true, false, 0, 1u << 20},
    [VOCAB] = {"vocab", false, true, false, 1, 1u << 24},
    [CONTEXT] = {"context", false, true, false, 1, 1u << 24},
    [NORM] = {"norm", false, false, true, 0, 1},
    [NORM_EPS] = {"norm_eps", true, true, false, 0, 0},
    [POSITION] = {"position", false, false, true, 0, 3},
    [ROPE_THETA] = {"rope_theta", true, false, false, 0, 0},
    [ROPE_PAIRS] = {"rope_pairs", false, false, true, 0, 1},
    [ROPE_DIM] = {"rope_dim", false, false, false, 1, 4096},
    [ACTIVATION] = {"activation", false, false, true, 0, 4},
    [GATED] = {"gated", false, false, false, 0, 1},
    [TIED] = {"tied", false, false, false, 0, 1},
    [NORM_PLACE] = {"norm_place", false, false, true, 0, 3},
    [BLOCK] = {"block", false, false, true, 0, 2},
    [QK_NORM] = {"qk_norm", false, false, true, 0, 4},
    [WINDOW] = {"window", false, false, false, 0, 1u << 24},
    [GLOBAL_EVERY] = {"global_every", false, false, false, 0, 1024},
    [UNROTATED_EVERY] = {"unrotated_every", false, false, false, 0, 1024},
    [LOCAL_THETA] = {"local_theta", true, false, false, 0, 0},
    [ATTN_SCALE] = {"attn_scale", true, false, false, 0, 0},
    [ATTN_SOFTCAP] = {"attn_softcap", true, false, false, 0, 0},
    [LOGIT_SOFTCAP] = {"logit_softcap", true, false, false, 0, 0},
    [EMBED_SCALE] = {"embed_scale", true, false, false, 0, 0},
    [RESIDUAL_SCALE] = {"residual_scale", true, false, false, 0, 0},
    [LOGIT_SCALE] = {"logit_scale", true, false, false, 0, 0},
    [BIDIRECTIONAL] = {"bidirectional", false, false, false, 0, 1},
    [EMBED_NORM] = {"embed_norm", false, false, false, 0, 1},
    [TOKEN_TYPES] = {"token_types", false, false, false, 0, 65536},
    [NO_HEAD] = {"no_head", false, false, false, 0, 1},
    [POOLING] = {"pooling", false, false, true, 0, 3},
    [NORMALIZE] = {"normalize", false, false, false, 0, 1},
    [TEXT_TOKENS] = {"text_tokens", false, false, false, 0, 1u << 24},
    [ROPE_SCALE] = {"rope_scale", true, false, false, 0, 0},
    [ROPE_ORIGINAL] = {"rope_original", false, false, false, 0, 1u << 24},
    [ALIBI_MAX] = {"alibi_max", true, false, false, 0, 0},
    [ALIBI_SCALE] = {"alibi_scale", true, false, false, 0, 0},
    [QKV_CLIP] = {"qkv_clip", true, false, false, 0, 0},
    [STATE_KEY_HEADS] = {"state_key_heads", false, false, false, 0, 1024},
    [STATE_VALUE_HEADS] = {"state_value_heads", false, false, false, 0, 1024},
    [STATE_KEY_DIM] = {"state_key_dim", false, false, false, 0, BQ_STATE_DIM_MAX},
    [STATE_VALUE_DIM] = {"state_value_dim", false, false, false, 0, BQ_STATE_DIM_MAX},
    [STATE_STRIDED] = {"state_strided", false, false, false, 0, 1},
    [ATTN_GATE] = {"attn_gate", false, false, true, 0, 2},
    [MAMBA] = {"mamba", false, false, true, 0, 3},
    [ATTN_BESIDE] = {"attn_beside", false, false, false, 0, 1},
    [FIRST_SET + SHARED_ALWAYS - AFTER_SETS] = {"shared_always", false, false, false, 0, 1},
    [FIRST_SET + GLOBAL_HEAD_DIM - AFTER_SETS] = {"global_head_dim", false, false, false, 0, 4096},
    [FIRST_SET + GLOBAL_KV_HEADS - AFTER_SETS] = {"global_kv_heads", false, false, false, 0, 1024},
    [FIRST_SET + SHARED_KV - AFTER_SETS] = {"shared_kv", false, false, false, 0, 1024},
    [FIRST_SET + SHARED_KV_FFN - AFTER_SETS] = {"shared_kv_ffn", false, false, false, 0, 1u << 20},
    [FIRST_SET + VALUE_NORM - AFTER_SETS] = {"value_norm", false, false, false, 0, 1},
    [FIRST_SET + KEYS_AS_VALUES - AFTER_SETS] = {"keys_as_values", false, false, false, 0, 1},
    [FIRST_SET + LAYER_SCALE - AFTER_SETS] = {"layer_scale", false, false, false, 0, 1},
    [FIRST_SET + LAYER_EMBED - AFTER_SETS] = {"layer_embed", false, false, false, 0, 4096},
    [FIRST_SET + EXPERTS_SIGMOID - AFTER_SETS] = {"experts_sigmoid", false, false, false, 0, 1},
    [FIRST_SET + LAYER_EMBED_PROJECTED - AFTER_SETS] = {"layer_embed_projected", false, false,
                                                        false, 0, 1},
    [FIRST_SET + SUB_NORMS - AFTER_SETS] = {"sub_norms", false, false, false, 0, 1},
    [FIRST_SET + LOCAL_ROPE_DIM - AFTER_SETS] = {"local_rope_dim", false, false, false, 0, 4096},
    [FIRST_SET + ATTN_SINKS - AFTER_SETS] = {"attn_sinks", false, false, false, 0, 1},
    [EXPERTS] = {"experts", false, false, false, 0, 1024},
    [EXPERTS_USED] = {"experts_used", false, false, false, 0, 64},
    [EXPERT_FFN] = {"expert_ffn", false, false, false, 0, 1u << 20},
    [SHARED_FFN] = {"shared_ffn", false, false, false, 0, 1u << 20},
    [EXPERTS_SUM] = {"experts_sum", false, false, false, 0, 1},
    [CONV_SIZE] = {"conv_size", false, false, false, 0, BQ_CONV_MAX},
    [DENSE1] = {"dense1", false, false, false, 0, 65536},
    [DENSE2] = {"dense2", false, false, false, 0, 65536},
    [DENSE_ACTIVATION] = {"dense_activation", false, false, true, 0, 3},
    [LABELS] = {"labels", false, false, false, 0, 1},
    [FIRST_SET + FIRST_UNNORMED - AFTER_SETS] = {"first_unnormed", false, false, false, 0, 1},
    [FIRST_SET + RELATIVE - AFTER_SETS] = {"bias_buckets", false, false, false, 0, BQ_BIAS_BUCKETS},
    [TOKENS] = {"tokens", false, false, false, 0, 1u << 24},
    [MERGES] = {"merges", false, false, false, 0, 1u << 24},
};

static const key set_word = {"layer set", false, false, false, 0, UINT32_MAX};

/* Returns a key's facts; NULL if there is no such key. */
static const key *key_of(uint32_t id) {
  if (id >= FIRST_SET && id < AFTER_SETS) return &set_word;
  if (id >= AFTER_SETS) id -= AFTER_SETS - FIRST_SET;
  return id < KEYS && keys[id].name ? &keys[id] : NULL;
}

/* The values of all keys, before they are checked together. */
typedef struct records {
  uint32_t value[IDS];
  bool present[IDS];
  uint64_t at[IDS]; /* file offset of the record */
  uint64_t section;  /* file offset of the payload */
} records;

static bool finite(uint32_t bits) { return (bits & 0x7f800000u) != 0x7f800000u; }

static bq_status check_value(uint32_t id, uint32_t value, uint64_t at, bq_error *err) {
  const key *k = key_of(id);
  const bool too_small = id == ROPE_THETA ? bq_float_of(value) <= 0.0f : bq_float_of(value) < 0.0f;
  if (k->real && (too_small || !finite(value)))
    return bq_fail(err, BQ_FORMAT, at, "%s is too small, or not finite", k->name);
  if (k->real || (value >= k->min && value <= k->max)) return BQ_OK;
  return bq_fail(err, k->choice ? BQ_UNSUPPORTED : BQ_FORMAT, at, "%s is %u, outside %u...%u",
                 k->name, value, k->min, k->max);
}

static bq_status read_record(records *r, const uint8_t *p, uint64_t at, bq_error *err) {
  uint32_t id = bq_load16(p), value = bq_load32(p + 4);
  uint8_t kind = p[2], flags = p[3];
  if (flags & ~REQUIRED)
    return bq_fail(err, BQ_UNSUPPORTED, at, "configuration key %u has unknown flags", id);
  const key *k = key_of(id);
  if (!k) {
    if (!(flags & REQUIRED)) return BQ_OK;
    return bq_fail(err, BQ_UNSUPPORTED, at, "the file requires configuration key %u, unknown here",
                   id);
  }
  if (kind != (k->real ? KIND_F32 : KIND_U32))
    return bq_fail(err, BQ_FORMAT, at, "%s has the wrong kind, %u", k->name, (uint32_t)kind);
  if (r->present[id]) return bq_fail(err, BQ_FORMAT, at, "%s appears twice", k->name);
  r->present[id] = true;
  r->value[id] = value;
  r->at[id] = at;
  return check_value(id, value, at, err);
}

static bq_status read_records(records *r, const uint8_t *payload, size_t bytes, bq_error *err) {
  if (bytes % RECORD)
    return bq_fail(err, BQ_FORMAT, r->section, "CONF has %l bytes, not a multiple of 8",
                   (uint64_t)bytes);
  for (size_t i = 0; i < bytes; i += RECORD) {
    bq_status status = read_record(r, payload + i, r->section + i, err);
    if (status) return status;
  }
  for (uint32_t id = 0; id < FIRST_SET; id++)
    if (keys[id].needed && !r->present[id])
      return bq_fail(err, BQ_FORMAT, r->section, "the configuration lacks %s", keys[id].name);
  return BQ_OK;
}

static uint32_t or_default(const records *r, uint32_t id, uint32_t otherwise) {
  return r->present[id] ? r->value[id] : otherwise;
}

static uint64_t offset_of(const records *r, uint32_t id, uint32_t or_else) {
  return r->present[id] ? r->at[id] : r->at[or_else];
}

/* Reads the layer sets. A set must be empty if the configuration doesn't use it, and must contain
 * no layer past the last. */
static bq_status read_sets(const records *r, bq_config *c, bq_error *err) {
  bq_layer_set *const out[SETS] = {&c->global_layers, &c->unrotated_layers, &c->dense_layers,
                                  &c->conv_layers};
  for (uint32_t i = 0; i < SETS * SET_WORDS; i++) {
    const uint32_t set = i / SET_WORDS, first = 32 * (i % SET_WORDS);
    const bool used = set == 0   ? c->window && !c->global_every
                      : set == 1 ? c->position == BQ_POSITION_ROPE && !c->unrotated_every
                      : set == 2 ? c->experts
                                 : c->conv_size;
    const uint32_t room = !used || c->layers < first ? 0 : c->layers - first;
    const uint32_t bits = r->value[FIRST_SET + i];
    if (room < 32 && bits >> room)
      return bq_fail(err, BQ_FORMAT, r->at[FIRST_SET + i], "%s is %u, outside %u...%u",
                     set_word.name, bits, 0u, (1u << room) - 1);
    out[set]->bits[i % SET_WORDS] = bits;
  }
  return BQ_OK;
}

static bq_status check_recurrence(const records *r, const bq_config *c, bq_error *err) {
  const uint64_t at = offset_of(r, CONV_SIZE, ARCH);
  const bool delta = c->state_value_heads > 0;
  if (c->conv_size == 1)
    return bq_fail(err, BQ_FORMAT, at, "conv_size is 1, expected 0 or 2...%u",
                   (uint32_t)BQ_CONV_MAX);
  if (c->conv_size && (c->block != BQ_BLOCK_SEQUENTIAL || c->bidirectional))
    return bq_fail(err, BQ_UNSUPPORTED, at,
                   "recurrent layers in a parallel block or an encoder are unknown here");
  if (c->attn_beside && (!c->mamba || c->norm_place != BQ_NORM_PRE))
    return bq_fail(err, BQ_UNSUPPORTED, offset_of(r, ATTN_BESIDE, ARCH),
                   "attention beside a recurrence: only Mamba-2 with norms of inputs is computed");
  if ((delta || c->mamba) && (!c->conv_size || !c->state_key_heads || !delta ||
                              !c->state_key_dim || !c->state_value_dim))
    return bq_fail(err, BQ_FORMAT, offset_of(r, STATE_VALUE_HEADS, ARCH),
                   "a state needs conv_size, heads and dimensions of keys and values");
  if (delta ? c->state_value_heads % c->state_key_heads
            : c->state_key_heads || c->state_key_dim || c->state_value_dim || c->state_strided)
    return bq_fail(err, BQ_FORMAT, offset_of(r, STATE_KEY_HEADS, ARCH),
                   "%u key heads of a state do not divide %u value heads", c->state_key_heads,
                   c->state_value_heads);
  return BQ_OK;
}

static bq_status check_experts(const records *r, const bq_config *c, bq_error *err) {
  const uint64_t at = offset_of(r, EXPERTS, ARCH);
  if (!c->ffn && (c->experts || c->block != BQ_BLOCK_SEQUENTIAL))
    return bq_fail(err, BQ_FORMAT, r->at[FFN], "ffn is 0 beside experts or a parallel block");
  const bool any_expert_key = c->experts_used || c->shared_ffn || c->experts_sum ||
                              c->experts_sigmoid || r->value[EXPERT_FFN];
  if ((!c->experts && any_expert_key) || (c->shared_always && !c->shared_ffn))
    return bq_fail(err, BQ_FORMAT, at, "keys of experts without experts");
  if (!c->experts) return BQ_OK;
  if (c->experts_used < 1 || c->experts_used > c->experts)
    return bq_fail(err, BQ_FORMAT, at, "%u of %u experts are used", c->experts_used, c->experts);
  if (c->block != BQ_BLOCK_SEQUENTIAL)
    return bq_fail(err, BQ_UNSUPPORTED, at, "experts beside attention are unknown here");
  return BQ_OK;
}

/* Checks shapes of global layers, shared keys and values, and per-layer embeddings. */
static bq_status check_layer_shapes(const records *r, const bq_config *c, bq_error *err) {
  const uint32_t dim = bq_config_head_dim(c, true), kv = bq_config_kv_heads(c, true);
  const bool shaped = c->global_head_dim || c->global_kv_heads || c->keys_as_values;
  const bool rotated = c->position == BQ_POSITION_ROPE && c->local_theta > 0;
  if (shaped && (!c->window || c->conv_size || c->attn_gate || !rotated ||
                 c->qk_norm == BQ_QK_ROWS || c->qk_norm == BQ_QK_EACH))
    return bq_fail(err, BQ_UNSUPPORTED, offset_of(r, GLOBAL_HEAD_DIM, ARCH),
                   "global layers of another shape: computed with a window and local_theta, "
                   "without recurrent layers, gates or norms of whole rows only");
  if (c->heads % kv || (shaped && dim % 2) || (uint64_t)c->heads * dim > 1u << 20)
    return bq_fail(err, BQ_FORMAT, offset_of(r, GLOBAL_KV_HEADS, HEADS),
                   "global layers have %u heads of %u dimensions and %u kv_heads: expected an even "
                   "dimension, 1,048,576 in all, and kv_heads that divide the heads",
                   c->heads, dim, kv);
  if (c->local_rope_dim % 2 || c->local_rope_dim > c->head_dim || (c->local_rope_dim && !rotated))
    return bq_fail(err, BQ_FORMAT, offset_of(r, LOCAL_ROPE_DIM, ARCH),
                   "local_rope_dim %u is odd, larger than head_dim %u, or without local_theta",
                   c->local_rope_dim, c->head_dim);
  if (c->value_norm && c->norm != BQ_NORM_RMS)
    return bq_fail(err, BQ_UNSUPPORTED, offset_of(r, VALUE_NORM, ARCH),
                   "value_norm with layer norms is unknown here");
  if (c->shared_kv && (c->shared_kv >= c->layers || c->conv_size || c->bidirectional))
    return bq_fail(err, BQ_FORMAT, offset_of(r, SHARED_KV, ARCH),
                   "%u of %u layers share keys and values: expected fewer, in a decoder without "
                   "recurrent layers",
                   c->shared_kv, c->layers);
  if (c->shared_kv_ffn && (!c->shared_kv || c->experts || !c->ffn))
    return bq_fail(err, BQ_FORMAT, offset_of(r, SHARED_KV_FFN, ARCH),
                   "shared_kv_ffn without layers that share keys and values, or with experts");
  const bool extra = c->layer_scale || c->layer_embed;
  if (extra && (c->norm_place != BQ_NORM_SANDWICH || c->experts || !c->ffn || c->conv_size ||
                c->norm != BQ_NORM_RMS || c->block != BQ_BLOCK_SEQUENTIAL))
    return bq_fail(err, BQ_UNSUPPORTED, offset_of(r, LAYER_EMBED, LAYERS),
                   "layer_scale and layer_embed: computed with RMS norms around attention and one "
                   "MLP only");
  if (c->sub_norms && (c->norm != BQ_NORM_RMS || c->experts || c->conv_size || !c->ffn))
    return bq_fail(err, BQ_UNSUPPORTED, offset_of(r, SUB_NORMS, LAYERS),
                   "sub_norms: computed with RMS norms, attention and one MLP only");
  if (c->layer_embed_projected && !c->layer_embed)
    return bq_fail(err, BQ_FORMAT, offset_of(r, LAYER_EMBED_PROJECTED, LAYERS),
                   "layer_embed_projected without layer_embed");
  /* Rows of the projection are divided among the layers in whole tiles. */
  if (c->layer_embed % BQ_TILE_ROWS || (uint64_t)c->layer_embed * c->layers > 1u << 20)
    return bq_fail(err, BQ_FORMAT, offset_of(r, LAYER_EMBED, LAYERS),
                   "layer_embed is %u: expected a multiple of %u, 1,048,576 for all %u layers",
                   c->layer_embed, (uint32_t)BQ_TILE_ROWS, c->layers);
  return BQ_OK;
}

/* Checks that each layer has keys and values to attend to. The layer sets must have been read. */
static bq_status check_shared_kv(const records *r, const bq_config *c, bq_error *err) {
  for (uint32_t i = c->layers - c->shared_kv; i < c->layers; i++)
    if (bq_config_kv_layer(c, i) == c->layers)
      return bq_fail(err, BQ_FORMAT, offset_of(r, SHARED_KV, ARCH),
                     "layer %u shares keys and values, but no layer of its kind has any", i);
  return BQ_OK;
}

/* Checks that the values are consistent with each other. */
static bq_status check_together(const records *r, const bq_config *c, bq_error *err) {
  if (c->heads % c->kv_heads)
    return bq_fail(err, BQ_FORMAT, offset_of(r, KV_HEADS, HEADS),
                   "%u kv_heads don't divide %u heads", c->kv_heads, c->heads);
  if (!r->present[HEAD_DIM] && c->hidden % c->heads)
    return bq_fail(err, BQ_FORMAT, r->at[HEADS],
                   "%u heads don't divide hidden %u, and head_dim is not given", c->heads,
                   c->hidden);
  if (c->head_dim < keys[HEAD_DIM].min || c->head_dim > keys[HEAD_DIM].max ||
      (uint64_t)c->heads * c->head_dim > 1u << 20)
    return bq_fail(err, BQ_FORMAT, offset_of(r, HEAD_DIM, HEADS),
                   "%u heads of %u: heads have 1 to 4,096 dimensions, 1,048,576 in all", c->heads,
                   c->head_dim);
  if (c->position == BQ_POSITION_ROPE && (c->rope_dim % 2 || c->rope_dim > c->head_dim))
    return bq_fail(err, BQ_FORMAT, offset_of(r, ROPE_DIM, HEADS),
                   "rope_dim %u is odd or larger than head_dim %u", c->rope_dim, c->head_dim);
  if (c->norm_place == BQ_NORM_POST && c->block != BQ_BLOCK_SEQUENTIAL)
    return bq_fail(err, BQ_UNSUPPORTED, r->at[BLOCK],
                   "norms after the sum in a parallel block are unknown here");
  if (c->no_head && c->tied)
    return bq_fail(err, BQ_FORMAT, r->at[NO_HEAD], "a model without a head has a tied one");
  if (c->labels && !bq_config_dense_layers(c))
    return bq_fail(err, BQ_FORMAT, r->at[LABELS], "labels without dense1 or dense2");
  if (c->dense_activation && !c->dense1)
    return bq_fail(err, BQ_FORMAT, r->at[DENSE_ACTIVATION], "dense_activation without dense1");
  if (c->bias_buckets && (c->bias_buckets != BQ_BIAS_BUCKETS || !c->bidirectional))
    return bq_fail(err, BQ_UNSUPPORTED, r->at[RELATIVE],
                   "bias_buckets is %u: only %u of an encoder are known here", c->bias_buckets,
                   (uint32_t)BQ_BIAS_BUCKETS);
  if (c->first_unnormed && c->norm_place != BQ_NORM_PRE)
    return bq_fail(err, BQ_FORMAT, r->at[FIRST_UNNORMED],
                   "first_unnormed without norms before each branch");
  /* Such a norm is applied before q's rows are separated from those of gates. */
  if (c->attn_gate == BQ_ATTN_GATE_DIMS && c->qk_norm == BQ_QK_ROWS)
    return bq_fail(err, BQ_UNSUPPORTED, r->at[ATTN_GATE],
                   "attn_gate 1 with a norm of all heads together (qk_norm 2) is unknown here");
  if (c->text_tokens > c->context)
    return bq_fail(err, BQ_FORMAT, r->at[TEXT_TOKENS],
                   "texts of %u tokens are longer than a context of %u", c->text_tokens,
                   c->context);
  if (c->tokens > c->vocab)
    return bq_fail(err, BQ_FORMAT, r->at[TOKENS], "%u tokens are more than the vocabulary of %u",
                   c->tokens, c->vocab);
  if (c->merges && !c->tokens)
    return bq_fail(err, BQ_FORMAT, r->at[MERGES], "%u merges without tokens", c->merges);
  return BQ_OK;
}

/* Whether the layer is the last of a period of `every` layers; 0: there is no period. */
static bool ends_period(uint32_t every, uint32_t layer) {
  return every && (layer + 1) % every == 0;
}

uint32_t bq_config_window(const bq_config *c, uint32_t layer) {
  return ends_period(c->global_every, layer) || bq_layer_set_has(&c->global_layers, layer) ? 0
                                                                                       : c->window;
}

bool bq_config_rotated(const bq_config *c, uint32_t layer) {
  return !ends_period(c->unrotated_every, layer) && !bq_layer_set_has(&c->unrotated_layers, layer);
}

bool bq_config_dense(const bq_config *c, uint32_t layer) {
  return !c->experts || bq_layer_set_has(&c->dense_layers, layer);
}

bool bq_config_recurs(const bq_config *c, uint32_t layer) {
  return bq_layer_set_has(&c->conv_layers, layer);
}

bool bq_config_attends(const bq_config *c, uint32_t layer) {
  return c->attn_beside || !bq_config_recurs(c, layer);
}

bool bq_config_shares(const bq_config *c, uint32_t layer) {
  return layer >= c->layers - c->shared_kv;
}

bool bq_config_stores(const bq_config *c, uint32_t layer) {
  return bq_config_attends(c, layer) && !bq_config_shares(c, layer);
}

uint32_t bq_config_kv_layer(const bq_config *c, uint32_t layer) {
  if (!bq_config_shares(c, layer)) return layer;
  for (uint32_t i = c->layers - c->shared_kv; i-- > 0;)
    if (bq_config_window(c, i) == bq_config_window(c, layer)) return i;
  return c->layers;
}

uint32_t bq_config_head_dim(const bq_config *c, bool global) {
  return global && c->global_head_dim ? c->global_head_dim : c->head_dim;
}

uint32_t bq_config_kv_heads(const bq_config *c, bool global) {
  return global && c->global_kv_heads ? c->global_kv_heads : c->kv_heads;
}

uint32_t bq_config_max_head_dim(const bq_config *c) {
  return bq_max32(c->head_dim, c->global_head_dim);
}

uint32_t bq_config_max_kv_heads(const bq_config *c) {
  return bq_max32(c->kv_heads, c->global_kv_heads);
}

uint32_t bq_config_max_normed_cols(const bq_config *c) {
  const uint32_t mix = c->heads * bq_config_max_head_dim(c);
  const uint32_t inner = bq_max32(c->ffn, c->shared_kv_ffn);
  return c->sub_norms ? bq_max32(c->hidden, bq_max32(mix, inner)) : c->hidden;
}

uint32_t bq_config_rope_dim(const bq_config *c, uint32_t table) {
  const uint32_t own = table ? c->local_rope_dim : c->global_head_dim;
  return own ? own : c->rope_dim;
}

bool bq_config_long(const bq_config *c, uint32_t context) {
  return c->rope_original && context > c->rope_original;
}

bq_status bq_config_read(const uint8_t *payload, size_t bytes, uint64_t file_offset, bq_config *out,
                         bq_error *err) {
  records r = {.section = file_offset};
  bq_status status = read_records(&r, payload, bytes, err);
  if (status) return status;
  const uint32_t *v = r.value;
  bq_config c = {.arch = v[ARCH], .layers = v[LAYERS], .hidden = v[HIDDEN], .heads = v[HEADS],
                 .kv_heads = or_default(&r, KV_HEADS, v[HEADS]),
                 .head_dim = or_default(&r, HEAD_DIM, v[HIDDEN] / v[HEADS]),
                 .ffn = v[FFN], .vocab = v[VOCAB], .context = v[CONTEXT],
                 .norm = (bq_norm)v[NORM], .norm_eps = bq_float_of(v[NORM_EPS]),
                 .position = (bq_position)v[POSITION],
                 .rope_theta = bq_float_of(or_default(&r, ROPE_THETA, bq_bits_of(10000.0f))),
                 .rope_pairs = (bq_rope_pairs)v[ROPE_PAIRS],
                 .activation = (bq_activation)v[ACTIVATION],
                 .gated = or_default(&r, GATED, 1), .tied = v[TIED],
                 .norm_place = (bq_norm_place)v[NORM_PLACE], .block = (bq_block)v[BLOCK],
                 .qk_norm = (bq_qk_norm)v[QK_NORM], .window = v[WINDOW],
                 .global_every = v[GLOBAL_EVERY], .unrotated_every = v[UNROTATED_EVERY],
                 .local_theta = bq_float_of(v[LOCAL_THETA]),
                 .attn_scale = bq_float_of(v[ATTN_SCALE]),
                 .attn_softcap = bq_float_of(v[ATTN_SOFTCAP]),
                 .logit_softcap = bq_float_of(v[LOGIT_SOFTCAP]),
                 .embed_scale = bq_float_of(v[EMBED_SCALE]),
                 .residual_scale = bq_float_of(v[RESIDUAL_SCALE]),
                 .logit_scale = bq_float_of(v[LOGIT_SCALE]),
                 .bidirectional = v[BIDIRECTIONAL], .embed_norm = v[EMBED_NORM],
                 .token_types = v[TOKEN_TYPES], .no_head = v[NO_HEAD],
                 .pooling = (bq_pooling)v[POOLING], .normalize = v[NORMALIZE],
                 .text_tokens = v[TEXT_TOKENS], .experts = v[EXPERTS],
                 .experts_used = v[EXPERTS_USED], .shared_ffn = v[SHARED_FFN],
                 .experts_sum = v[EXPERTS_SUM], .experts_sigmoid = v[EXPERTS_SIGMOID],
                 .conv_size = v[CONV_SIZE],
                 .state_key_heads = v[STATE_KEY_HEADS], .state_value_heads = v[STATE_VALUE_HEADS],
                 .state_key_dim = v[STATE_KEY_DIM], .state_value_dim = v[STATE_VALUE_DIM],
                 .state_strided = v[STATE_STRIDED], .attn_gate = (bq_attn_gate)v[ATTN_GATE],
                 .mamba = (bq_mamba)v[MAMBA], .attn_beside = v[ATTN_BESIDE],
                 .shared_always = v[SHARED_ALWAYS],
                 .rope_scale = bq_float_of(v[ROPE_SCALE]), .rope_original = v[ROPE_ORIGINAL],
                 .alibi_max = bq_float_of(v[ALIBI_MAX]),
                 .alibi_scale = bq_float_of(v[ALIBI_SCALE]),
                 .qkv_clip = bq_float_of(v[QKV_CLIP]),
                 .global_head_dim = v[GLOBAL_HEAD_DIM], .global_kv_heads = v[GLOBAL_KV_HEADS],
                 .shared_kv = v[SHARED_KV], .shared_kv_ffn = v[SHARED_KV_FFN],
                 .value_norm = v[VALUE_NORM], .keys_as_values = v[KEYS_AS_VALUES],
                 .layer_scale = v[LAYER_SCALE], .layer_embed = v[LAYER_EMBED],
                 .layer_embed_projected = v[LAYER_EMBED_PROJECTED], .sub_norms = v[SUB_NORMS],
                 .local_rope_dim = v[LOCAL_ROPE_DIM], .attn_sinks = v[ATTN_SINKS],
                 .first_unnormed = v[FIRST_UNNORMED], .bias_buckets = v[RELATIVE],
                 .dense1 = v[DENSE1], .dense2 = v[DENSE2],
                 .dense_activation = (bq_dense_activation)v[DENSE_ACTIVATION], .labels = v[LABELS],
                 .tokens = v[TOKENS], .merges = v[MERGES]};
  c.rope_dim = or_default(&r, ROPE_DIM, c.head_dim);
  c.expert_ffn = c.experts && !v[EXPERT_FFN] ? c.ffn : v[EXPERT_FFN];
  status = check_together(&r, &c, err);
  if (status == BQ_OK) status = check_recurrence(&r, &c, err);
  if (status == BQ_OK) status = check_experts(&r, &c, err);
  if (status == BQ_OK) status = check_layer_shapes(&r, &c, err);
  if (status == BQ_OK) status = read_sets(&r, &c, err);
  if (status == BQ_OK) status = check_shared_kv(&r, &c, err);
  if (status == BQ_OK) *out = c;
  return status;
}
