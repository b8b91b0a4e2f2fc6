/**
 * GGUF files: their header is read in js/format/gguf, and told to the engine as a manifest, of the file as it is or as the cache keeps
 * it: repacked (gguf/layout.js), the manifest before it, so that a later visit needs no header.
 */
import { encodeDirectory, encodeSections, section } from '../../format/bq4/frame.js';
import { endOfTensors, executionOrder, placeTensors } from '../../format/gguf/layout.js';
import { openGguf } from '../../format/gguf/open.js';
import { RepackedSource } from '../../format/gguf/repacked.js';
import { conversionOf, engineTypeId } from '../../format/gguf/types.js';
import { TYPES } from '../../format/bq4/weight-types.js';
import { BqError } from '../../shared/errors.js';
import { STRIDE } from '../../storage/sources/split.js';
import { sections } from '../../shared/sections.js';
import { Wasm } from '../../wasm/wasm.js';
import { encodeManifest, manifestSections } from '../../format/bq4/manifest.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */
/** @import { StoredTensor } from '../../format/gguf/layout.js' */

/** The section of ours that a kept manifest begins with: where its tensors come from. */
const TAG = 'gguf';
/** Bytes of the file's beginning that are kept, to recognise it. */
const HEAD = 4096;
const ROOM = 65536;

/** What a plan read of a file, for the load that may follow it. @type {{ name: string, tag: string, size: number, read: Uint8Array } | null} */
let planned = null;

/** As much of the file's beginning as a plan has read, of the same version. @param {ByteSource} file @param {Uint8Array} known  its first bytes */
function readBefore({ name, tag, size }, known) {
  const before = planned;
  planned = null;
  const same = before && tag && before.tag === tag && before.name === name && before.size === size;
  return same && known.every((byte, i) => byte === before.read[i]) ? before.read : known;
}

/**
 * @typedef {object} Facts
 * @property {number} bytes    of the file
 * @property {string} tag      how its server calls this version; '' where it doesn't say
 * @property {StoredTensor[]} tensors
 * @property {string} integrity  the hash that it has, as far as it is whole; '': nobody asked
 */

/**
 * How to make what the cache keeps of a file.
 * @typedef {object} RepackedOnly
 * @property {Uint8Array} head  of the file
 * @property {Uint8Array} [known]  the same, as much as was read
 * @property {number} total  bytes of what the cache keeps
 */
/** @typedef {Facts & RepackedOnly} Repacked */

/**
 * @typedef {object} Described
 * @property {Uint8Array} manifest
 * @property {Uint8Array} head      the file's first bytes
 * @property {Repacked} [repacked]  the manifest is that of the file as the cache keeps it
 */

