/* Measures native llama.cpp. It uses the libraries of node-llama-cpp, with the headers of their
 * release.
 *
 *   native MODEL.gguf BACKENDS THREADS CONTEXT KV PROMPT:TOKENS...
 *
 * BACKENDS is the folder of the libggml-cpu-*.so from which llama.cpp chooses; KV is f16 or f32.
 * For each cell, PROMPT tokens are evaluated in batches, then TOKENS tokens one by one. As in
 * llama.cpp's own benchmark, there is one thread pool for the run, and no token is sampled. Prints
 * one JSON object. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "llama.h"

enum { MAX_TOKENS = 4096, BATCH_TOKENS = 512 };

/* Lines of the library's log about buffers and flash attention. */
static char log_text[1 << 16];

static void append_log(enum ggml_log_level level, const char *text, void *user) {
  (void)level, (void)user;
  if ((strstr(text, "buffer size") || strstr(text, "Flash Attention")) &&
      strlen(log_text) + strlen(text) < sizeof log_text)
    strcat(log_text, text);
}

/* Milliseconds of a monotonic clock. */
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void fail(const char *message) {
  fprintf(stderr, "native: %s\n", message);
  exit(1);
}

/* Evaluates `count` random tokens at the end of the sequence, in batches. Returns milliseconds. */
static double evaluate(struct llama_context *context, int32_t vocab, int32_t count) {
  static llama_token ids[MAX_TOKENS];
  static uint32_t seed = 12345;
  for (int32_t i = 0; i < count; i++) {
    seed = seed * 1103515245u + 12345u;
    ids[i] = 300 + (llama_token)((seed >> 8) % (uint32_t)(vocab - 600));
  }
  double start = now();
  for (int32_t done = 0; done < count; done += BATCH_TOKENS) {
    int32_t n = count - done < BATCH_TOKENS ? count - done : BATCH_TOKENS;
    if (llama_decode(context, llama_batch_get_one(ids + done, n))) fail("llama_decode failed");
  }
  llama_synchronize(context);
  return now() - start;
}

/* Fails unless the KV cache has `tokens` tokens. */
static void check_tokens(struct llama_context *context, int32_t tokens) {
  if (llama_memory_seq_pos_max(llama_get_memory(context), 0) + 1 != tokens)
    fail("the KV cache has another number of tokens than were evaluated");
}

/* Prints a JSON string. */
static void print_text(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '\n') fputs("\\n", stdout);
    else if (*text == '"' || *text == '\\') printf("\\%c", *text);
    else if ((unsigned char)*text >= 32) putchar(*text);
  }
  putchar('"');
}

/* Prints the file name of the CPU backend that is mapped into this process. */
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

/* Largest resident memory of this process so far, including the mapped file. */
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
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = (uint32_t)tokens;
  params.n_batch = params.n_ubatch = BATCH_TOKENS;
  params.n_threads = params.n_threads_batch = threads;
  params.type_k = params.type_v = strcmp(kv, "f32") ? GGML_TYPE_F16 : GGML_TYPE_F32;
  struct llama_context *context = llama_init_from_model(model, params);
  if (!context) fail("the context cannot be created: reduce CONTEXT");
  return context;
}

/* Attaches a thread pool. Without one, llama.cpp starts and ends threads for each token. */
static void attach_thread_pool(struct llama_context *context, ggml_backend_dev_t device,
                               int threads) {
  ggml_backend_reg_t library = ggml_backend_dev_backend_reg(device);
  struct ggml_threadpool *(*new_pool)(struct ggml_threadpool_params *);
  *(void **)&new_pool = ggml_backend_reg_get_proc_address(library, "ggml_threadpool_new");
  struct ggml_threadpool_params size = ggml_threadpool_params_default(threads);
  struct ggml_threadpool *pool = new_pool ? new_pool(&size) : NULL;
  if (!pool) fail("the thread pool cannot be created");
  llama_attach_threadpool(context, pool, NULL);
}

/* Measures a cell and prints its result. */
static void run_cell(struct llama_context *context, int32_t vocab, int32_t prompt, int32_t tokens) {
  llama_memory_clear(llama_get_memory(context), false);
  double prefill = evaluate(context, vocab, prompt), decode = 0;
  check_tokens(context, prompt);
  for (int32_t i = 0; i < tokens; i++) decode += evaluate(context, vocab, 1);
  check_tokens(context, prompt + tokens);
  printf("{\"prompt\": %d, \"tokens\": %d, \"prefillMs\": %.4f, \"decodeMs\": %.4f}", prompt,
         tokens, prefill, decode);
}

int main(int argc, char **argv) {
  if (argc < 7) fail("expected MODEL.gguf BACKENDS THREADS CONTEXT KV PROMPT:TOKENS...");
  const int threads = atoi(argv[3]);
  llama_log_set(append_log, NULL);
  ggml_backend_load_all_from_path(argv[2]);
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (!device) fail("expected a CPU backend in BACKENDS, found none");
  llama_backend_init();

  double start = now();
  struct llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  struct llama_model *model = llama_model_load_from_file(argv[1], model_params);
  if (!model) fail("MODEL.gguf cannot be loaded");
  struct llama_context *context = new_context(model, threads, atoi(argv[4]), argv[5]);
  double load_ms = now() - start;
  const long memory = peak_bytes();
  attach_thread_pool(context, device, threads);

  const int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  evaluate(context, vocab, 128); /* warm-up: memory pages, caches, clock frequency */
  for (int i = 0; i < 8; i++) evaluate(context, vocab, 1);
  printf("{\"cells\": [");
  for (int i = 6; i < argc; i++) {
    int prompt, tokens;
    if (sscanf(argv[i], "%d:%d", &prompt, &tokens) != 2 || prompt < 1 || prompt > MAX_TOKENS)
      fail("expected PROMPT:TOKENS with a prompt of 1 to 4096 tokens");
    if (i > 6) printf(", ");
    run_cell(context, vocab, prompt, tokens);
  }
  printf("], \"facts\": {\"loadMs\": %.1f, \"memory\": %ld, \"threads\": %d, \"backend\": ",
         load_ms, memory, llama_n_threads(context));
  print_backend();
  printf(", \"system\": ");
  print_text(llama_print_system_info());
  printf(", \"log\": ");
  print_text(log_text);
  printf("}}\n");
  return 0;
}
