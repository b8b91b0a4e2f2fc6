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
  const struct {
    const char *name;
    const bq_matrix *weight;
    const float *vector, *bias;
  } table[] = {{"ln1", NULL, l->ln1_w, l->ln1_b},     {"ln2", NULL, l->ln2_w, l->ln2_b},
               {"attn.q", &l->q, NULL, l->q_b},       {"attn.k", &l->k, NULL, l->k_b},
               {"attn.v", &l->v, NULL, l->v_b},       {"attn.o", &l->o, NULL, l->o_b},
               {"mlp.gate", &l->gate, NULL, l->gate_b}, {"mlp.up", &l->up, NULL, l->up_b},
               {"mlp.down", &l->down, NULL, l->down_b}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    size_t n = strlen(table[i].name);
    if (strncmp(part, table[i].name, n) != 0 || part[n] != '.') continue;
    if (strcmp(part + n, ".bias") == 0) return (found_tensor){NULL, table[i].bias};
    return (found_tensor){table[i].weight, table[i].vector};
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
                 (size_t)bq_type_bytes(type, bq_type_run_layout(type), t->dims[0], t->dims[1]));
  }
  return bq_xxh64_end(&s);
}

#endif
