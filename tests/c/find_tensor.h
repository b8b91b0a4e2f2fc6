/* Finds a tensor of the name table in a loaded model, by name. */
#ifndef FIND_TENSOR_H
#define FIND_TENSOR_H

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "fixture.h"
#include "model/model.h"

/* A matrix or a vector; both NULL: the model has no such tensor. */
typedef struct found_tensor {
  const bq_matrix *matrix;
  const float *vector;
} found_tensor;

static inline found_tensor find_in_layer(const bq_layer *l, const char *part) {
  static const char *const names[BQ_MODULES] = {[BQ_LN1] = "ln1",
                                                [BQ_LN2] = "ln2",
                                                [BQ_LN1_POST] = "ln1_post",
                                                [BQ_LN2_POST] = "ln2_post",
                                                [BQ_Q_NORM] = "attn.q_norm",
                                                [BQ_K_NORM] = "attn.k_norm",
                                                [BQ_Q] = "attn.q",
                                                [BQ_K] = "attn.k",
                                                [BQ_V] = "attn.v",
                                                [BQ_O] = "attn.o",
                                                [BQ_GATE] = "mlp.gate",
                                                [BQ_UP] = "mlp.up",
                                                [BQ_DOWN] = "mlp.down",
                                                [BQ_ROUTER] = "mlp.router",
                                                [BQ_EXPERT_GATE] = "mlp.experts.gate",
                                                [BQ_EXPERT_UP] = "mlp.experts.up",
                                                [BQ_EXPERT_DOWN] = "mlp.experts.down"};
  for (size_t i = 0; i < BQ_MODULES; i++) {
    const size_t n = names[i] ? strlen(names[i]) : 0;
    if (!n || strncmp(part, names[i], n) != 0 || part[n] != '.') continue;
    const bq_weights *m = &l->module[i];
    if (strcmp(part + n, ".bias") == 0) return (found_tensor){NULL, m->b};
    const bool norm = strncmp(names[i], "ln", 2) == 0 || strstr(names[i], "_norm");
    if (!norm) return (found_tensor){&m->w, NULL};
    return (found_tensor){NULL, (const float *)(const void *)m->w.data};
  }
  return (found_tensor){NULL, NULL};
}

static inline found_tensor find_tensor(const bq_model *m, const char *name) {
  if (strncmp(name, "h.", 2) == 0) {
    char *end;
    unsigned long layer = strtoul(name + 2, &end, 10);
    return find_in_layer(&m->layers[layer], end + 1);
  }
  const struct {
    const char *name;
    found_tensor at;
  } table[] = {{"wte.weight", {&m->wte, NULL}},      {"wpe.weight", {&m->wpe, NULL}},
               {"wtt.weight", {&m->wtt, NULL}},
               {"ln_0.weight", {NULL, m->ln_0_w}},   {"ln_0.bias", {NULL, m->ln_0_b}},
               {"rope.factors", {NULL, m->rope[0]}}, {"rope.local_factors", {NULL, m->rope[1]}},
               {"ln_f.weight", {NULL, m->ln_f_w}},   {"ln_f.bias", {NULL, m->ln_f_b}},
               {"lm_head.weight", {&m->head, NULL}}, {"lm_head.bias", {NULL, m->head_b}}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(name, table[i].name) == 0) return table[i].at;
  return (found_tensor){NULL, NULL};
}

/* All weights of the model, as bytes in memory. */
static inline uint64_t hash_model(const fixture *f, const bq_model *m) {
  bq_xxh64_state s;
  bq_xxh64_begin(&s, 0);
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    found_tensor at = find_tensor(m, t->name);
    if (at.vector) bq_xxh64_add(&s, (const uint8_t *)at.vector, t->dims[0] * 4);
    if (!at.matrix) continue;
    bq_type type = at.matrix->type;
    bq_xxh64_add(&s, at.matrix->data,
                 (size_t)bq_type_bytes(type, bq_type_compute_layout(type), t->dims[0], t->dims[1]));
  }
  return bq_xxh64_end(&s);
}

#endif
