/**
 * The ACTQ section (docs/FORMAT.md): quantization steps of the activations that enter each matrix, for engines with
 * static steps.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';

const encoder = new TextEncoder();

/**
 * Encodes an ACTQ payload. Throws FORMAT unless `steps` maps names of matrices to positive numbers.
 * @param {any} steps  { "h.0.attn.q": 0.0123, ... }
 * @param {ReadonlySet<string>} matrices  names of the model's matrices, "h.0.attn.q.weight"
 */
export function encodeActivations(steps, matrices) {
  const rows = Object.entries(steps && typeof steps === 'object' && !Array.isArray(steps) ? steps : { '': 0 });
  for (const [name, step] of rows) {
    if (!matrices.has(`${name}.weight`))
      throw new BqError('FORMAT', `activation steps: the model has no matrix "${name}"`, {
        hint: 'expected JSON: { "h.0.attn.q": 0.0123, ... }',
      });
    if (!(typeof step === 'number' && Math.fround(step) > 0 && Number.isFinite(Math.fround(step))))
      throw new BqError('FORMAT', `activation step of "${name}": expected a positive number, found ${shown(step)}`);
  }
  const names = rows.map(([name]) => encoder.encode(name));
  const bytes = new Uint8Array(4 + names.reduce((sum, name) => sum + 6 + name.length, 0));
  const view = new DataView(bytes.buffer);
  view.setUint32(0, rows.length, true);
  let at = 4;
  rows.forEach(([, step], i) => {
    view.setUint16(at, names[i].length, true);
    bytes.set(names[i], at + 2);
    view.setFloat32(at + 2 + names[i].length, step, true);
    at += 6 + names[i].length;
  });
  return bytes;
}
