/**
 * Computes the layout in which the engine reads the tensors of a GGUF file: tiled, aligned, in the order of execution.
 * A file with this layout is called the repacked file: the cache stores it, and weights can be paged from it
 * (docs/FORMAT.md §4).
 */
import { ROWS, runLayout, TILED, TYPES, weightBytes } from '../bq4/weight-types.js';
import { matrixOf } from '../bq4/write-v2.js';
import { engineTypeId, typeWithId } from './types.js';

/** @import { ListedTensor } from '../bq4/manifest.js' */

const ALIGN = 64;

/**
 * A tensor of the GGUF file in the JSON of the cache. `storedId`: id of the storage type; `runId`: id of the compute
 * type; `from`: byte offset in the GGUF file.
 * @typedef {[name: string, dims: readonly number[], storedId: number, runId: number, from: number]} StoredTensor
 */

/**
 * A tensor of the repacked file. `from`, `stored`, `storedBytes`: offset, type and size in the GGUF file. Repacking
 * converts `storedUnit` stored bytes to `unit` bytes. A unit is 8 rows of a tiled tensor; for tensors that are copied,
 * both numbers are 1.
 * @typedef {ListedTensor & {
 *   from: number, stored: import('../bq4/weight-types.js').WeightType, storedBytes: number,
 *   unit: number, storedUnit: number, rows: number, cols: number
 * }} PlacedTensor
 */

/**
 * Returns the sort key for the order of execution: -1 before the layers, the number of the layer, Infinity after the
 * layers.
 * @param {string} name
 */
function stageOf(name) {
  const layer = /^h\.(\d+)\./.exec(name)?.[1];
  if (layer !== undefined) return Number(layer);
  return /^(ln_f|lm_head)\./.test(name) ? Infinity : -1;
}

/**
 * Returns the tensors in the order of execution. Within a layer they are in the order of the file, so that few requests
 * fetch them.
 * @param {readonly ListedTensor[]} tensors
 * @param {(storedId: number) => number} runType  returns the id of the compute type for the engine's id of a storage
 *   type
 * @param {boolean} asStored  whether to keep the order of the file
 * @returns {StoredTensor[]}
 */
export function executionOrder(tensors, runType, asStored) {
  const stage = asStored ? () => 0 : stageOf;
  return [...tensors]
    .sort((a, b) => (stage(a.name) === stage(b.name) ? a.offset - b.offset : stage(a.name) - stage(b.name)))
    .map(({ name, dims, type, offset }) => [
      name,
      dims,
      type.id,
      dims.length === 1 ? type.id : runType(engineTypeId(type.id)),
      offset,
    ]);
}

/**
 * Assigns offsets in the repacked file.
 * @param {readonly StoredTensor[]} tensors @param {number} start  lowest offset @returns {PlacedTensor[]}
 */
export function placeTensors(tensors, start) {
  let end = start;
  return tensors.map(([name, dims, storedId, runId, from]) => {
    const { rows, cols } = matrixOf(/** @type {number[]} */ (dims));
    const [stored, type] = [typeWithId(storedId), TYPES[runId]];
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

/** Returns the length of the repacked file. @param {readonly PlacedTensor[]} tensors */
export function endOfTensors(tensors) {
  const last = tensors[tensors.length - 1];
  return last.offset + last.bytes;
}
