/* Times native llama.cpp: the libraries that node-llama-cpp ships, with their release's own
 * headers.
 *
 *   native MODEL.gguf BACKENDS THREADS CONTEXT KV PROMPT:TOKENS...
 *
 * BACKENDS is the folder of libggml-cpu-*.so to choose from; KV is f16 or f32. For each cell, a
 * prompt is evaluated, then so many tokens one by one. As in llama.cpp's own bench, a thread pool
 * lives through the run and nothing is sampled. Prints one JSON object. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "llama.h"

enum { MOST_TOKENS = 4096, BATCH = 512 };

static char said[1 << 16]; /* what the library logs about its buffers */

static void keep(enum ggml_log_level level, const char *text, void *user) {
  (void)level, (void)user;
  if ((strstr(text, "buffer size") || strstr(text, "Flash Attention")) &&
      strlen(said) + strlen(text) < sizeof said)
    strcat(said, text);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void fail(const char *what) {
  fprintf(stderr, "native: %s\n", what);
  exit(1);
}

/* Evaluates `count` tokens at the end of the timeline, in batches. */
static double evaluate(struct llama_context *context, int32_t vocab, int32_t count) {
  static llama_token ids[MOST_TOKENS];
  static uint32_t seed = 12345;
  for (int32_t i = 0; i < count; i++) {
    seed = seed * 1103515245u + 12345u;
    ids[i] = 300 + (llama_token)((seed >> 8) % (uint32_t)(vocab - 600));
  }
  double start = now();
  for (int32_t done = 0; done < count; done += BATCH) {
    int32_t n = count - done < BATCH ? count - done : BATCH;
    if (llama_decode(context, llama_batch_get_one(ids + done, n))) fail("llama_decode failed");
  }
  llama_synchronize(context);
  return now() - start;
}

static void expect(struct llama_context *context, int32_t tokens) {
  if (llama_memory_seq_pos_max(llama_get_memory(context), 0) + 1 != tokens)
    fail("the KV cache does not hold the tokens it should");
}

static void print_text(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '\n') fputs("\\n", stdout);
    else if (*text == '"' || *text == '\\') printf("\\%c", *text);
    else if ((unsigned char)*text >= 32) putchar(*text);
  }
  putchar('"');
}

/* The CPU backend in this process, by what is mapped. */
static void print_backend(void) {
  char line[4096], name[256] = "";
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) {
    char *at = strstr(line, "libggml-cpu");
    if (at) snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "\n"), at);
  }
  if (maps) fclose(maps);
  print_text(name);
}

/* The most memory this process ever held, the mapped file included. */
static long peak_bytes(void) {
  char line[256];
  long kilobytes = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &kilobytes);
  if (status) fclose(status);
  return kilobytes * 1024;
}

static struct llama_context *new_context(struct llama_model *model, int threads, int tokens,
                                         const char *kv) {
  struct llama_context_params wanted = llama_context_default_params();
  wanted.n_ctx = (uint32_t)tokens;
  wanted.n_batch = wanted.n_ubatch = BATCH;
  wanted.n_threads = wanted.n_threads_batch = threads;
  wanted.type_k = wanted.type_v = strcmp(kv, "f32") ? GGML_TYPE_F16 : GGML_TYPE_F32;
  struct llama_context *context = llama_init_from_model(model, wanted);
  if (!context) fail("no context");
  return context;
}

/* Without one, threads would be started and ended at every token. */
static void keep_threads(struct llama_context *context, ggml_backend_dev_t device, int threads) {
  ggml_backend_reg_t library = ggml_backend_dev_backend_reg(device);
  struct ggml_threadpool *(*new_pool)(struct ggml_threadpool_params *);
  *(void **)&new_pool = ggml_backend_reg_get_proc_address(library, "ggml_threadpool_new");
  struct ggml_threadpool_params size = ggml_threadpool_params_default(threads);
  struct ggml_threadpool *pool = new_pool ? new_pool(&size) : NULL;
  if (!pool) fail("no thread pool");
  llama_attach_threadpool(context, pool, NULL);
}

static void run_cell(struct llama_context *context, int32_t vocab, int32_t prompt, int32_t tokens) {
  llama_memory_clear(llama_get_memory(context), false);
  double prefill = evaluate(context, vocab, prompt), decode = 0;
  expect(context, prompt);
  for (int32_t i = 0; i < tokens; i++) decode += evaluate(context, vocab, 1);
  expect(context, prompt + tokens);
  printf("{\"prompt\": %d, \"tokens\": %d, \"prefillMs\": %.4f, \"decodeMs\": %.4f}", prompt,
         tokens, prefill, decode);
}

int main(int argc, char **argv) {
  if (argc < 7) fail("MODEL BACKENDS THREADS CONTEXT KV PROMPT:TOKENS...");
  const int threads = atoi(argv[3]);
  llama_log_set(keep, NULL);
  ggml_backend_load_all_from_path(argv[2]);
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (!device) fail("no CPU backend");
  llama_backend_init();

  double since = now();
  struct llama_model_params of_model = llama_model_default_params();
  of_model.n_gpu_layers = 0;
  struct llama_model *model = llama_model_load_from_file(argv[1], of_model);
  if (!model) fail("the model does not load");
  struct llama_context *context = new_context(model, threads, atoi(argv[4]), argv[5]);
  double load = now() - since;
  const long memory = peak_bytes();
  keep_threads(context, device, threads);

  const int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  evaluate(context, vocab, 128); /* warms up: pages, caches, clocks */
  for (int i = 0; i < 8; i++) evaluate(context, vocab, 1);
  printf("{\"cells\": [");
  for (int i = 6; i < argc; i++) {
    int prompt, tokens;
    if (sscanf(argv[i], "%d:%d", &prompt, &tokens) != 2 || prompt < 1 || prompt > MOST_TOKENS)
      fail("a cell is PROMPT:TOKENS");
    if (i > 6) printf(", ");
    run_cell(context, vocab, prompt, tokens);
  }
  printf("], \"facts\": {\"loadMs\": %.1f, \"memory\": %ld, \"threads\": %d, \"backend\": ", load,
         memory, llama_n_threads(context));
  print_backend();
  printf(", \"system\": ");
  print_text(llama_print_system_info());
  printf(", \"log\": ");
  print_text(said);
  printf("}}\n");
  return 0;
}
