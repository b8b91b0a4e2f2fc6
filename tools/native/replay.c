/* Repeats the generation of a reproducibility record (docs/reference/receipts.md) with the native
 * build, which shares no machine code with the modules for browsers:
 *
 *   replay MODEL.bq4 THREADS <RECEIPT
 *
 * RECEIPT is a sequence of words: names of options, each with its value, and `prompt` with the
 * number of tokens and the tokens. Prints at most `tokens` tokens, up to the first end token. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bq.h"

enum { MAX_THREADS = 32, MAX_BIASES = 64, MAX_PROMPT = 1 << 20 };

/* Options, prompt (owned) and largest number of generated tokens. */
typedef struct receipt {
  bq_session_options session;
  bq_sample_options sample;
  bq_logit_bias bias[MAX_BIASES];
  uint64_t seed;
  uint32_t tokens, n_prompt, *prompt;
} receipt;

/* --- threads ---------------------------------------------------------------------------------- */

/* Arguments of a thread's function. */
typedef struct member {
  void (*fn)(void *arg, size_t thread, size_t threads);
  void *arg;
  size_t thread, threads;
} member;

static void *run_member(void *arg) {
  member *m = arg;
  m->fn(m->arg, m->thread, m->threads);
  return NULL;
}

/* Runs a function in all threads. Threads are created for each run. */
static void run_parallel(void *ctx, void (*fn)(void *arg, size_t thread, size_t threads),
                         void *arg) {
  const size_t threads = *(size_t *)ctx;
  pthread_t ids[MAX_THREADS];
  member members[MAX_THREADS];
  for (size_t i = 1; i < threads; i++) {
    members[i] = (member){fn, arg, i, threads};
    if (pthread_create(&ids[i], NULL, run_member, &members[i])) {
      fprintf(stderr, "replay: a thread cannot be created\n");
      exit(1);
    }
  }
  fn(arg, 0, threads);
  for (size_t i = 1; i < threads; i++) pthread_join(ids[i], NULL);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void fail(const char *message) {
  fprintf(stderr, "replay: %s\n", message);
  exit(1);
}

static double read_number(void) {
  double value = 0;
  if (scanf("%lf", &value) != 1) fail("expected a number");
  return value;
}

static uint32_t read_integer(void) {
  const double value = read_number();
  if (!(value >= 0 && value <= UINT32_MAX)) fail("expected an integer from 0 to 4294967295");
  return (uint32_t)value;
}

/* Reads one of `n` names and returns its index. */
static uint32_t read_name(const char *const *names, uint32_t n) {
  char word[16] = "";
  if (scanf("%15s", word) != 1) fail("expected a name, found the end");
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(word, names[i])) return i;
  fail("expected a type of the KV cache or of activations");
  return 0;
}

static uint64_t read_seed(void) {
  const double seed = read_number();
  if (!(seed >= 0 && seed <= 0x1p53)) fail("expected a seed from 0 to 2^53");
  return (uint64_t)seed;
}

static void read_prompt(receipt *r) {
  r->n_prompt = read_integer();
  if (r->prompt || r->n_prompt < 1 || r->n_prompt > MAX_PROMPT)
    fail("expected one prompt of 1 to 1048576 tokens");
  r->prompt = malloc(r->n_prompt * sizeof *r->prompt);
  for (uint32_t i = 0; r->prompt && i < r->n_prompt; i++) r->prompt[i] = read_integer();
}

static void read_bias(receipt *r) {
  const uint32_t i = r->sample.n_bias++;
  if (i == MAX_BIASES) fail("expected at most 64 biases");
  r->bias[i].id = read_integer();
  r->bias[i].bias = (float)read_number();
}

