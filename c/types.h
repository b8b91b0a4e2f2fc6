/* Public types that modules below bq.h use as well. bq.h includes this header, and every file may.
 * It includes standard headers only. */
#ifndef BQ_TYPES_H
#define BQ_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bq_loader bq_loader;
typedef struct bq_model bq_model;
typedef struct bq_session bq_session;

#define BQ_FILE_ID_BYTES 16u

/* Stages of a forward pass. Traces (bq_trace) and counts of work (bq_work) have one entry for each.
 */
typedef enum bq_stage {
  BQ_STAGE_HOST = 0, /* outside the session */
  BQ_STAGE_EMBED,    /* embeddings and rotary angles */
  BQ_STAGE_NORM,     /* norms, and quantizing activations for the next matmul */
  BQ_STAGE_QKV,
  BQ_STAGE_KV,       /* rotating queries and keys, storing keys and values */
  BQ_STAGE_ATTEND,
  BQ_STAGE_O,
  BQ_STAGE_MLP_IN,   /* gate and up projections */
  BQ_STAGE_ACTIVATE,
  BQ_STAGE_DOWN,
  BQ_STAGE_HEAD,
  BQ_STAGE_SAMPLE,
  BQ_STAGE_COUNT
} bq_stage;

/* Residency: which matrices stay in memory after loading. The others are *paged*: read from the
 * file again each time they are needed, into one of two buffers, while the engine computes with the
 * weights in the other. Results are the same to the bit. Vectors always stay. A paged model reads
 * only the rows of the embedding that it needs. Zeroed: everything stays. */
typedef struct bq_residency {
  bool paged;
  bool head;        /* if paged: whether the head (and tied embeddings) stay */
  uint32_t layers;  /* if paged: number of layers that stay, distributed evenly */
} bq_residency;

/* Memory that a residency takes, and bytes that it reads. */
typedef struct bq_paging {
  bq_residency residency;
  uint64_t model_bytes;    /* model_bytes of bq_plan with this residency */
  uint64_t slot_bytes;     /* bytes of one of the two buffers; 0: nothing is paged */
  uint64_t streamed_bytes; /* read from the file for each generated token */
  uint32_t units;          /* number of these reads, not counting rows of the embedding */
} bq_paging;

/* A read that a session of a paged model waits for (bq_session_pages). */
typedef struct bq_page {
  uint64_t offset; /* in the file */
  uint8_t *dst;    /* [bytes]: where the host writes the page; not accessed otherwise until
                      bq_model_page_done */
  size_t bytes;
  uint32_t id;     /* for bq_model_page_done */
} bq_page;

#endif
