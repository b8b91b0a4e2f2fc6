/* Runs a fuzzer without libFuzzer, which has no runtime for wasm, where size_t has 32 bits. Without
 * feedback from coverage, it tries many inputs of the mutator.
 *
 *   node fuzz_NAME.js FIRST SECONDS [FILE…]
 *
 * Inputs have numbers, and the number and the files determine an input: after a failure, run the
 * program again from the last number that was printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/cursor.h"

enum { MAX_SIZE = 65536, FILES = 16, PRINT_INTERVAL = 256, GUARDED = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                                     unsigned seed);

static uint64_t state;

static uint64_t random_bits(void) { /* splitmix64 */
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static size_t random_below(size_t n) {
  return n ? (size_t)(random_bits() % n) : 0;
}

/* Writes an extreme number at any place. */
static void put_extreme(uint8_t *data, size_t size) {
  static const uint64_t values[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, UINT64_C(1) << 32,
                                    UINT64_C(1) << 53, UINT64_MAX, 0xffffffc0, 0xffff, 64};
  const size_t bytes = (size_t)1 << random_below(4);
  if (bytes > size) return;
  uint64_t v = values[random_below(sizeof values / sizeof *values)] + random_bits() % 3 - 1;
  uint8_t *at = data + random_below(size - bytes + 1);
  for (size_t i = 0; i < bytes; i++) at[i] = (uint8_t)(v >> 8 * i);
}

/* Makes one small change; mutators of fuzzers call it, too. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) {
  if (size > max_size) size = max_size;
  const size_t at = random_below(size), n = 1 + random_below(16);
  switch (random_below(6)) {
    case 0: /* longer */
      if (size + n > max_size) break;
      memmove(data + at + n, data + at, size - at);
      for (size_t i = 0; i < n; i++) data[at + i] = (uint8_t)random_bits();
      return size + n;
    case 1: /* shorter */
      if (size < at + n + 1) break;
      memmove(data + at, data + at + n, size - at - n);
      return size - n;
    case 2: /* bytes from elsewhere */
      if (size > n) memmove(data + random_below(size - n), data + random_below(size - n), n);
      return size;
    case 3:
      if (size) data[at] ^= (uint8_t)(1 << random_below(8));
      return size;
    case 4:
      if (size) data[at] = (uint8_t)random_bits();
      return size;
    default:
      put_extreme(data, size);
      return size;
  }
  return size;
}

static size_t read_file(const char *path, uint8_t *out) {
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  const size_t n = fread(out, 1, MAX_SIZE, file);
  fclose(file);
  return n;
}

static size_t make_input(uint8_t *data, uint64_t number, int files, char **paths) {
  state = number;
  const size_t from = random_below((size_t)files + 1);
  size_t size = from ? read_file(paths[from - 1], data) : random_below(256);
  for (size_t i = 0; !from && i < size; i++) data[i] = (uint8_t)random_bits();
  for (size_t changes = 1 + random_below(8); changes; changes--)
    size = LLVMFuzzerCustomMutator
               ? LLVMFuzzerCustomMutator(data, size, MAX_SIZE, (unsigned)random_bits())
               : LLVMFuzzerMutate(data, size, MAX_SIZE);
  return size;
}

/* Whether the first KiB of memory has changed. Emscripten's data begins after it, so a write there
 * used an address that was never allocated. */
static bool low_memory_changed(void) {
#ifdef __wasm__
  static uint8_t previous[GUARDED];
  static bool initialized;
  for (uintptr_t at = 16; at < GUARDED; at++) {
    const uint8_t byte = *(volatile uint8_t *)at;
    if (initialized && previous[at] != byte) return true;
    previous[at] = byte;
  }
  initialized = true;
#endif
  return false;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  static uint8_t data[MAX_SIZE];
  const uint64_t first = strtoull(argv[1], NULL, 10);
  const time_t end = time(NULL) + strtol(argv[2], NULL, 10);
  uint64_t number = first;
  for (; time(NULL) < end; number++) {
    if (number % PRINT_INTERVAL == 0)
      printf("input %llu\n", (unsigned long long)number), fflush(stdout);
    const size_t size = make_input(data, number, argc - 3 < FILES ? argc - 3 : FILES, argv + 3);
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    if (!low_memory_changed()) continue;
    printf("input %llu: expected no write to the first %d bytes, found one\n",
           (unsigned long long)number, GUARDED);
    return 1;
  }
  printf("%llu inputs from %llu on, sizes of %zu bits\n", (unsigned long long)(number - first),
         (unsigned long long)first, 8 * sizeof(size_t));
  return 0;
}
