/**
 * Describes .bq4 files: header, sections, configuration, tensors, and whether hashes match. `report` returns the result
 * of `bq4 inspect` for any file.
 */
import { createEngine } from '../js/node.js';
import { decodeConfig } from '../js/format/bq4/config.js';
import { TYPES } from '../js/format/bq4/weight-types.js';
import { BqError } from '../js/shared/errors.js';
import { TOKENIZERS } from '../js/shared/names.js';
import { sections, u32, u64 } from '../js/shared/sections.js';
import { integrityOf, Sha256 } from '../js/wasm/sha256.js';
import { openSource } from '../js/storage/sources/index.js';
import { readRange } from '../js/storage/sources/read.js';
import { knownName } from '../js/text/templates/known-formats.js';
import { compile, Wasm } from '../js/wasm/wasm.js';
import { inspectForeign, shortest } from './inspect-foreign.js';
import { hex } from '../js/shared/hex.js';

/** Bytes per read: one chunk. */
const STEP = 1 << 20;
/** Heap bytes in addition to a chunk or the prefix. */
const RESERVED_BYTES = 262144;

const LAYOUTS = ['rows', 'tiled', 'flat', 'sparse'];

const text = (/** @type {Uint8Array | undefined} */ bytes) => new TextDecoder().decode(bytes ?? new Uint8Array());

/** Reads values one after the other; throws TRUNCATED at the end of the bytes. */
class Cursor {
  /** @param {Uint8Array} bytes @param {number} at @param {number} base  offset of the bytes in the file */
  constructor(bytes, at, base) {
    this.bytes = bytes;
    this.at = at;
    this.base = base;
  }
  /** @param {number} n */
  take(n) {
    if (this.at + n > this.bytes.length)
      throw new BqError('TRUNCATED', 'the tensor directory ends within an entry', { offset: this.base + this.at });
    this.at += n;
    return this.bytes.subarray(this.at - n, this.at);
  }
  u8() {
    return this.take(1)[0];
  }
  u16() {
    const [a, b] = this.take(2);
    return a + b * 256;
  }
  u32() {
    return u32(this.take(4), 0);
  }
  u64() {
    return u64(this.take(8), 0);
  }
}

/** @typedef {{ name: string, type: string, layout: string, dims: number[], offset: number, bytes: number }} Tensor */

/** @param {Uint8Array} payload @param {number} base @returns {Tensor[]} */
export function readTensors(payload, base) {
  const c = new Cursor(payload, 0, base);
  /** @type {Record<number, string>} */
  const names = {};
  for (let n = c.u32(); n > 0; n--) {
    const id = c.u8();
    names[id] = text(c.take(c.u8()));
  }
  const tensors = [];
  for (let n = c.u32(); n > 0; n--) {
    const name = text(c.take(c.u16()));
    const type = c.u8();
    const layout = c.u8();
    const dims = Array.from({ length: c.u8() }, () => c.u32());
    tensors.push({
      name,
      type: names[type] ?? TYPES[type]?.name ?? `type ${type}`,
      layout: LAYOUTS[layout] ?? `layout ${layout}`,
      dims,
      offset: c.u64(),
      bytes: c.u64(),
    });
  }
  return tensors;
}

/** @param {Uint8Array | undefined} payload */
function readTokenizer(payload) {
  if (!payload) return null;
  const c = new Cursor(payload, 0, 0);
  const [kind, flags, , bos, eos, unk, pad, ends, tokens, merges] = Array.from({ length: 10 }, () => c.u32());
  c.u32();
  const id = (/** @type {number} */ v) => (v === 0xffffffff ? null : v);
  const eog = Array.from({ length: Math.min(ends, 64) }, () => c.u32());
  return {
    kind: TOKENIZERS[kind] ?? `kind ${kind}`,
    tokens,
    merges,
    bos: id(bos),
    eos: id(eos),
    unk: id(unk),
    pad: id(pad),
    addBos: (flags & 1) !== 0,
    addEos: (flags & 2) !== 0,
    eog,
  };
}

