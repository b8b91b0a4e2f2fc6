/* The known-answer test's inside, for tests: what bq_kernels_self_test compares with. */
#ifndef BQ_KERNELS_SELF_TEST_H
#define BQ_KERNELS_SELF_TEST_H

#include "kernels/kernels.h"

/* Hash of all outputs of all slots on fixed input, but for rare types, or of their matmuls alone;
 * the known ones are the scalar table's. */
#define BQ_KNOWN_ANSWER 0xea7ae0386249f950ull
#define BQ_KNOWN_RARE_ANSWER 0x6b6e9a3c3b92c7e0ull
uint64_t bq_kernels_answer(const bq_kernels *k, bool rare);

#endif
