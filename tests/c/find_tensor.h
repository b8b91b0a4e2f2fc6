/* Finds a tensor of the name table in a loaded model, by name. */
#ifndef FIND_TENSOR_H
#define FIND_TENSOR_H

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "fixture.h"
#include "model/model.h"

/* A matrix or a vector of a model; both are NULL if the model has no such tensor. */
typedef struct tensor_ref {
  const bq_matrix *matrix;
  const float *vector;
} tensor_ref;

/* Whether the weights of a module are a vector. */
static inline bool is_vector(bq_module module) {
  static const bool vectors[BQ_MODULES] = {
      [BQ_LN1] = true,        [BQ_LN2] = true,         [BQ_LN1_POST] = true,
      [BQ_LN2_POST] = true,   [BQ_Q_NORM] = true,      [BQ_K_NORM] = true,
      [BQ_CONV_TAPS] = true,  [BQ_DELTA_TAPS] = true,  [BQ_DELTA_DT] = true,
      [BQ_DELTA_DECAY] = true, [BQ_DELTA_NORM] = true, [BQ_MAMBA_TAPS] = true,
      [BQ_MAMBA_BIAS] = true, [BQ_MAMBA_DT] = true,    [BQ_MAMBA_DECAY] = true,
      [BQ_MAMBA_SKIP] = true, [BQ_MAMBA_NORM] = true,  [BQ_O_NORM] = true,
      [BQ_DOWN_NORM] = true,  [BQ_ATTN_SINKS] = true};
  return vectors[module];
}

/* `part`: the name without "h.N." in front. */
static inline tensor_ref find_in_layer(const bq_layer *l, const char *part) {
  static const char *const names[BQ_MODULES] = {[BQ_LN1] = "ln1",
                                                [BQ_LN2] = "ln2",
                                                [BQ_LN1_POST] = "ln1_post",
                                                [BQ_LN2_POST] = "ln2_post",
                                                [BQ_Q_NORM] = "attn.q_norm",
                                                [BQ_K_NORM] = "attn.k_norm",
                                                [BQ_Q] = "attn.q",
                                                [BQ_K] = "attn.k",
                                                [BQ_V] = "attn.v",
                                                [BQ_ATTN_GATE] = "attn.gate",
                                                [BQ_ATTN_SINKS] = "attn.sinks",
                                                [BQ_O] = "attn.o",
                                                [BQ_GATE] = "mlp.gate",
                                                [BQ_UP] = "mlp.up",
                                                [BQ_DOWN] = "mlp.down",
                                                [BQ_ROUTER] = "mlp.router",
                                                [BQ_EXPERT_GATE] = "mlp.experts.gate",
                                                [BQ_EXPERT_UP] = "mlp.experts.up",
                                                [BQ_EXPERT_DOWN] = "mlp.experts.down",
                                                [BQ_CONV_IN] = "conv.in",
                                                [BQ_CONV_TAPS] = "conv.taps",
                                                [BQ_CONV_OUT] = "conv.out",
                                                [BQ_DELTA_QKV] = "delta.in",
                                                [BQ_DELTA_Z] = "delta.z",
                                                [BQ_DELTA_A] = "delta.a",
                                                [BQ_DELTA_B] = "delta.b",
                                                [BQ_DELTA_TAPS] = "delta.taps",
                                                [BQ_DELTA_DT] = "delta.dt",
                                                [BQ_DELTA_DECAY] = "delta.decay",
                                                [BQ_DELTA_NORM] = "delta.norm",
                                                [BQ_DELTA_OUT] = "delta.out",
                                                [BQ_MAMBA_IN] = "mamba.in",
                                                [BQ_MAMBA_TAPS] = "mamba.taps",
                                                [BQ_MAMBA_BIAS] = "mamba.bias",
                                                [BQ_MAMBA_DT] = "mamba.dt",
                                                [BQ_MAMBA_DECAY] = "mamba.decay",
                                                [BQ_MAMBA_SKIP] = "mamba.skip",
                                                [BQ_MAMBA_NORM] = "mamba.norm",
                                                [BQ_MAMBA_OUT] = "mamba.out",
                                                [BQ_O_NORM] = "attn.sub_norm",
                                                [BQ_DOWN_NORM] = "mlp.sub_norm"};
  for (size_t i = 0; i < BQ_MODULES; i++) {
    const size_t n = names[i] ? strlen(names[i]) : 0;
    if (!n || strncmp(part, names[i], n) != 0 || part[n] != '.') continue;
    const bq_weights *m = &l->module[i];
    if (strcmp(part + n, ".bias") == 0) return (tensor_ref){NULL, m->b};
    if (!is_vector((bq_module)i)) return (tensor_ref){&m->w, NULL};
    return (tensor_ref){NULL, (const float *)(const void *)m->w.data};
  }
  return (tensor_ref){NULL, NULL};
}

/* Finds a tensor by its full name. */
static inline tensor_ref find_tensor(const bq_model *m, const char *name) {
  if (strncmp(name, "h.", 2) == 0) {
    char *end;
    unsigned long layer = strtoul(name + 2, &end, 10);
    return find_in_layer(&m->layers[layer], end + 1);
  }
  const struct {
    const char *name;
    tensor_ref tensor;
  } table[] = {{"wte.weight", {&m->wte, NULL}},      {"wpe.weight", {&m->wpe, NULL}},
               {"wtt.weight", {&m->wtt, NULL}},
               {"ln_0.weight", {NULL, m->ln_0_w}},   {"ln_0.bias", {NULL, m->ln_0_b}},
               {"rope.factors", {NULL, m->rope[0]}}, {"rope.local_factors", {NULL, m->rope[1]}},
               {"ln_f.weight", {NULL, m->ln_f_w}},   {"ln_f.bias", {NULL, m->ln_f_b}},
               {"lm_head.weight", {&m->head, NULL}}, {"lm_head.bias", {NULL, m->head_b}}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(name, table[i].name) == 0) return table[i].tensor;
  return (tensor_ref){NULL, NULL};
}

/* XXH64 of all weights of the model, as they are in memory. */
static inline uint64_t hash_model(const fixture *f, const bq_model *m) {
  bq_xxh64_state s;
  bq_xxh64_begin(&s, 0);
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    tensor_ref ref = find_tensor(m, t->name);
    if (ref.vector) bq_xxh64_add(&s, (const uint8_t *)ref.vector, t->dims[0] * 4);
    if (!ref.matrix) continue;
    bq_type type = ref.matrix->type;
    bq_xxh64_add(&s, ref.matrix->data,
                 (size_t)bq_type_bytes(type, bq_type_compute_layout(type), t->dims[0], t->dims[1]));
  }
  return bq_xxh64_end(&s);
}

#endif
