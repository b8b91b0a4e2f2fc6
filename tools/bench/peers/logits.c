/* What native llama.cpp computes at every position of a text: the libraries that node-llama-cpp
 * ships, with their release's own headers.
 *
 *   logits MODEL.gguf BACKENDS THREADS CONTEXT KV
 *
 * BACKENDS is the folder of libggml-cpu-*.so to choose from; KV is f16 or q8_0. Reads windows, each
 * as a number of tokens and the tokens (i32), from an empty context on, and writes a row of logits
 * (f32) for every token. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-backend.h"
#include "llama.h"

enum { BATCH = 100 }; /* tokens whose logits are in memory */

static void fail(const char *what) {
  fprintf(stderr, "logits: %s\n", what);
  exit(1);
}

static void keep_quiet(enum ggml_log_level level, const char *text, void *user) {
  (void)user;
  if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
}

static struct llama_context *new_context(struct llama_model *model, int threads, int tokens,
                                         const char *kv) {
  struct llama_context_params wanted = llama_context_default_params();
  wanted.n_ctx = (uint32_t)tokens;
  wanted.n_batch = wanted.n_ubatch = BATCH;
  wanted.n_threads = wanted.n_threads_batch = threads;
  wanted.type_k = wanted.type_v = strcmp(kv, "q8_0") ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;
  struct llama_context *context = llama_init_from_model(model, wanted);
  if (!context) fail("no context");
  return context;
}

int main(int argc, char **argv) {
  if (argc != 6) fail("MODEL BACKENDS THREADS CONTEXT KV");
  llama_log_set(keep_quiet, NULL);
  ggml_backend_load_all_from_path(argv[2]);
  if (!ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)) fail("no CPU backend");
  llama_backend_init();
  struct llama_model_params of_model = llama_model_default_params();
  of_model.n_gpu_layers = 0;
  struct llama_model *model = llama_model_load_from_file(argv[1], of_model);
  if (!model) fail("the model does not load");
  struct llama_context *context = new_context(model, atoi(argv[3]), atoi(argv[4]), argv[5]);
  const size_t vocab = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model));

  struct llama_batch batch = llama_batch_init(BATCH, 0, 1);
  for (int32_t count; fread(&count, sizeof count, 1, stdin) == 1;) {
    llama_memory_clear(llama_get_memory(context), false);
    for (int32_t done = 0; done < count; done += batch.n_tokens) {
      batch.n_tokens = count - done < BATCH ? count - done : BATCH;
      if (fread(batch.token, sizeof *batch.token, (size_t)batch.n_tokens, stdin) !=
          (size_t)batch.n_tokens)
        fail("a window ends too early");
      for (int32_t i = 0; i < batch.n_tokens; i++) {
        batch.pos[i] = done + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
      }
      if (llama_decode(context, batch)) fail("llama_decode failed");
      const size_t values = vocab * (size_t)batch.n_tokens;
      if (fwrite(llama_get_logits(context), sizeof(float), values, stdout) != values)
        fail("what reads the logits is gone");
    }
    fflush(stdout);
  }
  return 0;
}
