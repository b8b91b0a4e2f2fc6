/* How much of a model has arrived: a count of stages in execution order. */
#ifndef BQ_READY_H
#define BQ_READY_H

#define BQ_READY_EMBEDDING 1u
#define BQ_READY_LAYER(i) ((i) + 2u)         /* layer i, 0-based, can be computed */
#define BQ_READY_ALL(layers) ((layers) + 2u) /* final norm and head too */

#endif