static receipt read_receipt(void) {
#define X(table, NAME, name, ...) #name,
  static const char *const kv[] = {BQ_KV_TYPES(X, )};
#undef X
  static const char *const activations[] = {"i8", "i16"};
  receipt r = {0};
  char word[32];
  while (scanf("%31s", word) == 1) {
    if (!strcmp(word, "context")) r.session.context = read_integer();
    else if (!strcmp(word, "kv")) r.session.kv_type = (bq_kv_type)read_name(kv, BQ_KV_COUNT);
    else if (!strcmp(word, "activations"))
      r.session.activations = (bq_activations)read_name(activations, 2);
    else if (!strcmp(word, "temperature")) r.sample.temperature = (float)read_number();
    else if (!strcmp(word, "topK")) r.sample.top_k = read_integer();
    else if (!strcmp(word, "topP")) r.sample.top_p = (float)read_number();
    else if (!strcmp(word, "minP")) r.sample.min_p = (float)read_number();
    else if (!strcmp(word, "repeatPenalty")) r.sample.repeat_penalty = (float)read_number();
    else if (!strcmp(word, "repeatLast")) r.sample.repeat_last = read_integer();
    else if (!strcmp(word, "bias")) read_bias(&r);
    else if (!strcmp(word, "seed")) r.seed = read_seed();
    else if (!strcmp(word, "tokens")) r.tokens = read_integer();
    else if (!strcmp(word, "prompt")) read_prompt(&r);
    else fail("expected a name of an option or `prompt`");
  }
  if (!r.prompt) fail("expected a prompt, found none");
  return r;
}

/* --- computing -------------------------------------------------------------------------------- */

static void *allocate(void *ctx, size_t bytes) {
  (void)ctx;
  return aligned_alloc(BQ_ALIGN, (bytes + BQ_ALIGN) / BQ_ALIGN * BQ_ALIGN);
}
static void release(void *ctx, void *block) {
  (void)ctx;
  free(block);
}
static const bq_allocator memory = {NULL, allocate, release};

/* Exits with the error if there is one. */
static void check(bq_status status, const bq_error *err) {
  if (!status) return;
  fprintf(stderr, "replay: %s %s\n", bq_status_name(status), err->detail);
  exit(1);
}

/* Loads a model file. The caller frees the loader, which owns the model. */
static bq_loader *load(const char *path) {
  static uint8_t bytes[1 << 20];
  bq_loader *loader = NULL;
  bq_error err = {0};
  FILE *file = fopen(path, "rb");
  if (!file) fail("MODEL.bq4 cannot be opened");
  const bq_loader_options options = {.allocator = memory};
  check(bq_loader_create(&options, &loader, &err), &err);
  for (bq_want want;;) {
    check(bq_loader_want(loader, &want, &err), &err);
    if (!want.length) break;
    const size_t n = want.length < sizeof bytes ? (size_t)want.length : sizeof bytes;
    if (fseek(file, (long)want.offset, SEEK_SET) || fread(bytes, 1, n, file) != n)
      fail("expected more bytes of MODEL.bq4, found its end");
    check(bq_loader_feed(loader, bytes, n, &err), &err);
  }
  fclose(file);
  return loader;
}

/* Generates tokens and prints them. */
static void generate(const bq_model *model, receipt *r) {
  bq_session *session = NULL;
  bq_error err = {0};
  bq_rng rng = bq_rng_seed(r->seed);
  r->sample.bias = r->bias;
  check(bq_session_create(model, &r->session, memory, &session, &err), &err);
  check(bq_session_sync(session, r->prompt, r->n_prompt, NULL, &err), &err);
  for (uint32_t i = 0; i < r->tokens; i++) {
    uint32_t id = 0;
    check(bq_session_run(session, 0, &err), &err);
    check(bq_session_sample(session, &r->sample, &rng, &id, &err), &err);
    printf("%s%" PRIu32, i ? " " : "", id);
    if (bq_token_ends(bq_model_tokenizer(model), id) || i + 1 == r->tokens) break;
    check(bq_session_append(session, id, &err), &err);
  }
  printf("\n");
  bq_session_free(session);
}

int main(int argc, char **argv) {
  size_t threads = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
  if (threads < 1 || threads > MAX_THREADS)
    fail("expected MODEL.bq4 and THREADS, 1 to 32: replay MODEL.bq4 THREADS <RECEIPT");
  receipt r = read_receipt();
  if (threads > 1) r.session.parallel = (bq_parallel){&threads, run_parallel, threads, NULL, NULL};
  bq_loader *loader = load(argv[1]);
  bq_model *model = NULL;
  bq_error err = {0};
  check(bq_loader_model(loader, &model, &err), &err);
  generate(model, &r);
  bq_loader_free(loader);
  free(r.prompt);
  return 0;
}
