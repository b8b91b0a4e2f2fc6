#include "session/options.h"

#include "core/minmax.h"

/* Validates window and sink options. */
static bq_status check_window(const bq_config *config, bq_session_options *o, bq_error *err) {
  const bool moves = o->kv_window && !o->evict && config->position != BQ_POSITION_LEARNED;
  const uint64_t max_distance =
      moves ? (uint64_t)o->kv_window + BQ_KV_BLOCK + o->sinks : o->context;
  const uint32_t reserved = BQ_KV_BLOCK + o->sinks;
  const bool extends = config->position != BQ_POSITION_LEARNED && config->context > reserved;
  const uint32_t max_window = extends ? config->context - reserved : 0;
  if (o->kv_window && config->bidirectional)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "an encoder sees its text as a whole: no KV window");
  if (o->sinks > BQ_SINKS_MAX || (o->sinks && !o->kv_window))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "%u sinks with a KV window of %u: at most %u", o->sinks, o->kv_window,
                   o->kv_window ? (uint32_t)BQ_SINKS_MAX : 0);
  if ((unsigned)o->evict >= BQ_EVICT_COUNT)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "unknown way to evict %u", (uint32_t)o->evict);
  if (o->evict && (!o->kv_window || o->kv_window % BQ_KV_BLOCK))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "a KV window of %u: to evict by attention it is to be a multiple of %u",
                   o->kv_window, BQ_KV_BLOCK);
  if (o->context > config->context &&
      (max_distance > config->context || o->context > BQ_CONTEXT_MAX))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "context %u is larger than the model's own, %u, which a KV window of %u does "
                   "not extend: expected at most %u, or a KV window from 1 to %u",
                   o->context, config->context, o->kv_window, config->context, max_window);
  if (o->kv_window < o->context) return BQ_OK;
  o->kv_window = o->sinks = 0; /* the window covers the whole context */
  o->evict = BQ_EVICT_OLDEST;
  return BQ_OK;
}

bq_status bq_session_options_resolve(const bq_config *config, const bq_session_options *in,
                                     bq_session_options *out, bq_error *err) {
  bq_session_options o = in ? *in : (bq_session_options){0};
  if (o.context == 0) o.context = config->context;
  bq_status status = check_window(config, &o, err);
  if (status) return status;
  if ((unsigned)o.kv_type >= BQ_KV_COUNT)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "unknown KV cache type %u",
                   (uint32_t)o.kv_type);
  if ((unsigned)o.activations >= BQ_ACTIVATIONS_COUNT)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "unknown type of activations %u",
                   (uint32_t)o.activations);
  o.prefill_window =
      bq_min32(o.prefill_window ? o.prefill_window : 256, o.kv_window ? o.kv_window : o.context);
  o.batch = bq_min32(o.batch ? o.batch : 32, o.prefill_window);
  /* Bidirectional attention needs all keys of a layer before any query. */
  if (config->bidirectional) o.prefill_window = o.batch = o.context;
  o.hidden = o.hidden || config->no_head;
  if (!(o.head >= 0 && o.head < 1))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "a share of the head is from 0 (all of it) to less than 1");
  if (o.hidden) o.head = 0;
  o.rows = bq_min32(o.rows ? o.rows : 1, o.context);
  o.fork_positions = bq_min32(o.fork_positions ? o.fork_positions : o.context, o.context);
  if (o.forks > BQ_FORKS_MAX)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "%u forks are more than %u", o.forks,
                   (uint32_t)BQ_FORKS_MAX);
  if (!o.parallel.run || o.parallel.threads == 0) o.parallel = (bq_parallel){.threads = 1};
  if (o.parallel.threads > 1) o.spread = 0;
  *out = o;
  return BQ_OK;
}
