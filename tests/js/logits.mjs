// A model at the wasm border itself, for what the public interface doesn't show: its logits.
import { argmax } from '../../js/engine/model/probabilities.js';
import { structs } from '../../js/wasm/abi.js';
import { Loading } from '../../js/storage/load/loading.js';
import { planModel, sessionRecord } from '../../js/engine/plan/plan.js';
import { openSource, toSource } from '../../js/storage/sources/index.js';
import { Threads } from '../../js/wasm/threads.js';
import { loadOptionalKernels } from '../../js/wasm/optional-kernels.js';
import { compile, Wasm } from '../../js/wasm/wasm.js';

/** One for all models, so that workers are used again. */
const workers = new Threads();
workers.count = 8;

/**
 * @param {import('../../js/shared/types.js').SourceLike} from
 * @param {{ build?: import('../../js/shared/types.js').Build, threads?: number, prefillBatch?: number, prefillWindow?: number, kv?: 'f32' | 'f16' | 'i8' | 'i4' | 'i2', activations?: 'i8' | 'i16',
 *   contextTokens?: number, draftTokens?: number, sessions?: number, adapterBytes?: number, kvWindow?: number, kvSinks?: number,
 *   kvEvict?: 'oldest' | 'attention', quality?: import('../../js/shared/types.js').Quality }} [options]  `threads`: 0, by default: with the build that has none;
 *   `kv`: the reference's type by default
 */
export async function openLogits(from, { build, threads = 0, kv = 'f32', ...sizes } = {}) {
  const options = { ...sizes, kv };
  const compiled = { ...(await compile({ build }, threads > 0)), threads: Math.max(threads, 1) };
  const source = toSource(from);
  const file = await openSource(source);
  // The file is loaded as it is, with all weights in memory.
  const planned = await planModel(compiled, source, file, { memoryBudget: Infinity, ...options });
  const rare = planned.plan.rareTypes ? await loadOptionalKernels(compiled) : undefined;
  const wasm = await Wasm.create(compiled, planned.regionBytes, rare);
  const failure = await workers.attach(wasm, compiled, threads);
  if (failure) throw new Error(failure);
  const loading = new Loading(wasm, file, planned, options);
  const model = await loading.model;
  await loading.done;
  const { vocabSize: vocab } = planned.plan;
  const out = wasm.alloc(16 + structs.bqw_session_options.size);
  const result = () => wasm.u32(out, 1)[0];
  /** @param {typeof sizes} [more]  options of this one */
  const opened = (more) => {
    wasm.write(
      'bqw_session_options',
      out + 16,
      sessionRecord({ contextTokens: planned.plan.contextTokens, ...options, ...more }),
    );
    wasm.check('bqw_session_create', model, out + 16, out);
    const session = result();

    const run = () => {
      while (wasm.check('bqw_session_run', session, 0) !== 0);
      wasm.check('bqw_session_logits', session, out);
      return wasm.f32(result(), vocab).slice();
    };
    /** Makes `tokens` the timeline. @param {ArrayLike<number>} tokens */
    const sync = (tokens) =>
      wasm.scope((take) => {
        const at = take(4 * tokens.length);
        wasm.u32(at, tokens.length).set(Uint32Array.from(tokens));
        wasm.check('bqw_session_sync', session, at, tokens.length, out);
      });
    return {
      wasm,
      model,
      session,
      layers: planned.plan.layers,
      vocab,
      sync,
      run,
      close: () => wasm.release(),
      /** Logits after the last of `tokens`, which become the timeline. @param {ArrayLike<number>} tokens */
      start(tokens) {
        sync(tokens);
        return run();
      },
      /** Logits after one more token. @param {number} token */
      next(token) {
        wasm.check('bqw_session_append', session, token);
        return run();
      },
    };
  };
  return { ...opened(), /** Another session of the same model: see `sessions`. */ another: opened };
}

export { argmax };

/** -log of the probability that `logits` give to `token`. @param {Float32Array} logits @param {number} token */
export function surprise(logits, token) {
  const max = logits[argmax(logits)];
  let sum = 0;
  for (const value of logits) sum += Math.exp(value - max);
  return Math.log(sum) + max - logits[token];
}
