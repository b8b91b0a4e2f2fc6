// The golden run: greedy ids and a hash of every logit, the same code in Node and in a browser.
import { xxh64 } from '../../js/convert/xxh64.js';
import { Loading } from '../../js/loading.js';
import { planModel, sessionRecord } from '../../js/plan.js';
import { openSource, toSource } from '../../js/sources/index.js';
import { compile, Wasm } from '../../js/wasm.js';

/** The first of the largest. @param {Float32Array} logits */
function argmax(logits) {
  let best = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  return best;
}

/**
 * @param {'relaxed' | 'simd128'} variant
 * @param {Uint8Array} model
 * @param {number[]} prompt
 * @param {number} count
 * @returns {Promise<{ build: string, ids: number[], hash: string }>}  `hash`: XXH64 of the logits of all steps, as f32
 */
export async function goldenRun(variant, model, prompt, count) {
  const compiled = await compile({ variant });
  const source = toSource(model);
  const file = await openSource(source);
  const planned = await planModel(compiled, source, file, {});
  const wasm = await Wasm.create(compiled, planned.regionBytes);
  const loading = new Loading(wasm, file, planned, {});
  const handle = await loading.model;
  await loading.done;

  const { vocab } = planned.plan;
  const logits = new Float32Array(vocab * count);
  /** @type {number[]} */
  const ids = [];
  wasm.scope((take) => {
    const [options, out, list] = [take(16), take(4), take(4 * prompt.length)];
    const result = () => wasm.u32(out, 1)[0];
    wasm.write('bqw_session_options', options, sessionRecord({}));
    wasm.check('bqw_session_create', handle, options, out);
    const session = result();
    wasm.u32(list, prompt.length).set(prompt);
    wasm.check('bqw_session_sync', session, list, prompt.length, out);
    for (let step = 0; step < count; step++) {
      while (wasm.check('bqw_session_run', session, 1000) !== 0);
      wasm.check('bqw_session_logits', session, out);
      const now = wasm.f32(result(), vocab);
      logits.set(now, step * vocab);
      ids.push(argmax(now));
      wasm.check('bqw_session_append', session, ids[step]);
    }
  });
  const build = wasm.text(wasm.call('bqw_build'));
  wasm.release();
  return { build, ids, hash: xxh64(new Uint8Array(logits.buffer)).toString(16).padStart(16, '0') };
}
