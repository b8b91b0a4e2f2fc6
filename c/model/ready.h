/* Loading stages: how much of a model has arrived, counted in execution order. */
#ifndef BQ_READY_H
#define BQ_READY_H

#define BQ_READY_EMBEDDING 1u
#define BQ_READY_LAYER(i) ((i) + 2u)         /* layer i, from 0 on, can be computed */
#define BQ_READY_ALL(layers) ((layers) + 2u) /* final norm and head have arrived, too */

#endif
