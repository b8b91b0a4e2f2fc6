/* Threads with a barrier: the same bits as with one thread, one run per work unit of a session, for
 * any shares of the threads. */
#define _POSIX_C_SOURCE 200112L /* pthread_barrier_t */
#include <string.h>

#include "check.h"
#include "session/session.h"

#ifdef __EMSCRIPTEN__ /* These test programs have no threads; tests/js tests the modules. */
int main(void) { return check_summary(); }
#else
#include <pthread.h>

#include "random.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { VOCAB = 61, PROMPT = 33, STEPS = 6, MAX_THREADS = 5 };
enum { LONG_PROMPT = 509, LONG_STEPS = 11, LONG_CONTEXT = 544 };

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
  size_t parts[MAX_THREADS];     /* number of barriers that each thread has passed */
  size_t current_part, next_row; /* the part that is being computed, and its next row */
  uint64_t seed;
} team;

typedef struct member {
  team *team;
  size_t thread;
} member;

static void *run_member(void *arg) {
  member *m = arg;
  m->team->fn(m->team->arg, m->thread, m->team->threads);
  return NULL;
}

static void run(void *ctx, void (*fn)(void *, size_t, size_t), void *arg) {
  team *t = ctx;
  pthread_t ids[MAX_THREADS];
  member members[MAX_THREADS];
  t->fn = fn;
  t->arg = arg;
  t->runs++;
  for (size_t i = 1; i < t->threads; i++) {
    members[i] = (member){t, i};
    if (pthread_create(&ids[i], NULL, run_member, &members[i])) abort();
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

/* Returns random shares of the rows, in no order; some threads get none. */
static bool take_rows(void *ctx, size_t thread, size_t threads, size_t n, size_t *from,
                      size_t *to) {
  team *t = ctx;
  const size_t current_part = t->parts[thread] + (size_t)t->runs * 1000;
  pthread_mutex_lock(&t->mutex);
  if (t->current_part != current_part) t->next_row = 0;
  t->current_part = current_part;
  const size_t rows_left = n - t->next_row,
               random_rows = 1 + random_bits(&t->seed) % (2 * n / threads + 1);
  *from = t->next_row;
  *to = t->next_row += random_rows < rows_left ? random_rows : rows_left;
  pthread_mutex_unlock(&t->mutex);
  return *from < *to;
}

static void *allocate(void *ctx, size_t bytes) {
  (void)ctx;
  return tiny_aligned(bytes);
}
static void release(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

/* Computes the logits of a prompt in batches of several tokens, then of each of `steps` tokens. */
static void compute_logits(const tiny_model *t, bq_session_options o, uint32_t length,
                           uint32_t steps, float (*logits)[VOCAB]) {
  bq_session *s = NULL;
  uint32_t prompt[LONG_CONTEXT];
  for (uint32_t i = 0; i < length; i++) prompt[i] = i * 37 % VOCAB;
  REQUIRE(bq_session_create(&t->model, &o, (bq_allocator){NULL, allocate, release}, &s, NULL) ==
          BQ_OK);
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
    compute_logits(&t, (bq_session_options){.kv_type = (bq_kv_type)kv}, PROMPT, STEPS, expected);
    for (size_t threads = 2; threads <= MAX_THREADS; threads++) {
      /* Modes: runs only, with a barrier, with shares, too. Each number of threads has each mode
       * with some KV type. */
      const int mode = (int)(threads + (size_t)kv) % 3;
      const bool with_barrier = mode > 0;
      team team = {.threads = threads, .seed = threads};
      pthread_mutex_init(&team.mutex, NULL);
      pthread_barrier_init(&team.barrier, NULL, (unsigned)threads);
      bq_session_options o = {.batch = 20,
                              .kv_type = (bq_kv_type)kv,
                              .parallel = {&team, run, threads, with_barrier ? barrier : NULL,
                                           mode == 2 ? take_rows : NULL}};
      memset(actual, 0, sizeof actual);
      compute_logits(&t, o, PROMPT, STEPS, actual);
      CHECK_MEM(actual, expected, sizeof expected);
      /* Two batches and STEPS tokens. With a barrier, a layer of a batch is one run, and all layers
       * of a token are one run; without a barrier, a layer is 10 or 6 runs. The heads are added. */
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

/* Compares threads with one thread, after a prompt of less than 512 positions; from position 512
 * on, threads share the attention of a token. Returns the number of barriers of a thread. */
static size_t check_long_context(bq_config c, bq_session_options o, size_t threads,
                                 bool with_shares) {
  static float expected[LONG_STEPS + 1][VOCAB], actual[LONG_STEPS + 1][VOCAB];
  tiny_model t;
  c.context = LONG_CONTEXT;
  tiny_create(&t, c, BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  o.kv_type = BQ_KV_I8;
  compute_logits(&t, o, LONG_PROMPT, LONG_STEPS, expected);
  team team = {.threads = threads, .seed = threads};
  pthread_mutex_init(&team.mutex, NULL);
  pthread_barrier_init(&team.barrier, NULL, (unsigned)threads);
  o.parallel = (bq_parallel){&team, run, threads, barrier, with_shares ? take_rows : NULL};
  compute_logits(&t, o, LONG_PROMPT, LONG_STEPS, actual);
  CHECK_MEM(actual, expected, sizeof expected);
  pthread_barrier_destroy(&team.barrier);
  pthread_mutex_destroy(&team.mutex);
  tiny_free(&t);
  return team.parts[0];
}

static void test_threads_share_attention_of_a_token(void) {
  bq_config c = config(), grouped = config();
  grouped.heads = 5; /* for one KV head; four of them are computed together */
  grouped.kv_heads = 1;
  const bq_config configs[] = {c, grouped, tiny_windowed(c, 520), tiny_layered(c, 5),
                               tiny_sub_normed(c), tiny_sinking(c, 520)};
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
    check_long_context(configs[i], (bq_session_options){.batch = 128}, 4 + i % 2, i / 2 % 2);
  const bq_session_options o = {.batch = 128};
  /* With three threads, each has two of the six heads. Four threads share the positions of tokens
   * from position 512 on, with two more barriers in each of three layers. */
  const size_t separate_heads = check_long_context(c, o, 3, true),
               shared_positions = check_long_context(c, o, 4, true);
  CHECK_EQ(shared_positions, separate_heads + 3 * 2 * (LONG_STEPS - (511 - LONG_PROMPT)));
  check_long_context(c, (bq_session_options){.batch = 128, .kv_window = 256}, 4, true);
  check_long_context(c, (bq_session_options){.batch = 128, .kv_window = 512, .sinks = 4}, 4, true);
  const bq_session_options evicting = {.batch = 128, .kv_window = 512,
                                       .evict = BQ_EVICT_ATTENTION};
  check_long_context(c, evicting, 4, true);
}

static void test_bits_do_not_depend_on_threads(void) {
  check_threads(config(), true);
  check_threads(tiny_convolving(config()), false);
  check_threads(tiny_delta(config()), false);
  check_threads(tiny_mamba(config(), false), false);
  check_threads(tiny_mamba(config(), true), false);
  check_threads(tiny_layered(config(), 5), false);
  check_threads(tiny_layered_encoder(config(), 5), false);
  check_threads(tiny_sub_normed(config()), false);
  check_threads(tiny_sinking(config(), 5), false);
}

int main(void) {
  RUN(test_bits_do_not_depend_on_threads);
  RUN(test_threads_share_attention_of_a_token);
  return check_summary();
}
#endif
