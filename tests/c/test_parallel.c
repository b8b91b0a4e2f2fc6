/* Real threads with a real barrier: the same bits as one thread, one run per slice of a session,
 * whatever the threads' shares. */
#define _POSIX_C_SOURCE 200112L /* pthread_barrier_t */
#include <string.h>

#include "check.h"
#include "session/session.h"

#ifdef __EMSCRIPTEN__ /* these test programs have no threads; the shipped modules are tested in \
                         js/ */
int main(void) { return check_summary(); }
#else
#include <pthread.h>

#include "random.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { VOCAB = 61, PROMPT = 33, STEPS = 6, MOST_THREADS = 5 };
enum { FAR_PROMPT = 509, FAR_STEPS = 11, FAR_CONTEXT = 544 };

static bq_config config(void) {
  return (bq_config){.layers = 3,
                     .hidden = 72,
                     .heads = 6,
                     .kv_heads = 2,
                     .head_dim = 12,
                     .ffn = 104,
                     .vocab = VOCAB,
                     .context = 48,
                     .gated = true,
                     .tied = true};
}

typedef struct team {
  size_t threads;
  pthread_barrier_t barrier;
  void (*fn)(void *, size_t, size_t);
  void *arg;
  int runs;
  pthread_mutex_t mutex;
  size_t parts[MOST_THREADS]; /* barriers that each thread has passed */
  size_t part, given;         /* of the part under way */
  uint64_t seed;
} team;

typedef struct member {
  team *team;
  size_t thread;
} member;

static void *work(void *arg) {
  member *m = arg;
  m->team->fn(m->team->arg, m->thread, m->team->threads);
  return NULL;
}

static void run(void *ctx, void (*fn)(void *, size_t, size_t), void *arg) {
  team *t = ctx;
  pthread_t ids[MOST_THREADS];
  member members[MOST_THREADS];
  t->fn = fn;
  t->arg = arg;
  t->runs++;
  for (size_t i = 1; i < t->threads; i++) {
    members[i] = (member){t, i};
    if (pthread_create(&ids[i], NULL, work, &members[i])) abort();
  }
  fn(arg, 0, t->threads);
  for (size_t i = 1; i < t->threads; i++) pthread_join(ids[i], NULL);
}

static void barrier(void *ctx, size_t thread, size_t threads) {
  (void)threads;
  team *t = ctx;
  t->parts[thread]++;
  pthread_barrier_wait(&t->barrier);
}

/* Uneven shares in no order: some get much, some nothing. */
static bool take(void *ctx, size_t thread, size_t threads, size_t n, size_t *from, size_t *to) {
  team *t = ctx;
  const size_t part = t->parts[thread] + (size_t)t->runs * 1000;
  pthread_mutex_lock(&t->mutex);
  if (t->part != part) t->given = 0;
  t->part = part;
  const size_t left = n - t->given, some = 1 + random_bits(&t->seed) % (2 * n / threads + 1);
  *from = t->given;
  *to = t->given += some < left ? some : left;
  pthread_mutex_unlock(&t->mutex);
  return *from < *to;
}

