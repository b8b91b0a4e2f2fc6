/* XXH64 and SHA-256 against values of other implementations: for XXH64 the values of the self-test
 * of the xxHash project, and more from the Python package xxhash 4.1.0; for SHA-256 the examples of
 * NIST, and more from Python's hashlib. */
#include "check.h"

#include "core/hash.h"

enum { BYTES = 4096 };
static const uint64_t SEED = 2654435761u;

/* The byte sequence of the self-test of xxHash. */
static void fill(uint8_t *bytes) {
  uint64_t g = 2654435761u;
  for (size_t i = 0; i < BYTES; i++, g *= 11400714785074694797u) bytes[i] = (uint8_t)(g >> 56);
}

static void test_xxh64_known_values(void) {
  static const struct {
    size_t n;
    uint64_t seed, hash;
  } cases[] = {
      {0, 0, 0xef46db3751d8e999},
      {0, 2654435761u, 0xac75fda2929b17ef},
      {1, 0, 0xe934a84adb052768},
      {1, 2654435761u, 0x5014607643a9b4c3},
      {4, 0, 0x9136a0dca57457ee},
      {14, 0, 0x8282dcc4994e35c8},
      {14, 2654435761u, 0xc3bd6bf63deb6df0},
      {31, 0, 0x299b39a290e6d783},
      {32, 0, 0x18b216492bb44b70},
      {33, 0, 0x55c8dc3e578f5b59},
      {63, 0, 0xa9efbe0fa0f3f4e7},
      {64, 2654435761u, 0xb5eeba99264cc44f},
      {222, 0, 0xb641ae8cb691c174},
      {222, 2654435761u, 0x20cb8ab7ae10c14a},
      {4096, 0, 0xab77f4af85f4e70b},
  };
  uint8_t bytes[BYTES];
  fill(bytes);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECK(bq_xxh64(bytes, cases[i].n, cases[i].seed) == cases[i].hash);
}

/* The hash of the hashes of all lengths up to 300, with the length as the seed. */
static void test_xxh64_lengths(void) {
  uint8_t bytes[BYTES];
  fill(bytes);
  bq_xxh64_state hashes;
  bq_xxh64_begin(&hashes, 0);
  for (size_t n = 0; n <= 300; n++) {
    uint64_t hash = bq_xxh64(bytes, n, n);
    uint8_t text[8];
    for (int i = 0; i < 8; i++) text[i] = (uint8_t)(hash >> 8 * i);
    bq_xxh64_add(&hashes, text, 8);
  }
  CHECK(bq_xxh64_end(&hashes) == 0xb9e61277bdef5b0b);
}

static void test_xxh64_parts(void) {
  uint8_t bytes[BYTES];
  fill(bytes);
  uint64_t random = 1;
  for (int round = 0; round < 200; round++) {
    size_t n = (size_t)round * 20 + 7;
    bq_xxh64_state s;
    bq_xxh64_begin(&s, SEED);
    for (size_t at = 0; at < n;) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      size_t part = (size_t)(random >> 33) % (round % 2 ? 7 : 100);
      if (part > n - at) part = n - at;
      bq_xxh64_add(&s, bytes + at, part);
      at += part;
    }
    CHECK(bq_xxh64_end(&s) == bq_xxh64(bytes, n, SEED));
    CHECK(bq_xxh64_end(&s) ==
          bq_xxh64(bytes, n, SEED)); /* bq_xxh64_end() does not change the state. */
  }
}

static bool check_sha256(const uint8_t *bytes, size_t n, const char *hex) {
  uint8_t hash[BQ_SHA256_BYTES];
  char text[2 * BQ_SHA256_BYTES + 1];
  bq_sha256(bytes, n, hash);
  for (int i = 0; i < BQ_SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", hash[i]);
  return CHECK_STR(text, hex);
}

/* NIST, "SHA-256 examples": one block, two blocks; FIPS 180-2: a million times "a". */
static void test_sha256_known_values(void) {
  static const struct {
    const char *text, *hex;
  } cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmn"
       "opqrs"
       "mnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_sha256((const uint8_t *)cases[i].text, strlen(cases[i].text), cases[i].hex);
  static uint8_t million[1000000];
  memset(million, 'a', sizeof million);
  check_sha256(million, sizeof million,
               "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The hash of the hashes of all lengths up to 300, which are the same if computed in parts. */
static void test_sha256_lengths(void) {
  uint8_t bytes[BYTES], hash[BQ_SHA256_BYTES], parts_hash[BQ_SHA256_BYTES];
  static uint8_t hashes[301 * BQ_SHA256_BYTES];
  fill(bytes);
  for (size_t n = 0; n <= 300; n++) {
    bq_sha256(bytes, n, hashes + n * BQ_SHA256_BYTES);
    bq_sha256_state s;
    bq_sha256_begin(&s);
    for (size_t at = 0, part; at < n; at += part) {
      part = 1 + (at * 7 + n) % 90;
      if (part > n - at) part = n - at;
      bq_sha256_add(&s, bytes + at, part);
      bq_sha256_end(&s, hash); /* bq_sha256_end() does not change the state. */
    }
    bq_sha256_end(&s, parts_hash);
    CHECK(memcmp(parts_hash, hashes + n * BQ_SHA256_BYTES, BQ_SHA256_BYTES) == 0);
  }
  check_sha256(hashes, sizeof hashes,
               "60ed49ef273928f50c12925b7ce0b68422684e74d5867508f69d352b314d3ea7");
}

int main(void) {
  RUN(test_xxh64_known_values);
  RUN(test_xxh64_lengths);
  RUN(test_xxh64_parts);
  RUN(test_sha256_known_values);
  RUN(test_sha256_lengths);
  return check_summary();
}
