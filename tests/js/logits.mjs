// A model at the wasm border itself: what the public interface doesn't show, the logits.
import { planModel } from '../../js/plan.js';
import { readRange } from '../../js/sources/read.js';
import { openSource } from '../../js/sources/index.js';
import { compile, Wasm } from '../../js/wasm.js';
import { readCompanion } from '../../js/companion.js';

/**
 * @param {import('../../js/sources/types.js').Source} source
 * @param {{ variant?: 'simd128' | 'relaxed', context?: number, kernel?: string }} [options]
 */
export async function openLogits(source, { variant, context } = {}) {
  const compiled = await compile({ variant });
  const file = await openSource(source);
  const planned = await planModel(compiled, source, file, { context });
  const companion = planned.plan.version === 1 ? await readCompanion(source) : new Uint8Array();
  const wasm = await Wasm.create(compiled, planned.regionBytes);
  const out = wasm.alloc(64);
  const result = () => wasm.u32(out, 1)[0];
  const extra = wasm.alloc(companion.length);
  wasm.bytes(extra, companion.length).set(companion);
  wasm.check('bqw_loader_create', file.size, planned.prefixBytes, companion.length && extra, companion.length, out);
  const loader = result();
  wasm.free(extra);
  for (;;) {
    wasm.check('bqw_loader_want', loader, out);
    const { offset, length, dst, dst_bytes: room } = wasm.read('bqw_want', out);
    if (!length) break;
    const piece = await readRange(file, offset, offset + Math.min(room, length));
    wasm.bytes(dst, piece.length).set(piece);
    wasm.check('bqw_loader_wrote', loader, piece.length);
  }
  await file.close();
  wasm.check('bqw_loader_model', loader, out);
  const model = result();
  wasm.write('bqw_session_options', out, { context });
  wasm.check('bqw_session_create', model, out, out + 32);
  const session = wasm.u32(out + 32, 1)[0];

  const run = () => {
    while (wasm.check('bqw_session_run', session, 0) !== 0);
    wasm.check('bqw_session_logits', session, out);
    return wasm.f32(result(), planned.plan.vocab).slice();
  };
  return {
    plan: planned.plan,
    kernel: wasm.text(wasm.call('bqw_build')),
    /** Logits after the last of these tokens, which become the timeline. @param {ArrayLike<number>} tokens */
    start(tokens) {
      wasm.scope((take) => {
        const at = take(4 * tokens.length);
        wasm.u32(at, tokens.length).set(Uint32Array.from(tokens));
        wasm.check('bqw_session_sync', session, at, tokens.length, out);
      });
      return run();
    },
    /** Logits after one more token. @param {number} token */
    next(token) {
      wasm.check('bqw_session_append', session, token);
      return run();
    },
  };
}

/** The first of the largest. @param {Float32Array} logits */
export const argmax = (logits) => logits.reduce((best, value, i) => (value > logits[best] ? i : best), 0);

/** Greedy ids and the logits behind each. @param {Awaited<ReturnType<typeof openLogits>>} model @param {number[]} prompt @param {number} count */
export function greedy(model, prompt, count) {
  const ids = [];
  const logits = [];
  for (let step = 0; step < count; step++) {
    logits.push(step ? model.next(ids[step - 1]) : model.start(prompt));
    ids.push(argmax(logits[step]));
  }
  return { ids, logits };
}
