/* The known-answer test's inside, for tests: what bq_kernels_self_test compares with. */
#ifndef BQ_KERNELS_SELF_TEST_H
#define BQ_KERNELS_SELF_TEST_H

#include "kernels/kernels.h"

/* Hash of all outputs of all slots on fixed input; BQ_KNOWN_ANSWER is the scalar table's. */
#define BQ_KNOWN_ANSWER 0xa39fc5e040367281ull
uint64_t bq_kernels_answer(const bq_kernels *k);

#endif
