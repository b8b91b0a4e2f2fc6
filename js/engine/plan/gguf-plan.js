/**
 * Plans of GGUF files. js/format/gguf reads the header and creates a manifest for C. The manifest describes the
 * original file or the repacked file (gguf/layout.js). The cache stores the manifest and then the repacked data, so a
 * later visit does not need the original header.
 */
import { encodeDirectory, encodeSections, section } from '../../format/bq4/frame.js';
import { endOfTensors, executionOrder, placeTensors } from '../../format/gguf/layout.js';
import { openGguf } from '../../format/gguf/open.js';
import { FileHash } from '../../format/gguf/file-hash.js';
import { RepackedSource } from '../../format/gguf/repacked.js';
import { conversionOf, engineTypeId } from '../../format/gguf/types.js';
import { TYPES } from '../../format/bq4/weight-types.js';
import { BqError } from '../../shared/errors.js';
import { openSource } from '../../storage/sources/index.js';
import { readRange } from '../../storage/sources/read.js';
import { STRIDE } from '../../storage/sources/split.js';
import { sections } from '../../shared/sections.js';
import { Wasm } from '../../wasm/wasm.js';
import { encodeManifest, manifestSections } from '../../format/bq4/manifest.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */
/** @import { StoredTensor } from '../../format/gguf/layout.js' */

/** Tag of the first section of a cached manifest, which describes the tensors of the original file. */
const SECTION_TAG = 'gguf';
/** Number of first bytes of the file that are stored to recognise it. */
const HEAD_BYTES = 4096;
const SPARE_BYTES = 65536;

/**
 * The header that the last plan has read, kept for a load that may follow.
 * @type {{ name: string, tag: string, size: number, read: Uint8Array } | null}
 */
let lastPlan = null;

/**
 * Returns the header that the last plan has read, if the version of the file is the same; otherwise the first bytes.
 * @param {ByteSource} file @param {Uint8Array} firstBytes
 */
function reuseHeader({ name, tag, size }, firstBytes) {
  const previous = lastPlan;
  lastPlan = null;
  const isSame = previous && tag && previous.tag === tag && previous.name === name && previous.size === size;
  return isSame && firstBytes.every((byte, i) => byte === previous.read[i]) ? previous.read : firstBytes;
}

/**
 * Description of the original file that is stored in a cached manifest.
 * @typedef {object} OriginalFile
 * @property {number} bytes    length of the file
 * @property {string} tag      the server's validator of this version; '': unknown
 * @property {StoredTensor[]} tensors
 * @property {string} integrity  expected hash of the file; '': none
 */

/**
 * Data for repacking a file for the cache.
 * @typedef {object} RepackedOnly
 * @property {Uint8Array} head  first bytes of the file (HEAD_BYTES)
 * @property {Uint8Array} [known]  bytes of the file that were read so far
 * @property {number} total  length of the repacked file
 */
/** @typedef {OriginalFile & RepackedOnly} Repacked */

/**
 * @typedef {object} Described
 * @property {Uint8Array} manifest
 * @property {Uint8Array} head      first bytes of the file
 * @property {Repacked} [repacked]  set if the manifest describes the repacked file
 */

/**
 * Returns the id of the file, and a function that returns the compute type of a storage type. Both are computed by C.
 * @param {Compiled} compiled @param {Uint8Array} header @param {number} fileBytes
 */
async function computeIdAndTypes(compiled, header, fileBytes) {
  const wasm = await Wasm.create(compiled, header.length + SPARE_BYTES);
  const id = new Uint8Array(16);
  wasm.scope((take) => {
    const { at, length } = wasm.put(take, header);
    const out = take(8);
    wasm.call('bqw_xxh64', at, length, out);
    id.set(wasm.bytes(out, 8));
  });
  new DataView(id.buffer).setBigUint64(8, BigInt(fileBytes), true);
  return { id, runType: (/** @type {number} */ stored) => wasm.call('bqw_run_type', stored) };
}

/**
 * Describes the original or the repacked file. Throws FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {Compiled} compiled
 * @param {ByteSource} file
 * @param {Uint8Array} firstBytes
 * @param {{ repack: boolean, repackTable?: boolean, integrity?: string, plans: boolean }} options  `repackTable`:
 *   repacks if the file has a table of per-layer embeddings; with `integrity`, the tensors keep their order; `plans`: a
 *   load may follow
 * @param {AbortSignal} [signal]
 * @returns {Promise<Described>}
 */
export async function describeGguf(compiled, file, firstBytes, { repack, repackTable, integrity = '', plans }, signal) {
  const { header, ...description } = await openGguf(file, reuseHeader(file, firstBytes), signal);
  const head = header.read;
  if (plans && file.tag) lastPlan = { name: file.name, tag: file.tag, size: file.size, read: head };
  // The length is computed if the server does not report it, since sessions and receipts identify the file by it.
  const length = file.size < 0 ? lengthOf(file, description.tensors) : file.size;
  const { id, runType } = await computeIdAndTypes(compiled, head.subarray(0, header.end), length);
  if (file.parts && integrity)
    throw new BqError('ARGUMENT', 'integrity: expected a single file, found a model in several files', {
      hint: 'omit it, or merge the parts',
    });
  const { layer_embed: embeds, layer_embed_projected: tableless } = description.config;
  const repacks = repack || (repackTable && embeds > 0 && !tableless);
  if (!repacks && !description.tensors.some(({ type }) => conversionOf(type)))
    return { manifest: encodeManifest({ ...description, id }), head };
  checkReadable(file, description.tensors, runType);
  const bytes = lengthOf(file, description.tensors);
  const original = {
    bytes,
    tag: file.tag ?? '',
    tensors: executionOrder(description.tensors, runType, integrity !== '' || !!file.single),
    integrity,
  };
  const headBytes = head.slice(0, HEAD_BYTES);
  const manifest = encodeCachedManifest({ ...description, id }, original, headBytes);
  return {
    manifest,
    head,
    repacked: { ...original, head: headBytes, known: head, total: repackedLength(original, manifest) },
  };
}