/** What the engine says of the header and of types. @param {Compiled} compiled @param {Uint8Array} header @param {number} fileBytes */
async function engineFacts(compiled, header, fileBytes) {
  const wasm = await Wasm.create(compiled, header.length + ROOM);
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
 * A file as it is, or `repack`ed. FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {Compiled} compiled
 * @param {ByteSource} file
 * @param {Uint8Array} known  its first bytes
 * @param {{ repack: boolean, integrity?: string, plans: boolean }} how  with an integrity the tensors stay in their order; `plans`: a load may follow
 * @param {AbortSignal} [signal]
 * @returns {Promise<Described>}
 */
export async function describeGguf(compiled, file, known, { repack, integrity = '', plans }, signal) {
  const { header, ...description } = await openGguf(file, readBefore(file, known), signal);
  const head = header.read;
  if (plans && file.tag) planned = { name: file.name, tag: file.tag, size: file.size, read: head };
  // The same whether a server tells the length or not, since sessions and receipts name the file by it.
  const length = file.size < 0 ? lengthOf(file, description.tensors) : file.size;
  const { id, runType } = await engineFacts(compiled, head.subarray(0, header.end), length);
  if (file.parts && integrity)
    throw new BqError('ARGUMENT', 'a model in several files has no integrity of its own', {
      hint: 'leave it out, or merge the parts',
    });
  if (!repack && !description.tensors.some(({ type }) => conversionOf(type)))
    return { manifest: encodeManifest({ ...description, id }), head };
  checkReadable(file, description.tensors, runType);
  const bytes = lengthOf(file, description.tensors);
  const facts = {
    bytes,
    tag: file.tag ?? '',
    tensors: executionOrder(description.tensors, runType, integrity !== '' || !!file.single),
    integrity,
  };
  const first = head.slice(0, HEAD);
  const manifest = encodeKept({ ...description, id }, facts, first);
  return { manifest, head, repacked: { ...facts, head: first, known: head, total: totalOf(facts, manifest) } };
}

/** Bytes of a file; where its server doesn't tell, as many as its tensors need. TRUNCATED. @param {ByteSource} file @param {import('../../format/bq4/manifest.js').ListedTensor[]} tensors */
function lengthOf(file, tensors) {
  const parts = file.parts ?? [file];
  const lengths = parts.map(({ size, name }, i) => {
    const own = tensors.filter(({ offset }) => Math.floor(offset / STRIDE) === i);
    const needed = own.reduce((end, { offset, bytes }) => Math.max(end, offset + bytes - i * STRIDE), 0);
    if (size >= 0 && needed > size)
      throw new BqError('TRUNCATED', `${name} ends after ${size} of at least ${needed} bytes`, { offset: size });
    return size < 0 ? needed : size;
  });
  return lengths.reduce((a, b) => a + b, 0);
}

/** @param {ByteSource} file @param {{ name: string, type: { name: string, id: number } }[]} tensors @param {(stored: number) => number} runType */
function checkReadable(file, tensors, runType) {
  if (!tensors.length)
    throw new BqError('SHAPE', `${file.name} has no tensors`, {
      hint: 'it is a part of a model: all parts are needed',
    });
  const not = tensors.find(({ type }) => !TYPES[runType(engineTypeId(type.id))]);
  if (not)
    throw new BqError('UNSUPPORTED', `tensor "${not.name}" is stored as ${not.type.name}`, {
      hint: 'this version of the engine does not read it',
    });
}

/** The manifest of the repacked file, which lies behind it. @param {import('../../format/bq4/manifest.js').Description} description @param {Facts} facts @param {Uint8Array} head */
function encodeKept(description, facts, head) {
  const json = new TextEncoder().encode(JSON.stringify({ ...facts, head: btoa(String.fromCharCode(...head)) }));
  const all = [...section(TAG, json), ...manifestSections({ ...description, tensors: placeTensors(facts.tensors, 0) })];
  const bytes = Math.ceil(json.length / 8) * 8 + (-encodeSections(all).length & 63);
  all[0].payload = new Uint8Array(bytes).fill(0x20);
  all[0].payload.set(json);
  const from = encodeSections(all).length;
  const directory = all.find(({ tag }) => tag === 'TENS');
  if (directory) directory.payload = encodeDirectory(placeTensors(facts.tensors, from));
  return encodeSections(all);
}

/** @param {Facts} facts @param {Uint8Array} manifest */
const totalOf = ({ tensors }, manifest) => endOfTensors(placeTensors(tensors, manifest.length));

/** What the cache has kept. @param {Uint8Array} prefix @returns {Described} */
export function keptGguf(prefix) {
  const text = sections(prefix, 0, prefix.length)[TAG];
  const { head, ...facts } = JSON.parse(new TextDecoder().decode(text));
  return {
    manifest: prefix,
    head: prefix,
    repacked: { ...facts, head: Uint8Array.from(atob(head), (c) => c.charCodeAt(0)), total: totalOf(facts, prefix) },
  };
}

/**
 * The source of what the cache keeps.
 * @param {Repacked} repacked @param {number} from  where its data begins @param {ByteSource} file @param {Compiled} compiled
 * @param {Uint8Array | null} wanted  SHA-256 of the file
 */
export function openRepacked(repacked, from, file, compiled, wanted) {
  const { tensors, head, known, bytes, tag } = repacked;
  repacked.known = undefined; // as large as the header: for as long as the source is open, not the model
  file.expect?.(head, bytes, tag);
  return RepackedSource.open(file, compiled, placeTensors(tensors, from), known, wanted && { expected: wanted, bytes });
}
