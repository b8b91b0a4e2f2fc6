/**
 * Where the tensors of a foreign file lie when they are as the engine computes with them: tiles, aligned, in the order in which
 * they are needed. That is the file which the cache keeps, and of which weights can be paged (docs/FORMAT.md §4).
 */
import { ROWS, runLayout, TILED, TYPES, weightBytes } from '../bq4/weight-types.js';
import { matrixOf } from '../bq4/write-v2.js';
import { storedType, toldType } from './types.js';

/** @import { ListedTensor } from '../bq4/manifest.js' */

const ALIGN = 64;

/**
 * A tensor as it is stored, in few words: what the cache keeps of it.
 * @typedef {[name: string, dims: readonly number[], stored: number, run: number, from: number]} Kept
 */

/**
 * @typedef {ListedTensor & { from: number, stored: import('../bq4/weight-types.js').WeightType, storedBytes: number, unit: number, storedUnit: number, rows: number, cols: number }} Placed
 *   `from`, `stored`, `storedBytes`: in the foreign file; `unit` bytes of ours are made of `storedUnit` of theirs: 8 rows, or a
 *   byte where nothing changes
 */

/** When a tensor is needed: before the layers, in layer n, behind them. @param {string} name */
function stageOf(name) {
  const layer = /^h\.(\d+)\./.exec(name)?.[1];
  if (layer !== undefined) return Number(layer);
  return /^(ln_f|lm_head)\./.test(name) ? Infinity : -1;
}

/**
 * In the order in which a model needs them; within a layer as they lie in the file, so that they come in one piece.
 * @param {readonly ListedTensor[]} tensors
 * @param {(stored: number) => number} runType  by ids of the engine
 * @param {boolean} asStored  as they lie in the file, all of them
 * @returns {Kept[]}
 */
export function inOrder(tensors, runType, asStored) {
  const stage = asStored ? () => 0 : stageOf;
  return [...tensors]
    .sort((a, b) => (stage(a.name) === stage(b.name) ? a.offset - b.offset : stage(a.name) - stage(b.name)))
    .map(({ name, dims, type, offset }) => [
      name,
      dims,
      type.id,
      dims.length === 1 ? type.id : runType(toldType(type.id)),
      offset,
    ]);
}

/** @param {readonly Kept[]} kept @param {number} start  where the first may lie @returns {Placed[]} */
export function place(kept, start) {
  let end = start;
  return kept.map(([name, dims, storedId, runId, from]) => {
    const { rows, cols } = matrixOf(/** @type {number[]} */ (dims));
    const [stored, type] = [storedType(storedId), TYPES[runId]];
    const layout = dims.length === 1 ? ROWS : runLayout(type);
    const offset = Math.ceil(end / ALIGN) * ALIGN;
    const bytes = weightBytes(type, layout, rows, cols);
    end = offset + bytes;
    const storedBytes = weightBytes(stored, ROWS, rows, cols);
    const [unit, storedUnit] =
      layout === TILED ? [weightBytes(type, TILED, 8, cols), weightBytes(stored, ROWS, 8, cols)] : [1, 1];
    return { name, type, layout, dims, offset, bytes, from, stored, storedBytes, unit, storedUnit, rows, cols };
  });
}

/** Where that file ends. @param {readonly Placed[]} tensors */
export function endOf(tensors) {
  const last = tensors[tensors.length - 1];
  return last.offset + last.bytes;
}
