/* Loading stages, in execution order. bq_model.ready is the number of stages that have arrived;
 * each constant is the number from which on the named part can be computed. */
#ifndef BQ_READY_H
#define BQ_READY_H

#define BQ_READY_EMBEDDING 1u
#define BQ_READY_LAYER(i) ((i) + 2u)         /* layer i, from 0 on */
#define BQ_READY_ALL(layers) ((layers) + 2u) /* final norm and head */

#endif
