/* SentencePiece unigram (Kudo 2018): the segmentation into pieces with the highest sum of scores,
 * by Viterbi's algorithm. Among equal ones, the one whose last piece begins first. */
#include "text/utf8.h"
#include "text/vocab.h"

/* A lattice node: the best segmentation that ends at a byte. Only ends of characters have one. */
typedef struct lattice_node {
  double score;
  uint32_t id;    /* of its last piece */
  uint32_t begin; /* of its last piece; after reverse_path: end of the piece that begins here */
} lattice_node;

static double score_of(const bq_tokenizer *t, uint32_t id) {
  uint32_t bits = bq_load32(t->scores + 4 * (size_t)id);
  float score;
  memcpy(&score, &bits, 4);
  return score;
}

/* Adds two scores. SentencePiece adds in f32, Hugging Face in f64. An f64 sum of two f32, rounded
 * to f32, is the f32 sum. */
static double add(const bq_tokenizer *t, double a, double b) {
  return t->flags & BQ_TOKENIZER_DOUBLE ? a + b : (double)(float)(a + b);
}

static void relax(lattice_node *w, double score, uint32_t id, uint32_t begin) {
  if (w->begin == BQ_TOKEN_NONE || score > w->score) *w = (lattice_node){score, id, begin};
}

/* Relaxes all pieces that begin at `at`, whose first character has `length` bytes. */
static void relax_pieces(const bq_tokenizer *t, const uint8_t *text, uint32_t n, uint32_t at,
                         uint32_t length, lattice_node *nodes) {
  uint32_t max = n - at < t->longest ? n - at : t->longest, h = BQ_HASH_START;
  const double score = nodes[at].score;
  bool single = false;
  for (uint32_t i = 1; i <= max; i++) {
    h = bq_hash_byte(h, text[at + i - 1]);
    if (i < n - at && (text[at + i] & 0xc0) == 0x80) continue; /* within a character */
    if (!bq_vocab_begins(t, h)) break;
    uint32_t id = bq_vocab_find_hash(t, h, text + at, i, BQ_KINDS_TEXT);
    if (id == BQ_TOKEN_NONE) continue;
    relax(&nodes[at + i], add(t, score, score_of(t, id)), id, at);
    single |= i == length;
  }
  if (!single) relax(&nodes[at + length], add(t, score, t->unknown_score), BQ_TOKEN_NONE, at);
}

/* Reverses the best path: `begin` of each node becomes the end of the next piece. Returns the end
 * of the first piece. */
static uint32_t reverse_path(lattice_node *nodes, uint32_t n) {
  uint32_t next = 0;
  for (uint32_t end = n; end;) {
    uint32_t begin = nodes[end].begin;
    nodes[end].begin = next;
    next = end;
    end = begin;
  }
  return next;
}

uint64_t bq_unigram_scratch(uint64_t bytes) { return (bytes + 1) * sizeof(lattice_node); }

void bq_unigram_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, void *memory,
                       bq_ids *out) {
  const uint32_t n = (uint32_t)bytes;
  lattice_node *nodes = memory;
  for (uint32_t i = 0; i <= n; i++) nodes[i] = (lattice_node){0, BQ_TOKEN_NONE, BQ_TOKEN_NONE};
  for (uint32_t at = 0, length; at < n; at += length) {
    uint32_t code_point;
    length = bq_utf8_decode(text + at, n - at, &code_point);
    relax_pieces(t, text, n, at, length, nodes);
  }
  bool unknown = false;
  for (uint32_t begin = 0, end = reverse_path(nodes, n); end;
       begin = end, end = nodes[begin].begin) {
    const uint32_t id = nodes[end].id;
    if (id == BQ_TOKEN_NONE) bq_put_unknown(t, text + begin, end - begin, unknown, out);
    else bq_ids_put(out, id);
    unknown = id == BQ_TOKEN_NONE;
  }
}
