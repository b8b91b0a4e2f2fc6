// Logits at every position of texts that are known.
import { fromFile } from '../../js/node.js';
import { measureBuilds } from '../../js/wasm/wasm.js';
import { openLogits } from '../../tests/js/logits.mjs';

/** Tokens that are computed in one batch, besides the first. */
const BATCH = 31;

/**
 * Batch by batch: what comes next is guessed, rightly. Activations of i16, KV f32.
 * @param {string} file @param {number[][]} windows @param {number} context @param {(logits: Float32Array, next: number, at: number) => void} take  `at` counts on over all
 */
export async function read(file, windows, context, take) {
  const options = {
    build: await measureBuilds({}), // the same bits sooner
    contextTokens: context,
    kv: /** @type {'f32'} */ ('f32'),
    activations: /** @type {'i16'} */ ('i16'),
    draftTokens: BATCH,
  };
  const { wasm, session, sync, run, close } = await openLogits(fromFile(file), options);
  let at = 0;
  for (const ids of windows) {
    sync([ids[0]]);
    for (let i = 0, ahead = 0; i + 1 < ids.length; i++) {
      if (i) wasm.check('bqw_session_append', session, ids[i]);
      if (ahead) ahead--;
      else
        ahead = wasm.scope((room) => {
          const predictions = Uint32Array.from(ids.slice(i + 1, i + 1 + BATCH));
          const to = room(4 * predictions.length);
          wasm.u32(to, predictions.length).set(predictions);
          return wasm.out('bqw_session_draft', session, to, predictions.length);
        });
      take(run(), ids[i + 1], at++);
    }
  }
  close();
}
