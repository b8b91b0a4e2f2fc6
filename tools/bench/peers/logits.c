/* Prints the logits of native llama.cpp at each position of a text. It uses the libraries of
 * node-llama-cpp, with the headers of their release.
 *
 *   logits MODEL.gguf BACKENDS THREADS CONTEXT KV
 *
 * BACKENDS is the folder of the libggml-cpu-*.so from which llama.cpp chooses; KV is f16 or q8_0.
 * Reads windows from stdin, each as a number of tokens and the tokens (i32). For each window the
 * context is emptied first. Writes a row of logits (f32) for each token to stdout. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-backend.h"
#include "llama.h"

enum { BATCH_TOKENS = 100 }; /* tokens whose logits are in memory at the same time */

static void fail(const char *message) {
  fprintf(stderr, "logits: %s\n", message);
  exit(1);
}

static void log_errors(enum ggml_log_level level, const char *text, void *user) {
  (void)user;
  if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
}

static struct llama_context *new_context(struct llama_model *model, int threads, int tokens,
                                         const char *kv) {
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = (uint32_t)tokens;
  params.n_batch = params.n_ubatch = BATCH_TOKENS;
  params.n_threads = params.n_threads_batch = threads;
  params.type_k = params.type_v = strcmp(kv, "q8_0") ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;
  struct llama_context *context = llama_init_from_model(model, params);
  if (!context) fail("the context cannot be created: reduce CONTEXT");
  return context;
}

int main(int argc, char **argv) {
  if (argc != 6) fail("expected MODEL.gguf BACKENDS THREADS CONTEXT KV");
  llama_log_set(log_errors, NULL);
  ggml_backend_load_all_from_path(argv[2]);
  if (!ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU))
    fail("expected a CPU backend in BACKENDS, found none");
  llama_backend_init();
  struct llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  struct llama_model *model = llama_model_load_from_file(argv[1], model_params);
  if (!model) fail("MODEL.gguf cannot be loaded");
  struct llama_context *context = new_context(model, atoi(argv[3]), atoi(argv[4]), argv[5]);
  const size_t vocab = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model));

  struct llama_batch batch = llama_batch_init(BATCH_TOKENS, 0, 1);
  for (int32_t count; fread(&count, sizeof count, 1, stdin) == 1;) {
    llama_memory_clear(llama_get_memory(context), false);
    for (int32_t done = 0; done < count; done += batch.n_tokens) {
      batch.n_tokens = count - done < BATCH_TOKENS ? count - done : BATCH_TOKENS;
      if (fread(batch.token, sizeof *batch.token, (size_t)batch.n_tokens, stdin) !=
          (size_t)batch.n_tokens)
        fail("expected all tokens of a window, found the end of stdin");
      for (int32_t i = 0; i < batch.n_tokens; i++) {
        batch.pos[i] = done + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
      }
      if (llama_decode(context, batch)) fail("llama_decode failed");
      const size_t values = vocab * (size_t)batch.n_tokens;
      if (fwrite(llama_get_logits(context), sizeof(float), values, stdout) != values)
        fail("the reader of stdout has closed it");
    }
    fflush(stdout);
  }
  return 0;
}
