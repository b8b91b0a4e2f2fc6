/* SentencePiece unigram (Kudo 2018): the segmentation into pieces with the highest sum of scores,
 * by Viterbi's algorithm. Among equal ones, the one whose last piece begins first. */
#include "text/utf8.h"
#include "text/vocab.h"

/* A lattice node: the best segmentation that ends at a byte. Only ends of characters have one. */
typedef struct way {
  double score;
  uint32_t id;    /* of its last piece */
  uint32_t begin; /* of its last piece; after turn_round: end of the piece that begins here */
} way;

static double score_of(const bq_tokenizer *t, uint32_t id) {
  uint32_t bits = bq_load32(t->scores + 4 * (size_t)id);
  float score;
  memcpy(&score, &bits, 4);
  return score;
}

/* SentencePiece adds in f32, Hugging Face in f64; rounding a sum of two f32 twice gives the same.
 */
static double add(const bq_tokenizer *t, double a, double b) {
  return t->flags & BQ_TOKENIZER_DOUBLE ? a + b : (double)(float)(a + b);
}

static void offer(way *w, double score, uint32_t id, uint32_t begin) {
  if (w->begin == BQ_TOKEN_NONE || score > w->score) *w = (way){score, id, begin};
}

/* Relaxes all pieces that begin at `at`, whose first character has `length` bytes. */
static void extend(const bq_tokenizer *t, const uint8_t *text, uint32_t n, uint32_t at,
                   uint32_t length, way *ways) {
  uint32_t most = n - at < t->longest ? n - at : t->longest, h = BQ_HASH_START;
  const double here = ways[at].score;
  bool single = false;
  for (uint32_t i = 1; i <= most; i++) {
    h = bq_hash_byte(h, text[at + i - 1]);
    if (i < n - at && (text[at + i] & 0xc0) == 0x80) continue; /* within a character */
    if (!bq_vocab_begins(t, h)) break;
    uint32_t id = bq_vocab_find_hash(t, h, text + at, i, BQ_KINDS_TEXT);
    if (id == BQ_TOKEN_NONE) continue;
    offer(&ways[at + i], add(t, here, score_of(t, id)), id, at);
    single |= i == length;
  }
  if (!single) offer(&ways[at + length], add(t, here, t->unknown_score), BQ_TOKEN_NONE, at);
}

/* Reverses the best path: `begin` of each node becomes the end of the next piece. Returns the end
 * of the first piece. */
static uint32_t turn_round(way *ways, uint32_t n) {
  uint32_t next = 0;
  for (uint32_t end = n; end;) {
    uint32_t begin = ways[end].begin;
    ways[end].begin = next;
    next = end;
    end = begin;
  }
  return next;
}

uint64_t bq_unigram_scratch(uint64_t bytes) { return (bytes + 1) * sizeof(way); }

void bq_unigram_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, void *memory,
                       bq_ids *out) {
  const uint32_t n = (uint32_t)bytes;
  way *ways = memory;
  for (uint32_t i = 0; i <= n; i++) ways[i] = (way){0, BQ_TOKEN_NONE, BQ_TOKEN_NONE};
  for (uint32_t at = 0, length; at < n; at += length) {
    uint32_t code_point;
    length = bq_utf8_decode(text + at, n - at, &code_point);
    extend(t, text, n, at, length, ways);
  }
  bool unknown = false;
  for (uint32_t begin = 0, end = turn_round(ways, n); end; begin = end, end = ways[begin].begin) {
    const uint32_t id = ways[end].id;
    if (id == BQ_TOKEN_NONE) bq_put_unknown(t, text + begin, end - begin, unknown, out);
    else bq_ids_put(out, id);
    unknown = id == BQ_TOKEN_NONE;
  }
}
