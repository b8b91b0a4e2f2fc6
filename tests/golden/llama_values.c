/* Prints what llama.cpp computes, for vary_gguf.mjs and compare_tokens.mjs.
 *
 *   llama_values logits|states|vector MODEL.gguf TOKENS OUT
 *   llama_values tokens MODEL.gguf
 *
 * The first form reads tokens (i32) from TOKENS and writes f32 values to OUT: logits or hidden
 * states of each token, or the pooled vector. The second form prints the tokens that end a text,
 * as a JSON list. Then it reads texts from stdin, each as "ADD PARSE BYTES\n" and the bytes, and
 * prints the tokens of each: ADD is 1 to add special tokens, PARSE is 1 to recognize them.
 *
 * To build: cmake -S llama.cpp -B llama -G Ninja -DBUILD_SHARED_LIBS=OFF -DGGML_OPENMP=OFF
 * -DLLAMA_CURL=OFF; ninja -C llama llama; cc -c -Illama.cpp/include -Illama.cpp/ggml/include
 * tests/golden/llama_values.c; c++ -o llama_values llama_values.o llama/src/libllama.a
 * llama/ggml/src/libggml.a llama/ggml/src/libggml-cpu.a llama/ggml/src/libggml-base.a -lpthread */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

enum { MAX_CONTEXT = 4096 };

static void fail(const char *message) {
  fprintf(stderr, "llama_values: %s\n", message);
  exit(1);
}

static void log_errors(enum ggml_log_level level, const char *text, void *user) {
  (void)user;
  if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
}

static void print_tokens(const llama_token *tokens, int count) {
  for (int i = 0; i < count; i++) printf("%s%d", i ? "," : "[", tokens[i]);
  puts(count > 0 ? "]" : "[]");
  fflush(stdout);
}

static void tokenize_texts(const struct llama_vocab *vocab) {
  const int count = llama_vocab_n_tokens(vocab);
  llama_token *ends = calloc((size_t)count, sizeof *ends);
  int n = 0;
  for (int i = 0; i < count; i++)
    if (llama_vocab_is_eog(vocab, i)) ends[n++] = i;
  print_tokens(ends, n);
  for (int add, parse, bytes; scanf("%d %d %d", &add, &parse, &bytes) == 3;) {
    char *text = malloc((size_t)bytes + 1);
    const int capacity = 4 * bytes + 64;
    llama_token *tokens = calloc((size_t)capacity, sizeof *tokens);
    getchar(); /* the line feed */
    if (fread(text, 1, (size_t)bytes, stdin) != (size_t)bytes) fail("expected the bytes of a text");
    print_tokens(tokens, llama_tokenize(vocab, text, bytes, tokens, capacity, add, parse));
    free(text);
    free(tokens);
  }
  free(ends);
}

/* Reads a file of i32. */
static llama_token *read_tokens(const char *path, int *count) {
  FILE *file = fopen(path, "rb");
  if (!file) fail("TOKENS cannot be read");
  llama_token *tokens = calloc(MAX_CONTEXT, sizeof *tokens);
  *count = (int)fread(tokens, sizeof *tokens, MAX_CONTEXT, file);
  fclose(file);
  return tokens;
}

static struct llama_context *new_context(struct llama_model *model, int states, int vector) {
  struct llama_context_params params = llama_context_default_params();
  const int trained = llama_model_n_ctx_train(model);
  params.n_ctx = (uint32_t)(trained < MAX_CONTEXT ? trained : MAX_CONTEXT);
  params.n_batch = params.n_ubatch = 512;
  params.n_threads = params.n_threads_batch = 1;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.embeddings = states || vector;
  if (states) params.pooling_type = LLAMA_POOLING_TYPE_NONE;
  struct llama_context *context = llama_init_from_model(model, params);
  if (!context) fail("the context cannot be created");
  return context;
}

int main(int argc, char **argv) {
  if (argc < 3) fail("expected logits|states|vector MODEL TOKENS OUT, or tokens MODEL");
  const int states = !strcmp(argv[1], "states"), vector = !strcmp(argv[1], "vector");
  const int is_vocabulary = !strcmp(argv[1], "tokens");
  llama_log_set(log_errors, NULL);
  llama_backend_init();
  struct llama_model_params model_params = llama_model_default_params();
  model_params.vocab_only = is_vocabulary;
  struct llama_model *model = llama_model_load_from_file(argv[2], model_params);
  if (!model) fail("MODEL cannot be loaded");
  if (is_vocabulary) return tokenize_texts(llama_model_get_vocab(model)), 0;

  int count;
  llama_token *tokens = read_tokens(argv[3], &count);
  struct llama_context *context = new_context(model, states, vector);
  struct llama_batch batch = llama_batch_init(count, 0, 1);
  batch.n_tokens = count;
  for (int i = 0; i < count; i++) {
    batch.token[i] = tokens[i];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  if (llama_decode(context, batch)) fail("llama_decode failed");
  const int dims = states || vector ? llama_model_n_embd_out(model)
                                    : llama_vocab_n_tokens(llama_model_get_vocab(model));
  FILE *out = fopen(argv[4], "wb");
  if (!out) fail("OUT cannot be written");
  for (int i = 0; i < (vector ? 1 : count); i++) {
    const float *row = vector   ? llama_get_embeddings_seq(context, 0)
                       : states ? llama_get_embeddings_ith(context, i)
                                : llama_get_logits_ith(context, i);
    if (!row) fail("the model has no such values");
    fwrite(row, sizeof *row, (size_t)dims, out);
  }
  fclose(out);
  return 0;
}
