// A model used through the ABI, for tests that need logits, which the public interface does not return.
import { argmax } from '../../js/engine/model/probabilities.js';
import { structs } from '../../js/wasm/abi.js';
import { Loading } from '../../js/storage/load/loading.js';
import { planModel, sessionRecord } from '../../js/engine/plan/plan.js';
import { openSource, toSource } from '../../js/storage/sources/index.js';
import { Threads } from '../../js/wasm/threads.js';
import { loadOptionalKernels } from '../../js/wasm/optional-kernels.js';
import { compile, Wasm } from '../../js/wasm/wasm.js';

/** Workers of all models. */
const workers = new Threads();
workers.count = 8;

/**
 * Loads a model and creates a session.
 * @param {import('../../js/shared/types.js').SourceLike} from
 * @param {{ build?: import('../../js/shared/types.js').Build, threads?: number, prefillBatch?: number, prefillWindow?: number, kv?: 'f32' | 'f16' | 'i8' | 'i4' | 'i2', activations?: 'i8' | 'i16',
 *   contextTokens?: number, draftTokens?: number, sessions?: number, adapterBytes?: number, kvWindow?: number, kvSinks?: number,
 *   kvEvict?: 'oldest' | 'attention', quality?: import('../../js/shared/types.js').Quality }} [options]  `threads`: the default 0 is the build without
 *   threads; `kv`: the default is f32, the type of the reference
 */
export async function openLogits(from, { build, threads = 0, kv = 'f32', ...sizes } = {}) {
  const options = { ...sizes, kv };
  const compiled = { ...(await compile({ build }, threads > 0)), threads: Math.max(threads, 1) };
  const source = toSource(from);
  const file = await openSource(source);
  // An infinite budget, so that all weights are in memory.
  const planned = await planModel(compiled, source, file, { memoryBudget: Infinity, ...options });
  const optionalKernels = planned.plan.rareTypes ? await loadOptionalKernels(compiled) : undefined;
  const wasm = await Wasm.create(compiled, planned.regionBytes, optionalKernels);
  const failure = await workers.attach(wasm, compiled, threads);
  if (failure) throw new Error(failure);
  const loading = new Loading(wasm, file, planned, options);
  const model = await loading.model;
  await loading.done;
  const { vocabSize: vocab } = planned.plan;
  const out = wasm.alloc(16 + structs.bqw_session_options.size);
  const result = () => wasm.u32(out, 1)[0];
  /** Creates a session. @param {typeof sizes} [more]  options of this session */
  const openSession = (more) => {
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
    /** Makes `tokens` the session's sequence. @param {ArrayLike<number>} tokens */
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
      /** Logits after the last of `tokens`, which become the session's sequence. @param {ArrayLike<number>} tokens */
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
  return {
    ...openSession(),
    /** Creates another session of the same model (option `sessions`). */ another: openSession,
  };
}

export { argmax };

/** Surprisal of a token: the negative natural logarithm of its probability. @param {Float32Array} logits @param {number} token */
export function surprisal(logits, token) {
  const max = logits[argmax(logits)];
  let sum = 0;
  for (const value of logits) sum += Math.exp(value - max);
  return Math.log(sum) + max - logits[token];
}
