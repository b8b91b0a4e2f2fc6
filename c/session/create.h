/* Creates, forks and frees sessions; plans their memory. Implements of bq.h: bq_session_create,
 * fork, free. */
#ifndef BQ_CREATE_H
#define BQ_CREATE_H

#include "session/session.h"

/* Heap bytes of a session with all its forks; UINT64_MAX: more than the machine can address.
 * *kv_bytes (may be NULL): the part of them for the positions of its own context. */
uint64_t bq_session_memory(const bq_config *config, const bq_kernels *kernels,
                           const bq_session_options *options, uint64_t *kv_bytes);

#endif