static void *reserve(void *ctx, size_t bytes) {
  (void)ctx;
  return tiny_aligned(bytes);
}
static void give(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

/* Logits after a prompt in batches of several tokens, then after each of `steps` more tokens. */
static void follow(const tiny_model *t, bq_session_options o, uint32_t length, uint32_t steps,
                   float (*logits)[VOCAB]) {
  bq_session *s = NULL;
  uint32_t prompt[FAR_CONTEXT];
  for (uint32_t i = 0; i < length; i++) prompt[i] = i * 37 % VOCAB;
  REQUIRE(bq_session_create(&t->model, &o, (bq_allocator){NULL, reserve, give}, &s, NULL) == BQ_OK);
  bq_session_sync(s, prompt, length, NULL, NULL);
  for (uint32_t i = 0; i <= steps; i++) {
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(logits[i], bq_session_logits(s), sizeof logits[i]);
    bq_session_append(s, i * 5, NULL);
  }
  bq_session_free(s);
}

static void check_threads(bq_config c, bool every_kv_type) {
  static float expected[STEPS + 1][VOCAB], actual[STEPS + 1][VOCAB];
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) {
    if (!every_kv_type && kv != BQ_KV_F16 && kv != BQ_KV_I8) continue;
    tiny_model t;
    tiny_create(&t, c, kv == 1 ? BQ_TYPE_F16 : BQ_TYPE_BQ4_32, bq_kernels_best(), true);
    follow(&t, (bq_session_options){.kv_type = (bq_kv_type)kv}, PROMPT, STEPS, expected);
    for (size_t threads = 2; threads <= MOST_THREADS; threads++) {
      /* Runs alone, with a barrier, with shares too: each number of threads meets each of them
       * with some KV type. */
      const int way = (int)(threads + (size_t)kv) % 3;
      const bool with_barrier = way > 0;
      team team = {.threads = threads, .seed = threads};
      pthread_mutex_init(&team.mutex, NULL);
      pthread_barrier_init(&team.barrier, NULL, (unsigned)threads);
      bq_session_options o = {.batch = 20, .kv_type = (bq_kv_type)kv,
                              .parallel = {&team, run, threads, with_barrier ? barrier : NULL,
                                           way == 2 ? take : NULL}};
      memset(actual, 0, sizeof actual);
      follow(&t, o, PROMPT, STEPS, actual);
      CHECK_MEM(actual, expected, sizeof expected);
      /* Two batches and STEPS tokens: a layer is one run or ten (one token: six, or all layers in
       * one run); and the heads. */
      if (with_barrier && !c.bidirectional)
        CHECK_EQ(team.runs, (int)c.layers * 2 + STEPS + 1 + STEPS);
      else if (!c.conv_size && !c.layer_embed)
        CHECK_EQ(team.runs, 3 * (2 * 10 + STEPS * 6) + 1 + STEPS);
      pthread_barrier_destroy(&team.barrier);
      pthread_mutex_destroy(&team.mutex);
    }
    tiny_free(&t);
  }
}

/* Compares threads with one thread, after a prompt that ends before 512 positions, from where on
 * threads share the attention of a token. Returns the barriers that a thread has passed. */
static size_t check_far(bq_config c, bq_session_options o, size_t threads, bool shares) {
  static float expected[FAR_STEPS + 1][VOCAB], actual[FAR_STEPS + 1][VOCAB];
  tiny_model t;
  c.context = FAR_CONTEXT;
  tiny_create(&t, c, BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  o.kv_type = BQ_KV_I8;
  follow(&t, o, FAR_PROMPT, FAR_STEPS, expected);
  team team = {.threads = threads, .seed = threads};
  pthread_mutex_init(&team.mutex, NULL);
  pthread_barrier_init(&team.barrier, NULL, (unsigned)threads);
  o.parallel = (bq_parallel){&team, run, threads, barrier, shares ? take : NULL};
  follow(&t, o, FAR_PROMPT, FAR_STEPS, actual);
  CHECK_MEM(actual, expected, sizeof expected);
  pthread_barrier_destroy(&team.barrier);
  pthread_mutex_destroy(&team.mutex);
  tiny_free(&t);
  return team.parts[0];
}

static void test_threads_share_the_attention_of_a_token(void) {
  bq_config c = config(), many = config();
  many.heads = 5; /* for one KV head, of which four are computed together */
  many.kv_heads = 1;
  const bq_config all[] = {c, many, tiny_windowed(c, 520), tiny_layered(c, 5), tiny_sub_normed(c)};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    check_far(all[i], (bq_session_options){.batch = 128}, 4 + i % 2, i / 2 % 2);
  const bq_session_options o = {.batch = 128};
  /* With three threads each has two of the six heads; with four the positions are shared, by two
   * more barriers in each of three layers, for the tokens from position 512 on. */
  const size_t apart = check_far(c, o, 3, true), together = check_far(c, o, 4, true);
  CHECK_EQ(together, apart + 3 * 2 * (FAR_STEPS - (511 - FAR_PROMPT)));
  check_far(c, (bq_session_options){.batch = 128, .kv_window = 256}, 4, true);
  check_far(c, (bq_session_options){.batch = 128, .kv_window = 512, .sinks = 4}, 4, true);
  const bq_session_options evicting = {.batch = 128, .kv_window = 512,
                                       .evict = BQ_EVICT_ATTENTION};
  check_far(c, evicting, 4, true);
}

static void test_threads_give_the_same_bits(void) {
  check_threads(config(), true);
  check_threads(tiny_convolving(config()), false);
  check_threads(tiny_delta(config()), false);
  check_threads(tiny_mamba(config(), false), false);
  check_threads(tiny_mamba(config(), true), false);
  check_threads(tiny_layered(config(), 5), false);
  check_threads(tiny_layered_encoder(config(), 5), false);
  check_threads(tiny_sub_normed(config()), false);
}

int main(void) {
  RUN(test_threads_give_the_same_bits);
  RUN(test_threads_share_the_attention_of_a_token);
  return check_summary();
}
#endif
