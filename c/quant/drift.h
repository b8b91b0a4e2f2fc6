/* Asymmetric calibration (GPTAQ, https://arxiv.org/abs/2504.02692): corrects the weights of a layer
 * for the change that rounding earlier layers made to its inputs. Let y be a matmul's input in the
 * original model and x its input after rounded layers. Weights v in place of w give the squared
 * error |v x - w y|^2, summed over a calibration text. Its minimum is at v = w + w D H^-1, with the
 * second moments H = sum of x x^T (moments.h) and the drift D = sum of (y - x) x^T. Any other v
 * adds (v - w - w D H^-1) H (v - w - w D H^-1)^T, so the corrected weights are then rounded like
 * any others. */
#ifndef BQ_DRIFT_H
#define BQ_DRIFT_H

#include <stddef.h>

/* Computes drift [cols][cols] += (y - x)^T x, for x and y [tokens][cols]; each element accumulates
 * token by token. Computes part `part` of `parts`; threads may compute different parts at once. */
void bq_drift_add(float *drift, size_t cols, const float *y, const float *x, size_t tokens,
                  size_t part, size_t parts);

/* Number of floats of work space of bq_drift_correct, for any number of rows. */
size_t bq_drift_floats(size_t cols);

/* Computes w [rows][cols] += w D H^-1, row by row. `feedback`: bq_feedback_factor of the moments of
 * the same inputs, which determines H^-1. */
void bq_drift_correct(float *w, size_t rows, size_t cols, const float *drift, const float *feedback,
                      float *work);

#endif
