#include "kernels/kernels.h"
const bq_kernels *bq_kernels_relaxed(void) { return NULL; }