/** Returns activation steps by names of matrices. @param {Uint8Array | undefined} payload @param {number} base */
function readActivations(payload, base) {
  if (!payload) return null;
  const c = new Cursor(payload, 0, base);
  return Object.fromEntries(
    Array.from({ length: Math.min(c.u32(), payload.length) }, () => {
      const name = text(c.take(c.u16()));
      const bytes = c.take(4);
      return [name, shortest(new DataView(bytes.buffer, bytes.byteOffset).getFloat32(0, true))];
    }),
  );
}

/**
 * Reads the list of tensors of a v1 file.
 * @param {import('../js/storage/sources/types.js').ByteSource} file @returns {Promise<Tensor[]>}
 */
async function readV1(file) {
  for (let size = 65536; ; size *= 4) {
    const bytes = await readRange(file, 0, size);
    try {
      const c = new Cursor(bytes, 8, 0);
      const tensors = [];
      for (let n = c.u32(); n > 0; n--) {
        const name = text(c.take(c.u32()));
        const dims = Array.from({ length: Math.min(c.u32(), 8) }, () => c.u32());
        const block = c.u32();
        const blocks = c.u32();
        tensors.push({
          name,
          type: `bq4_${block}`,
          layout: 'flat',
          dims,
          offset: c.u64(),
          bytes: blocks * (block / 2 + 4),
        });
      }
      return tensors;
    } catch (error) {
      if (bytes.length < size) throw error;
    }
  }
}

/** Computes XXH64 in hexadecimal, in the byte order of files. @param {Wasm} wasm @param {Uint8Array} bytes */
const xxh64 = (wasm, bytes) =>
  wasm.scope((take) => {
    const { at, length } = wasm.put(take, bytes);
    const out = take(8);
    wasm.call('bqw_xxh64', at, length, out);
    return hex(wasm.bytes(out, 8));
  });

/**
 * Reads all data of the file to find damaged chunks and to compute its integrity (docs/FORMAT.md, HASH).
 * @param {import('../js/storage/sources/types.js').ByteSource} file
 * @param {Wasm} wasm
 * @param {Uint8Array | undefined} payload  of HASH
 * @param {Uint8Array} prefix
 */
async function checkChunks(file, wasm, payload, prefix) {
  const kind = payload ? (u32(payload, 0) === 2 ? 'sha-256' : 'xxh64') : null;
  const width = kind === 'xxh64' ? 8 : 32;
  const chunks = payload ? Math.floor((payload.length - 8) / width) : 0;
  const fileHash = new Sha256(wasm);
  fileHash.add(prefix);
  // With SHA-256 hashes of chunks in the prefix the integrity is the hash of the prefix.
  const integrity = kind === 'sha-256' ? fileHash.end() : null;
  const damaged = [];
  for (let i = 0; ; i++) {
    const offset = prefix.length + i * STEP;
    const bytes = await readRange(file, offset, offset + STEP);
    if (!bytes.length && i >= chunks) break;
    if (!integrity) fileHash.add(bytes);
    if (!payload || i >= chunks) continue;
    const computedHash = kind === 'xxh64' ? xxh64(wasm, bytes) : hex(sha256(wasm, bytes));
    if (computedHash !== hex(payload.subarray(8 + i * width, 8 + (i + 1) * width))) damaged.push({ chunk: i, offset });
  }
  return { kind, chunks, damaged, integrity: integrityOf(integrity ?? fileHash.end()) };
}

/** @param {Wasm} wasm @param {Uint8Array} bytes */
function sha256(wasm, bytes) {
  const hash = new Sha256(wasm);
  hash.add(bytes);
  return hash.end();
}

/**
 * Whether a SUM8 section has the hash of bytes[start, that section).
 * @param {Wasm} wasm @param {Uint8Array} bytes @param {number} start @param {Uint8Array | undefined} sum
 */
