/**
 * Plans of GGUF files. js/format/gguf reads the header and makes a manifest of it for C: of the file as it is, or as the cache stores
 * it, repacked (gguf/layout.js) behind its manifest, so that a later visit needs no header.
 */
import { encodeDirectory, encodeSections, section } from '../../format/bq4/frame.js';
import { endOfTensors, executionOrder, placeTensors } from '../../format/gguf/layout.js';
import { openGguf } from '../../format/gguf/open.js';
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

/** Tag of the section in front of a cached manifest that says where the tensors come from. */
const SECTION_TAG = 'gguf';
/** Bytes of the file's beginning that are stored to recognise it. */
const HEAD_BYTES = 4096;
const SPARE_BYTES = 65536;

/** The header that the last plan has read, for a load that may follow. @type {{ name: string, tag: string, size: number, read: Uint8Array } | null} */
let lastPlan = null;

/** The header that the last plan has read, if it was the same version of the file; otherwise the first bytes. @param {ByteSource} file @param {Uint8Array} firstBytes  its first bytes */
function reuseHeader({ name, tag, size }, firstBytes) {
  const previous = lastPlan;
  lastPlan = null;
  const isSame = previous && tag && previous.tag === tag && previous.name === name && previous.size === size;
  return isSame && firstBytes.every((byte, i) => byte === previous.read[i]) ? previous.read : firstBytes;
}

/**
 * @typedef {object} Facts
 * @property {number} bytes    of the file
 * @property {string} tag      the server's validator of this version; '': unknown
 * @property {StoredTensor[]} tensors
 * @property {string} integrity  the expected hash of the whole file; '': none
 */

/**
 * What is needed to repack a file for the cache.
 * @typedef {object} RepackedOnly
 * @property {Uint8Array} head  of the file
 * @property {Uint8Array} [known]  the bytes of the file that were read so far
 * @property {number} total  bytes of the repacked file
 */
/** @typedef {Facts & RepackedOnly} Repacked */

/**
 * @typedef {object} Described
 * @property {Uint8Array} manifest
 * @property {Uint8Array} head      the file's first bytes
 * @property {Repacked} [repacked]  the manifest describes the repacked file
 */

