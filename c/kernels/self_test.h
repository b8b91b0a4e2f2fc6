/* Internals of the known-answer test (bq_kernels_self_test), for tests. */
#ifndef BQ_KERNELS_SELF_TEST_H
#define BQ_KERNELS_SELF_TEST_H

#include "kernels/kernels.h"

/* Hash of the outputs of all entries on fixed input, except matmuls of rare types; with `rare`, of
 * the matmuls of rare types only. */
uint64_t bq_kernels_answer(const bq_kernels *k, bool rare);

#endif