function checkSum(wasm, bytes, start, sum) {
  if (!sum) return false;
  return xxh64(wasm, bytes.subarray(start, sum.byteOffset - bytes.byteOffset - 16)) === hex(sum);
}

/** Parses JSON of a section; returns the text itself if it is damaged. @param {string} json */
function parseOrKeep(json) {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}

/**
 * Describes a file of version 1, which has no sections and no hashes.
 * @param {import('../js/storage/sources/types.js').ByteSource} file @param {Uint8Array} head
 */
async function inspectV1(file, head) {
  const wasm = await Wasm.create(await compile(), STEP + RESERVED_BYTES);
  const { integrity } = await checkChunks(file, wasm, undefined, head);
  return {
    format: { version: 1, fileLength: file.size },
    name: '',
    license: '',
    config: null,
    tokenizer: null,
    chat: null,
    template: '',
    sections: [],
    tensors: await readV1(file),
    hashes: null,
    integrity,
  };
}

/**
 * Reads the prefix of a version 2 file. Throws TRUNCATED and FORMAT.
 * @param {import('../js/storage/sources/types.js').ByteSource} file @param {Uint8Array} head  its first 64 bytes
 */
async function readPrefix(file, head) {
  if (head.length < 64)
    throw new BqError('TRUNCATED', `${file.name} ends after ${head.length} bytes`, { offset: head.length });
  const [planLength, prefixLength] = [u64(head, 16), u64(head, 24)];
  if (prefixLength > 2 ** 28 || planLength > prefixLength)
    throw new BqError('FORMAT', `the header declares impossible lengths: plan ${planLength}, prefix ${prefixLength}`, {
      offset: 16,
    });
  const bytes = await readRange(file, 0, prefixLength);
  if (bytes.length < prefixLength)
    throw new BqError('TRUNCATED', `${file.name} ends after ${bytes.length} of ${prefixLength} bytes of its prefix`, {
      offset: bytes.length,
    });
  return bytes;
}

/** Decodes the sections that describe a model. @param {Record<string, Uint8Array>} allSections @param {Uint8Array} bytes  prefix, which contains them */
function describeModel(allSections, bytes) {
  const offsetOf = (/** @type {Uint8Array | undefined} */ payload) =>
    payload ? payload.byteOffset - bytes.byteOffset : 0;
  const { NAME, LICE, CONF, TOKN, CHAT, TMPL, META, ACTQ, TENS } = allSections;
  return {
    name: text(NAME),
    license: text(LICE),
    config: decodeConfig(CONF ?? new Uint8Array(), shortest),
    tokenizer: readTokenizer(TOKN),
    chat: CHAT ? parseOrKeep(text(CHAT)) : null,
    template: text(TMPL),
    meta: META ? parseOrKeep(text(META)) : null,
    activations: readActivations(ACTQ, offsetOf(ACTQ)),
    tensors: TENS ? readTensors(TENS, offsetOf(TENS)) : [],
  };
}

/**
 * Describes a .bq4 file. Throws NOT_A_MODEL, TRUNCATED, UNSUPPORTED, FORMAT; damage that hashes detect is reported, not
 * thrown.
 * @param {import('../js/storage/sources/types.js').ByteSource} file
 */
