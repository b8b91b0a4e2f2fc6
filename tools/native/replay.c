/* Computes what a receipt tells of (docs/reference/receipts.md) with the native build, which shares no
 * machine code with the modules of browsers:
 *
 *   replay MODEL.bq4 THREADS <RECEIPT
 *
 * RECEIPT are words: names of what was asked for, each with its value, and `prompt`, a number and
 * so many ids. Prints the ids, up to `tokens` of them, or to the first that ends a text. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bq.h"

enum { MOST_THREADS = 32, MOST_BIASES = 64 };

typedef struct receipt {
  bq_session_options session;
  bq_sample_options sample;
  bq_logit_bias bias[MOST_BIASES];
  uint64_t seed;
  uint32_t tokens, n_prompt, *prompt;
} receipt;

/* --- threads ---------------------------------------------------------------------------------- */

typedef struct member {
  void (*fn)(void *arg, size_t thread, size_t threads);
  void *arg;
  size_t thread, threads;
} member;

static void *work(void *arg) {
  member *m = arg;
  m->fn(m->arg, m->thread, m->threads);
  return NULL;
}

/* Threads of each run anew. */
static void run(void *ctx, void (*fn)(void *arg, size_t thread, size_t threads), void *arg) {
  const size_t threads = *(size_t *)ctx;
  pthread_t ids[MOST_THREADS];
  member members[MOST_THREADS];
  for (size_t i = 1; i < threads; i++) {
    members[i] = (member){fn, arg, i, threads};
    if (pthread_create(&ids[i], NULL, work, &members[i])) {
      fprintf(stderr, "replay: no thread\n");
      exit(1);
    }
  }
  fn(arg, 0, threads);
  for (size_t i = 1; i < threads; i++) pthread_join(ids[i], NULL);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void fail(const char *what) {
  fprintf(stderr, "replay: %s\n", what);
  exit(1);
}

static double number(void) {
  double value = 0;
  if (scanf("%lf", &value) != 1) fail("a number is missing");
  return value;
}

static uint32_t whole(void) {
  const double value = number();
  if (!(value >= 0 && value <= UINT32_MAX)) fail("a number is out of range");
  return (uint32_t)value;
}

static uint32_t named(const char *const *names, uint32_t n) {
  char word[16] = "";
  if (scanf("%15s", word) != 1) fail("a name is missing");
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(word, names[i])) return i;
  fail("an unknown name");
  return 0;
}

static uint64_t read_seed(void) {
  const double seed = number();
  if (!(seed >= 0 && seed <= 0x1p53)) fail("a number is out of range");
  return (uint64_t)seed;
}

static void read_prompt(receipt *r) {
  r->n_prompt = whole();
  if (r->prompt || r->n_prompt < 1 || r->n_prompt > 1 << 20) fail("no prompt");
  r->prompt = malloc(r->n_prompt * sizeof *r->prompt);
  for (uint32_t i = 0; r->prompt && i < r->n_prompt; i++) r->prompt[i] = whole();
}

static void read_bias(receipt *r) {
  const uint32_t i = r->sample.n_bias++;
  if (i == MOST_BIASES) fail("too many biases");
  r->bias[i].id = whole();
  r->bias[i].bias = (float)number();
}

static receipt read_receipt(void) {
  static const char *const kv[] = {
      [BQ_KV_F32] = "f32", [BQ_KV_F16] = "f16", [BQ_KV_I8] = "i8", [BQ_KV_I4] = "i4",
      [BQ_KV_I2] = "i2"};
  static const char *const activations[] = {"i8", "i16"};
  receipt r = {0};
  char word[32];
  while (scanf("%31s", word) == 1) {
    if (!strcmp(word, "context")) r.session.context = whole();
    else if (!strcmp(word, "kv")) r.session.kv_type = (bq_kv_type)named(kv, BQ_KV_COUNT);
    else if (!strcmp(word, "activations"))
      r.session.activations = (bq_activations)named(activations, 2);
    else if (!strcmp(word, "temperature")) r.sample.temperature = (float)number();
    else if (!strcmp(word, "topK")) r.sample.top_k = whole();
    else if (!strcmp(word, "topP")) r.sample.top_p = (float)number();
    else if (!strcmp(word, "minP")) r.sample.min_p = (float)number();
    else if (!strcmp(word, "repeatPenalty")) r.sample.repeat_penalty = (float)number();
    else if (!strcmp(word, "repeatLast")) r.sample.repeat_last = whole();
    else if (!strcmp(word, "bias")) read_bias(&r);
    else if (!strcmp(word, "seed")) r.seed = read_seed();
    else if (!strcmp(word, "tokens")) r.tokens = whole();
    else if (!strcmp(word, "prompt")) read_prompt(&r);
    else fail("an unknown word");
  }
  if (!r.prompt) fail("no prompt");
  return r;
}

/* --- computing -------------------------------------------------------------------------------- */

static void *take(void *ctx, size_t bytes) {
  (void)ctx;
  return aligned_alloc(BQ_ALIGN, (bytes + BQ_ALIGN) / BQ_ALIGN * BQ_ALIGN);
}
static void give(void *ctx, void *block) {
  (void)ctx;
  free(block);
}
static const bq_allocator memory = {NULL, take, give};

static void check(bq_status status, const bq_error *err) {
  if (!status) return;
  fprintf(stderr, "replay: %s %s\n", bq_status_name(status), err->detail);
  exit(1);
}

static bq_loader *load(const char *path) {
  static uint8_t bytes[1 << 20];
  bq_loader *loader = NULL;
  bq_error err = {0};
  FILE *file = fopen(path, "rb");
  if (!file) fail("the model can't be read");
  const bq_loader_options options = {.allocator = memory};
  check(bq_loader_create(&options, &loader, &err), &err);
  for (bq_want want;;) {
    check(bq_loader_want(loader, &want, &err), &err);
    if (!want.length) break;
    const size_t n = want.length < sizeof bytes ? (size_t)want.length : sizeof bytes;
    if (fseek(file, (long)want.offset, SEEK_SET) || fread(bytes, 1, n, file) != n)
      fail("the model ends too early");
    check(bq_loader_feed(loader, bytes, n, &err), &err);
  }
  fclose(file);
  return loader;
}

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
  if (threads < 1 || threads > MOST_THREADS) fail("usage: replay MODEL.bq4 THREADS <RECEIPT");
  receipt r = read_receipt();
  if (threads > 1) r.session.parallel = (bq_parallel){&threads, run, threads, NULL, NULL};
  bq_loader *loader = load(argv[1]);
  bq_model *model = NULL;
  bq_error err = {0};
  check(bq_loader_model(loader, &model, &err), &err);
  generate(model, &r);
  bq_loader_free(loader);
  free(r.prompt);
  return 0;
}
