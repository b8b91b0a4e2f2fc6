/* The same engine with threads of emscripten's runtimes, for a comparison of size and start time.
 */
#include <stdint.h>

#include "border.h"

static _Atomic uint32_t entered;
BQW(uint32_t) bench_entered(void) { return entered; }

#ifdef BENCH_PTHREADS
#include <pthread.h>
static void *go(void *arg) {
  (void)arg;
  entered = 1;
  bqw_thread_main(1);
  return NULL;
}
BQW(void) bench_start(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, go, NULL)) __builtin_trap();
}
#else
#include <emscripten/wasm_worker.h>
static void go(void) {
  entered = 1;
  bqw_thread_main(1);
}
BQW(void) bench_start(void) {
  emscripten_wasm_worker_t worker = emscripten_malloc_wasm_worker(BQW_THREAD_STACK);
  emscripten_wasm_worker_post_function_v(worker, go);
}
#endif
