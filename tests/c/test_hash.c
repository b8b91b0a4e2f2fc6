/* XXH64 and SHA-256 against values of other implementations: for XXH64 those that the xxHash
 * project publishes for its own check, and more from the Python package xxhash 4.1.0; for SHA-256
 * those of NIST's examples, and more from Python's hashlib. */
#include "check.h"

#include "core/hash.h"

enum { BYTES = 4096 };
static const uint64_t seeded = 2654435761u;

/* The check's own byte sequence. */
static void fill(uint8_t *bytes) {
  uint64_t g = 2654435761u;
  for (size_t i = 0; i < BYTES; i++, g *= 11400714785074694797u) bytes[i] = (uint8_t)(g >> 56);
}

static void test_xxh64_known(void) {
  static const struct {
    size_t n;
    uint64_t seed, hash;
  } known[] = {
      {0, 0, 0xef46db3751d8e999},      {0, 2654435761u, 0xac75fda2929b17ef},
      {1, 0, 0xe934a84adb052768},      {1, 2654435761u, 0x5014607643a9b4c3},
      {4, 0, 0x9136a0dca57457ee},      {14, 0, 0x8282dcc4994e35c8},
      {14, 2654435761u, 0xc3bd6bf63deb6df0}, {31, 0, 0x299b39a290e6d783},
      {32, 0, 0x18b216492bb44b70},     {33, 0, 0x55c8dc3e578f5b59},
      {63, 0, 0xa9efbe0fa0f3f4e7},     {64, 2654435761u, 0xb5eeba99264cc44f},
      {222, 0, 0xb641ae8cb691c174},    {222, 2654435761u, 0x20cb8ab7ae10c14a},
      {4096, 0, 0xab77f4af85f4e70b},
  };
  uint8_t bytes[BYTES];
  fill(bytes);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    CHECK(bq_xxh64(bytes, known[i].n, known[i].seed) == known[i].hash);
}

/* All lengths up to 300, seeded with the length: the hash of their hashes. */
static void test_xxh64_lengths(void) {
  uint8_t bytes[BYTES];
  fill(bytes);
  bq_xxh64_state all;
  bq_xxh64_begin(&all, 0);
  for (size_t n = 0; n <= 300; n++) {
    uint64_t hash = bq_xxh64(bytes, n, n);
    uint8_t text[8];
    for (int i = 0; i < 8; i++) text[i] = (uint8_t)(hash >> 8 * i);
    bq_xxh64_add(&all, text, 8);
  }
  CHECK(bq_xxh64_end(&all) == 0xb9e61277bdef5b0b);
}

static void test_xxh64_pieces(void) {
  uint8_t bytes[BYTES];
  fill(bytes);
  uint64_t random = 1;
  for (int round = 0; round < 200; round++) {
    size_t n = (size_t)round * 20 + 7;
    bq_xxh64_state s;
    bq_xxh64_begin(&s, seeded);
    for (size_t at = 0; at < n;) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      size_t part = (size_t)(random >> 33) % (round % 2 ? 7 : 100);
      if (part > n - at) part = n - at;
      bq_xxh64_add(&s, bytes + at, part);
      at += part;
    }
    CHECK(bq_xxh64_end(&s) == bq_xxh64(bytes, n, seeded));
    CHECK(bq_xxh64_end(&s) == bq_xxh64(bytes, n, seeded)); /* end changes nothing */
  }
}

static bool sha256_is(const uint8_t *bytes, size_t n, const char *hex) {
  uint8_t hash[BQ_SHA256_BYTES];
  char text[2 * BQ_SHA256_BYTES + 1];
  bq_sha256(bytes, n, hash);
  for (int i = 0; i < BQ_SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", hash[i]);
  return CHECK_STR(text, hex);
}

/* NIST, "SHA-256 examples": one block, two blocks; FIPS 180-2: a million times "a". */
static void test_sha256_known(void) {
  static const struct {
    const char *text, *hex;
  } known[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmn"
       "opqrs"
       "mnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    sha256_is((const uint8_t *)known[i].text, strlen(known[i].text), known[i].hex);
  static uint8_t million[1000000];
  memset(million, 'a', sizeof million);
  sha256_is(million, sizeof million,
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* All lengths up to 300: the hash of their hashes. The same in pieces. */
static void test_sha256_lengths(void) {
  uint8_t bytes[BYTES], hash[BQ_SHA256_BYTES], pieces[BQ_SHA256_BYTES];
  static uint8_t all[301 * BQ_SHA256_BYTES];
  fill(bytes);
  for (size_t n = 0; n <= 300; n++) {
    bq_sha256(bytes, n, all + n * BQ_SHA256_BYTES);
    bq_sha256_state s;
    bq_sha256_begin(&s);
    for (size_t at = 0, part; at < n; at += part) {
      part = 1 + (at * 7 + n) % 90;
      if (part > n - at) part = n - at;
      bq_sha256_add(&s, bytes + at, part);
      bq_sha256_end(&s, hash); /* changes nothing */
    }
    bq_sha256_end(&s, pieces);
    CHECK(memcmp(pieces, all + n * BQ_SHA256_BYTES, BQ_SHA256_BYTES) == 0);
  }
  sha256_is(all, sizeof all, "60ed49ef273928f50c12925b7ce0b68422684e74d5867508f69d352b314d3ea7");
}

int main(void) {
  RUN(test_xxh64_known);
  RUN(test_xxh64_lengths);
  RUN(test_xxh64_pieces);
  RUN(test_sha256_known);
  RUN(test_sha256_lengths);
  return check_summary();
}
