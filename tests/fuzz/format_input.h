/* The input of fuzz_plan and fuzz_loader, and a mutator for files.
 *
 * An input is: a byte of choices, u16 length of the manifest, manifest, file. The mutator starts
 * from small valid files (tests/c/fixture.c), so that no corpus is needed, and corrects the
 * checksums after most changes, so that inputs reach the code after the checks of checksums. */
#ifndef FORMAT_INPUT_H
#define FORMAT_INPUT_H

#include <stdlib.h>

#include "core/cursor.h"
#include "fixture.c"

typedef struct format_input {
  uint8_t choices;
  const uint8_t *manifest; /* NULL: none */
  size_t manifest_bytes;
  uint8_t *file; /* malloced: exactly n bytes */
  size_t n;
} format_input;

static bool format_input_read(const uint8_t *data, size_t size, format_input *in) {
  if (size < 3) return false;
  in->choices = data[0];
  in->manifest_bytes = bq_load16(data + 1);
  if (in->manifest_bytes > size - 3) return false;
  in->manifest = in->manifest_bytes ? data + 3 : NULL;
  in->n = size - 3 - in->manifest_bytes;
  in->file = check_allocation(malloc(in->n ? in->n : 1));
  memcpy(in->file, data + 3 + in->manifest_bytes, in->n);
  return true;
}

/* Makes the first of two layers recurrent, with states that are small enough for an input. */
static void make_recurrent(bq_config *c, uint32_t kind) {
  const fixture_spec specs[] = {fixture_convolution(), fixture_delta(), fixture_mamba(false),
                                fixture_mamba(true)};
  const bq_config *from = &specs[kind % 4].config;
  c->conv_size = from->conv_size;
  c->conv_layers = from->conv_layers;
  c->attn_gate = from->attn_gate;
  c->mamba = from->mamba;
  c->attn_beside = from->attn_beside;
  if (!from->state_value_heads) return;
  c->state_key_heads = 1;
  c->state_value_heads = c->state_key_dim = 2;
  c->state_value_dim = 3;
}

static fixture_spec format_seed_spec(uint32_t seed) {
#define X(NAME, ...) BQ_TYPE_##NAME,
  static const bq_type types[] = {BQ_FLOAT_TYPES(X) BQ_TILED_TYPES(X) BQ_STORED_TYPES(X)};
#undef X
  enum { TYPES = sizeof types / sizeof *types };
  fixture_spec spec = seed & 1 ? fixture_bullet() : fixture_llama();
  spec.version = seed & 2 ? seed >> 18 & 1 ? FIXTURE_FOREIGN : 1 : 2;
  spec.layout = seed & 4 ? BQ_TILED : BQ_ROWS;
  spec.scattered = seed & 4;
  spec.type = types[(seed >> 3) % TYPES];
  spec.embed_type = types[(seed >> 6) % TYPES];
  spec.vector_type = (bq_type)(seed >> 9 & 1);
  spec.block = 16u << (seed >> 10) % 3;
  spec.no_hashes = seed >> 12 & 1;
  spec.sha256 = seed >> 17 & 1;
  spec.no_tokenizer = seed >> 13 & 1;
  spec.config.tied = seed >> 14 & 1;
  if ((seed >> 19 & 7) == 7 && spec.version == 2) spec.config = fixture_listed().config;
  else if ((seed >> 19 & 7) > 4 && spec.version == 2 && !(seed & 1))
    make_recurrent(&spec.config, seed >> 22);
  else if (spec.version == 2 && !(seed & 1)) {
    spec.config.sub_norms = seed >> 22 & 1;
    spec.config.attn_sinks = seed >> 23 & 1;
  }
  spec.config.layers = spec.config.experts ? 4 : spec.config.conv_size ? 2 : 1;
  spec.config.hidden = (uint32_t[]){6, 8, 16, 16}[seed >> 15 & 3];
  spec.config.heads = spec.config.kv_heads = 1;
  spec.config.ffn = 9;
  spec.config.vocab = 6;
  spec.config.context = 4;
  return spec;
}

/* Writes a valid input and returns its size; 0 if it does not fit. */
static size_t format_seed(uint8_t *data, size_t max_size, uint32_t seed) {
  fixture_spec spec = format_seed_spec(seed);
  fixture f = fixture_make(&spec);
  size_t size = 3 + f.manifest_bytes + f.n;
  if (size <= max_size) {
    data[0] = (uint8_t)(seed >> 16);
    data[1] = (uint8_t)f.manifest_bytes;
    data[2] = (uint8_t)(f.manifest_bytes >> 8);
    if (f.manifest_bytes) memcpy(data + 3, f.manifest, f.manifest_bytes);
    memcpy(data + 3 + f.manifest_bytes, f.bytes, f.n);
  }
  fixture_free(&f);
  return size <= max_size ? size : 0;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  if (size < 64 || seed % 64 == 0) {
    size_t new_size = format_seed(data, max_size, seed / 64);
    if (new_size) size = new_size;
  }
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size < 3 || seed % 8 == 7) return size;
  size_t skip = 3 + (size_t)bq_load16(data + 1);
  if (skip < size) fixture_seal(data + skip, size - skip);
  return size;
}

#endif
