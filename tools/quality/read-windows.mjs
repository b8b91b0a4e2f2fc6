// Computes the logits at every position of known texts.
import { fromFile } from '../../js/node.js';
import { measureBuilds } from '../../js/wasm/wasm.js';
import { openLogits } from '../../tests/js/logits.mjs';

/** Number of draft tokens of a batch. A batch also contains the token before them. */
const DRAFT_TOKENS = 31;

/**
 * Computes the logits of all positions but the last of each window. The following tokens of the window are the draft tokens of a batch, so
 * all of them are accepted. Activations are i16, and the KV cache is f32.
 * @param {string} file
 * @param {number[][]} windows  tokens
 * @param {number} contextTokens
 * @param {(logits: Float32Array, nextToken: number, position: number) => void} onLogits  `position` is counted over all windows
 */
export async function readWindows(file, windows, contextTokens, onLogits) {
  const options = {
    build: await measureBuilds({}), // The fastest build; all builds compute the same bits.
    contextTokens,
    kv: /** @type {'f32'} */ ('f32'),
    activations: /** @type {'i16'} */ ('i16'),
    draftTokens: DRAFT_TOKENS,
  };
  const { wasm, session, sync, run, close } = await openLogits(fromFile(file), options);
  let position = 0;
  for (const tokens of windows) {
    sync([tokens[0]]);
    for (let i = 0, computedDrafts = 0; i + 1 < tokens.length; i++) {
      if (i) wasm.check('bqw_session_append', session, tokens[i]);
      if (computedDrafts) computedDrafts--;
      else
        computedDrafts = wasm.scope((alloc) => {
          const drafts = Uint32Array.from(tokens.slice(i + 1, i + 1 + DRAFT_TOKENS));
          const pointer = alloc(4 * drafts.length);
          wasm.u32(pointer, drafts.length).set(drafts);
          return wasm.out('bqw_session_draft', session, pointer, drafts.length);
        });
      onLogits(run(), tokens[i + 1], position++);
    }
  }
  close();
}
