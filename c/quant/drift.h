/* What layers that are rounded already change in the inputs of those behind them, made good by the
 * weights of these (GPTAQ, https://arxiv.org/abs/2504.02692). With y what goes into a product in
 * the whole model and x what goes into it behind rounded layers, weights v that give there what w
 * gave err by |v x - w y|^2, summed over a text. That is least for w + w D H^-1, with the moments
 * H = sum of x x^T (moments.h) and the *drift* D = sum of (y - x) x^T; and what v errs beyond that
 * is (v - w - w D H^-1) H (...)^T, so rounding goes on from these weights as from any others. */
#ifndef BQ_DRIFT_H
#define BQ_DRIFT_H

#include <stddef.h>

/* drift [cols][cols] += (y - x)^T x, of `tokens` rows of each; each element adds up token by token.
 * This is part `part` of `parts`, which threads may do at once. */
void bq_drift_add(float *drift, size_t cols, const float *y, const float *x, size_t tokens,
                  size_t part, size_t parts);

/* Floats of work space for bq_drift_correct, for any number of rows. */
size_t bq_drift_floats(size_t cols);

/* w [rows][cols] += w D H^-1, row by row; `feedback` is of the same inputs (bq_feedback_factor), and
 * has H^-1. */
void bq_drift_correct(float *w, size_t rows, size_t cols, const float *drift,
                        const float *feedback, float *work);

#endif