/** The file's id, and the compute type of each storage type, from C. @param {Compiled} compiled @param {Uint8Array} header @param {number} fileBytes */
async function engineFacts(compiled, header, fileBytes) {
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
 * Describes a file as it is, or repacked. FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {Compiled} compiled
 * @param {ByteSource} file
 * @param {Uint8Array} firstBytes  its first bytes
 * @param {{ repack: boolean, repackTable?: boolean, integrity?: string, plans: boolean }} how  `repackTable`: where it has a table of
 *   per-layer embeddings; with `integrity` the tensors keep their order; `plans`: a load may follow
 * @param {AbortSignal} [signal]
 * @returns {Promise<Described>}
 */
export async function describeGguf(compiled, file, firstBytes, { repack, repackTable, integrity = '', plans }, signal) {
  const { header, ...description } = await openGguf(file, reuseHeader(file, firstBytes), signal);
  const head = header.read;
  if (plans && file.tag) lastPlan = { name: file.name, tag: file.tag, size: file.size, read: head };
  // The length is computed if the server does not report it, since sessions and receipts identify the file by it.
  const length = file.size < 0 ? lengthOf(file, description.tensors) : file.size;
  const { id, runType } = await engineFacts(compiled, head.subarray(0, header.end), length);
  if (file.parts && integrity)
    throw new BqError('ARGUMENT', 'integrity: expected a single file, found a model in several files', {
      hint: 'leave it out, or merge the parts',
    });
  const { layer_embed: embeds, layer_embed_projected: tableless } = description.config;
  const repacks = repack || (repackTable && embeds > 0 && !tableless);
  if (!repacks && !description.tensors.some(({ type }) => conversionOf(type)))
    return { manifest: encodeManifest({ ...description, id }), head };
  checkReadable(file, description.tensors, runType);
  const bytes = lengthOf(file, description.tensors);
  const facts = {
    bytes,
    tag: file.tag ?? '',
    tensors: executionOrder(description.tensors, runType, integrity !== '' || !!file.single),
    integrity,
  };
  const headBytes = head.slice(0, HEAD_BYTES);
  const manifest = encodeCachedManifest({ ...description, id }, facts, headBytes);
  return {
    manifest,
    head,
    repacked: { ...facts, head: headBytes, known: head, total: repackedLength(facts, manifest) },
  };
}

/** Length of a file; if the server does not report it, the end of its tensors. TRUNCATED. @param {ByteSource} file @param {import('../../format/bq4/manifest.js').ListedTensor[]} tensors */
function lengthOf(file, tensors) {
  const parts = file.parts ?? [file];
  const lengths = parts.map(({ size, name }, i) => {
    const partTensors = tensors.filter(({ offset }) => Math.floor(offset / STRIDE) === i);
    const needed = partTensors.reduce((end, { offset, bytes }) => Math.max(end, offset + bytes - i * STRIDE), 0);
    if (size >= 0 && needed > size)
      throw new BqError('TRUNCATED', `${name}: expected at least ${needed} bytes, found ${size}`, { offset: size });
    return size < 0 ? needed : size;
  });
  return lengths.reduce((a, b) => a + b, 0);
}

/** @param {ByteSource} file @param {{ name: string, type: { name: string, id: number } }[]} tensors @param {(stored: number) => number} runType */
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

/** The manifest in front of the repacked file. @param {import('../../format/bq4/manifest.js').Description} description @param {Facts} facts @param {Uint8Array} head */
function encodeCachedManifest(description, facts, head) {
  const json = new TextEncoder().encode(JSON.stringify({ ...facts, head: btoa(String.fromCharCode(...head)) }));
  const allSections = [
    ...section(SECTION_TAG, json),
    ...manifestSections({ ...description, tensors: placeTensors(facts.tensors, 0) }),
  ];
  const bytes = Math.ceil(json.length / 8) * 8 + (-encodeSections(allSections).length & 63);
  allSections[0].payload = new Uint8Array(bytes).fill(0x20);
  allSections[0].payload.set(json);
  const dataStart = encodeSections(allSections).length;
  const directory = allSections.find(({ tag }) => tag === 'TENS');
  if (directory) directory.payload = encodeDirectory(placeTensors(facts.tensors, dataStart));
  return encodeSections(allSections);
}

/** @param {Facts} facts @param {Uint8Array} manifest */
const repackedLength = ({ tensors }, manifest) => endOfTensors(placeTensors(tensors, manifest.length));

/** Decodes a cached manifest. @param {Uint8Array} prefix @returns {Described} */
export function readCachedManifest(prefix) {
  const text = sections(prefix, 0, prefix.length)[SECTION_TAG];
  const { head, ...facts } = JSON.parse(new TextDecoder().decode(text));
  return {
    manifest: prefix,
    head: prefix,
    repacked: {
      ...facts,
      head: Uint8Array.from(atob(head), (c) => c.charCodeAt(0)),
      total: repackedLength(facts, prefix),
    },
  };
}

/**
 * The repacked file as a source of bytes.
 * @param {Repacked} repacked @param {number} dataStart  offset of its data @param {ByteSource} file @param {Compiled} compiled
 * @param {Uint8Array | null} expectedHash  SHA-256 of the file
 */
export function openRepacked(repacked, dataStart, file, compiled, expectedHash) {
  const { tensors, head, known: header, bytes, tag } = repacked;
  repacked.known = undefined; // frees it with the source, not only with the model
  file.expect?.(head, bytes, tag);
  return RepackedSource.open(
    file,
    compiled,
    placeTensors(tensors, dataStart),
    header,
    expectedHash && { expected: expectedHash, bytes },
  );
}

/**
 * Reads of the repacked file for as long as a model is open.
 * @param {Repacked} repacked @param {number} dataStart @param {import('../../shared/types.js').Source} source @param {Compiled} compiled
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
