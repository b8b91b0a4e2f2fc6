/** Parses SentencePiece's tokenizer.model, a ModelProto (protocol buffers): only the fields that encoding needs. */
import { byteOf, fromPiece, fromUtf8, utf8 } from './bytes.js';
import { addedParts, charsmapPart, spacesPart } from './normalizers.js';
import { FLAG, KIND, malformed, NONE, TOKEN, unsupported } from './section.js';

/** @import { Token, Tokenizer } from './section.js' */

const KINDS = [undefined, KIND.unigram, KIND.spm];
const KIND_NAMES = ['', 'unigram', 'BPE', 'words', 'characters'];

/**
 * Parses a message and calls `each` for each field, with its number and its value. Throws FORMAT.
 * @param {Uint8Array} bytes
 * @param {(number: number, value: number | Uint8Array) => void} each
 */
function readMessage(bytes, each) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  const need = (/** @type {number} */ n) => {
    if (n > bytes.length - at) throw malformed('the SentencePiece file ends within a field');
    at += n;
    return at - n;
  };
  const varint = () => {
    let [value, scale] = [0, 1];
    for (let i = 0; i < 10; i++, scale *= 128) {
      const byte = bytes[need(1)];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw malformed('the SentencePiece file has a number of more than ten bytes');
  };
  while (at < bytes.length) {
    const key = varint();
    const [number, wire] = [Math.floor(key / 8), key % 8];
    if (wire === 0) each(number, varint());
    else if (wire === 5) each(number, view.getFloat32(need(4), true));
    else if (wire === 1) need(8);
    else if (wire === 2) {
      const length = varint();
      const from = need(length);
      each(number, bytes.subarray(from, from + length));
    } else throw malformed(`the SentencePiece file has a field of the unknown wire type ${wire}`);
  }
}

/**
 * Returns the fields of a message by number; the last one of each number.
 * @param {Uint8Array} bytes @returns {Map<number, number | Uint8Array>}
 */
function fieldsOf(bytes) {
  const fields = new Map();
  readMessage(bytes, (number, value) => fields.set(number, value));
  return fields;
}

/** @param {Uint8Array} bytes @param {number} id @returns {Token & { text: string }} */
function piece(bytes, id) {
  const fields = fieldsOf(bytes);
  const [raw, score = 0, type = 1] = [fields.get(1), fields.get(2), fields.get(3)];
  if (!(raw instanceof Uint8Array) || typeof score !== 'number' || typeof type !== 'number')
    throw malformed(`piece ${id} has no text`);
  const text = fromUtf8(raw);
  const kind = type - 1;
  const byte = kind === TOKEN.byte ? byteOf(text) : undefined;
  if (byte !== undefined) return { bytes: Uint8Array.of(byte), score, kind, text };
  return { bytes: kind === TOKEN.control || kind === TOKEN.unknown ? utf8(text) : fromPiece(text), score, kind, text };
}

/**
 * Whether a token is user-defined, so that it is searched for in texts, and contains a space.
 * @param {Uint8Array} bytes @param {number} kind
 */
const isSpaced = (bytes, kind) => kind === TOKEN.user && bytes.includes(32);

/**
 * Parses the file. Throws FORMAT or UNSUPPORTED.
 * @param {Uint8Array} bytes
 * @param {{ addBos?: boolean, addEos?: boolean, eog?: (string | number)[] }} [hints]  from other files of the model's
 *   folder
 * @returns {Tokenizer}
 */
export function parseSentencePiece(bytes, hints = {}) {
  /** @type {(Token & { text: string })[]} */
  const pieces = [];
  /** @type {Map<number, number | Uint8Array>[]} */
  const [trainer, normalizer] = [new Map(), new Map()];
  readMessage(bytes, (number, value) => {
    if (!(value instanceof Uint8Array)) return;
    if (number === 1) pieces.push(piece(value, pieces.length));
    if (number === 2) for (const [key, field] of fieldsOf(value)) trainer.set(key, field);
    if (number === 3) for (const [key, field] of fieldsOf(value)) normalizer.set(key, field);
  });
  if (!pieces.length) throw malformed('the SentencePiece file has no pieces');
  const type = Number(trainer.get(3) ?? 1);
  const kind = KINDS[type];
  if (!kind)
    throw unsupported(
      `the SentencePiece file is a model of ${KIND_NAMES[type] ?? `type ${type}`}`,
      'unigram and BPE are supported',
    );
  if (trainer.get(24))
    throw unsupported(
      'the SentencePiece file puts spaces after words',
      'unigram and BPE with spaces before words are supported',
    );
  const on = (/** @type {number} */ key) => normalizer.get(key) !== 0;
  const [prefix, removesRepeated] = [on(3), on(4)];
  // Numbers are unsigned with 64 bits, so -1 ("no token") is the largest one.
  const idAt = (/** @type {number} */ key, /** @type {number} */ otherwise) => {
    const id = Number(trainer.get(key) ?? otherwise);
    return id >= 0 && id < pieces.length && pieces[id].kind !== TOKEN.normal ? id : NONE;
  };
  const map = normalizer.get(2);
  const parts = [
    ...(map instanceof Uint8Array ? charsmapPart(map) : []),
    ...(removesRepeated ? [spacesPart({ atStart: true, atEnd: true, repeated: true })] : []),
    ...addedParts(
      pieces.flatMap((piece, id) => (isSpaced(piece.bytes, piece.kind) ? [id] : [])),
      [],
    ),
  ];
  const [unk, bos, eos] = [idAt(40, 0), idAt(41, 1), idAt(42, 2)];
  const { addBos = kind === KIND.spm, addEos = kind === KIND.unigram, eog = [] } = hints;
  const ends = [
    eos,
    ...eog.map((end) => (typeof end === 'number' ? end : pieces.findIndex(({ text }) => text === end))),
  ];
  return {
    kind,
    flags:
      (addBos && bos !== NONE ? FLAG.addBos : 0) |
      (addEos && eos !== NONE ? FLAG.addEos : 0) |
      (prefix ? FLAG.addSpace : 0) |
      (pieces.some((piece) => piece.kind === TOKEN.byte) ? FLAG.byteFallback : 0),
    ...(parts.length ? { parts } : {}),
    bos,
    eos,
    unk,
    pad: idAt(43, -1),
    eog: [...new Set(ends)].filter((end) => end >= 0 && end < pieces.length),
    tokens: pieces.map(({ bytes, score, kind }) => ({ bytes, score, kind })),
    merges: [],
  };
}