export async function inspect(file) {
  const head = await readRange(file, 0, 64);
  if (text(head.subarray(0, 4)) !== 'BQ4F')
    throw new BqError('NOT_A_MODEL', `${file.name} is not a .bq4 file: it does not begin with "BQ4F"`, { offset: 0 });
  if (head.length < 12)
    throw new BqError('TRUNCATED', `${file.name} ends after ${head.length} bytes`, { offset: head.length });
  const version = u32(head, 4);
  if (version === 1) return inspectV1(file, head);
  if (version !== 2) throw new BqError('UNSUPPORTED', `${file.name} has the unknown version ${version}`, { offset: 4 });
  const bytes = await readPrefix(file, head);
  const [planLength, prefixLength, fileLength] = [u64(head, 16), u64(head, 24), u64(head, 32)];
  const planSections = sections(bytes);
  const otherSections = sections(bytes, 64 + planLength, prefixLength);
  const allSections = { ...otherSections, ...planSections };
  const wasm = await Wasm.create(await compile(), Math.max(bytes.length, STEP) + RESERVED_BYTES);
  const { integrity, ...chunks } = await checkChunks(file, wasm, allSections.HASH, bytes);
  const { tensors, ...model } = describeModel(allSections, bytes);
  return {
    integrity,
    format: {
      version,
      minor: u32(head, 8),
      flags: u32(head, 12),
      fileId: hex(head.subarray(40, 56)),
      planLength,
      prefixLength,
      fileLength,
      size: file.size,
    },
    ...model,
    sections: [planSections, otherSections].flatMap((part, i) =>
      Object.entries(part).map(([tag, payload]) => ({
        tag,
        in: i ? 'rest' : 'plan',
        offset: payload.byteOffset - bytes.byteOffset,
        bytes: payload.length,
      })),
    ),
    tensors,
    hashes: {
      header: xxh64(wasm, bytes.subarray(0, 56)) === hex(bytes.subarray(56, 64)) ? 'ok' : 'damaged',
      plan: checkSum(wasm, bytes, 64, planSections.SUM8) ? 'ok' : 'damaged',
      prefix: checkSum(wasm, bytes, 0, otherSections.SUM8) ? 'ok' : 'damaged',
      ...chunks,
    },
  };
}

/** Sums weights and bytes by type, largest first. @param {{ type: string, dims: number[], bytes: number }[]} tensors */
function typesOf(tensors) {
  /** @type {Map<string, { type: string, tensors: number, weights: number, bytes: number }>} */
  const types = new Map();
  for (const { type, dims, bytes } of tensors) {
    const row = types.get(type) ?? { type, tensors: 0, weights: 0, bytes: 0 };
    types.set(type, {
      type,
      tensors: row.tensors + 1,
      weights: row.weights + dims.reduce((a, b) => a * b, 1),
      bytes: row.bytes + bytes,
    });
  }
  return [...types.values()].sort((a, b) => b.bytes - a.bytes);
}

/**
 * Returns the load plan of a file, or the reason why it can't be loaded.
 * @param {import('../js/shared/types.js').Source | null} source  null: a folder
 */
async function planOf(source) {
  if (!source)
    return {
      name: '',
      license: '',
      error: 'UNSUPPORTED',
      message: 'a folder must be converted before it can be loaded',
      hint: 'npx bq4 convert FOLDER OUT.bq4',
    };
  const engine = await createEngine();
  try {
    return await engine.plan(source);
  } catch (error) {
    // A file that can't be loaded can still be described.
    if (!(error instanceof BqError)) throw error;
    return { name: '', license: '', error: error.code, message: error.message, hint: error.hint };
  } finally {
    await engine.close();
  }
}

/**
 * Returns the report of `bq4 inspect`. Throws NOT_A_MODEL, FORMAT, UNSUPPORTED, TRUNCATED, and errors of sources.
 * @param {string} name @param {import('../js/shared/types.js').Source | null} source  null: a folder of that name
 * @returns {Promise<Record<string, any>>}
 */
export async function report(name, source) {
  const file = source && (await openSource(source));
  try {
    const isBq4 = file && text(await readRange(file, 0, 4)) === 'BQ4F';
    /** @type {Record<string, any>} */
    const description = isBq4 ? await inspect(file) : await inspectForeign(name, file);
    const plan = await planOf(source);
    const template = description.template
      ? {
          kind: knownName(description.template) || 'jinja',
          bytes: new TextEncoder().encode(description.template).length,
        }
      : null;
    // Name and licence of a v1 file come from its sidecar config, which the plan has read.
    return {
      file: name,
      ...description,
      template,
      types: typesOf(description.tensors),
      name: description.name || plan.name,
      license: description.license || plan.license,
      plan,
    };
  } finally {
    await file?.close();
  }
}