/**
 * Returns the length of a file. If the server does not report it, returns the end of its tensors. Throws TRUNCATED.
 * @param {ByteSource} file @param {import('../../format/bq4/manifest.js').ListedTensor[]} tensors
 */
function lengthOf(file, tensors) {
  const parts = file.parts ?? [file];
  const lengths = parts.map(({ size, name }, i) => {
    const partTensors = tensors.filter(({ offset }) => Math.floor(offset / STRIDE) === i);
    const neededBytes = partTensors.reduce((end, { offset, bytes }) => Math.max(end, offset + bytes - i * STRIDE), 0);
    if (size >= 0 && neededBytes > size)
      throw new BqError('TRUNCATED', `${name}: expected at least ${neededBytes} bytes, found ${size}`, {
        offset: size,
      });
    return size < 0 ? neededBytes : size;
  });
  return lengths.reduce((a, b) => a + b, 0);
}

/**
 * Checks that there are tensors and that all types are supported. Throws SHAPE, UNSUPPORTED.
 * @param {ByteSource} file @param {{ name: string, type: { name: string, id: number } }[]} tensors
 * @param {(stored: number) => number} runType  returns the compute type of a storage type
 */
function checkReadable(file, tensors, runType) {
  if (!tensors.length)
    throw new BqError('SHAPE', `${file.name} has no tensors`, {
      hint: 'it is one part of a model: pass all parts',
    });
  const unreadable = tensors.find(({ type }) => !TYPES[runType(engineTypeId(type.id))]);
  if (unreadable)
    throw new BqError('UNSUPPORTED', `tensor "${unreadable.name}" is stored as ${unreadable.type.name}`, {
      hint: 'this version of bq4 does not support the type',
    });
}

/**
 * Encodes the manifest that the cache stores before the repacked data.
 * @param {import('../../format/bq4/manifest.js').Description} description @param {OriginalFile} original
 * @param {Uint8Array} head
 */
function encodeCachedManifest(description, original, head) {
  const json = new TextEncoder().encode(JSON.stringify({ ...original, head: btoa(String.fromCharCode(...head)) }));
  const allSections = [
    ...section(SECTION_TAG, json),
    ...manifestSections({ ...description, tensors: placeTensors(original.tensors, 0) }),
  ];
  // Spaces after the JSON make the length of the manifest a multiple of 64.
  const bytes = Math.ceil(json.length / 8) * 8 + (-encodeSections(allSections).length & 63);
  allSections[0].payload = new Uint8Array(bytes).fill(0x20);
  allSections[0].payload.set(json);
  const dataStart = encodeSections(allSections).length;
  const directory = allSections.find(({ tag }) => tag === 'TENS');
  if (directory) directory.payload = encodeDirectory(placeTensors(original.tensors, dataStart));
  return encodeSections(allSections);
}

/** Returns the length of the repacked file. @param {OriginalFile} original @param {Uint8Array} manifest */
const repackedLength = ({ tensors }, manifest) => endOfTensors(placeTensors(tensors, manifest.length));

/** Decodes a cached manifest. @param {Uint8Array} prefix @returns {Described} */
export function readCachedManifest(prefix) {
  const text = sections(prefix, 0, prefix.length)[SECTION_TAG];
  const { head, ...original } = JSON.parse(new TextDecoder().decode(text));
  return {
    manifest: prefix,
    head: prefix,
    repacked: {
      ...original,
      head: Uint8Array.from(atob(head), (c) => c.charCodeAt(0)),
      total: repackedLength(original, prefix),
    },
  };
}

/**
 * Opens the repacked file as a source of bytes.
 * @param {Repacked} repacked @param {number} dataStart  offset of the data in the repacked file
 * @param {ByteSource} file  original file @param {Compiled} compiled
 * @param {Uint8Array | null} expectedHash  SHA-256 of the original file; null: not checked
 */
export async function openRepacked(repacked, dataStart, file, compiled, expectedHash) {
  const { tensors, head, known: header, bytes, tag } = repacked;
  repacked.known = undefined; // the header is freed when the source is closed, not only when the model is closed
  file.expect?.(head, bytes, tag);
  const placedTensors = placeTensors(tensors, dataStart);
  if (!expectedHash) return RepackedSource.open(file, compiled, placedTensors, header);
  file.trustHashes?.();
  const expected = { hash: expectedHash, bytes, start: dataStart };
  const fileHash = await FileHash.open(file, compiled, placedTensors, expected, header ?? new Uint8Array());
  return RepackedSource.open(file, compiled, placedTensors, header, fileHash);
}

/**
 * Opens a reader of the repacked file that stays open as long as the model.
 * @param {Repacked} repacked @param {number} dataStart @param {import('../../shared/types.js').Source} source
 * @param {Compiled} compiled
 * @returns {Promise<import('../../storage/sources/reader.js').Reader>}
 */
export async function openRows(repacked, dataStart, source, compiled) {
  const file = await openRepacked(repacked, dataStart, await openSource(source), compiled, null);
  return {
    fills: false,
    read: (offset, bytes) => readRange(file, offset, offset + bytes),
    close: () => file.close(),
  };
}
