/** Bytes of tokens' texts, and the alphabet of printable letters, one for each byte, in which byte-level vocabularies are written. */
import { malformed } from './section.js';

const encoder = new TextEncoder();
/** Keeps U+FEFF at the beginning of a token, where it is not a byte order mark. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** @param {string} text */
export const utf8 = (text) => encoder.encode(text);

/** @param {Uint8Array} bytes */
export const fromUtf8 = (bytes) => decoder.decode(bytes);

/**
 * GPT-2's alphabet: bytes that are printable in Latin-1 stand for themselves, the others for U+0100 and up in
 * their order.
 * @type {ReadonlyMap<string, number>}
 */
export const ALPHABET = new Map(
  Array.from({ length: 256 }, (_, byte) => byte)
    .filter((byte) => !printable(byte))
    .map((byte, i) => /** @type {[string, number]} */ ([String.fromCharCode(256 + i), byte]))
    .concat(
      Array.from({ length: 256 }, (_, byte) => byte)
        .filter(printable)
        .map((byte) => [String.fromCharCode(byte), byte]),
    ),
);

/** @param {number} byte */
function printable(byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/** Bytes by the code of their letter; 256: none. */
export const BYTES = new Uint16Array(512).fill(256);
for (const [letter, byte] of ALPHABET) BYTES[letter.charCodeAt(0)] = byte;

/**
 * The bytes that a token of a byte-level vocabulary stands for; undefined: it has other letters.
 * @param {string} text
 */
function lettersOf(text) {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const byte = BYTES[text.charCodeAt(i)] ?? 256;
    if (byte > 255) return;
    bytes[i] = byte;
  }
  return bytes;
}

/** The same. FORMAT: it has other letters. @param {string} text */
export function fromAlphabet(text) {
  const bytes = lettersOf(text);
  if (!bytes) throw malformed(`the token ${JSON.stringify(text)} is not in the byte alphabet`);
  return bytes;
}

/** The same for tokenizer.json, where a token with other letters is written as it is, and never encoded. @param {string} text */
export const fromAlphabetOrText = (text) => lettersOf(text) ?? utf8(text);

/** SentencePiece writes spaces as ▁. @param {string} piece */
export const fromPiece = (piece) => utf8(piece.replaceAll('\u2581', ' '));

/** The byte of `<0x0A>`, or undefined. @param {string} piece */
export function byteOf(piece) {
  const digits = /^<0x([0-9A-Fa-f]{2})>$/.exec(piece)?.[1];
  return digits === undefined ? undefined : parseInt(digits, 16);
}

/** A string of one character per byte: a key for maps. @param {Uint8Array} bytes */
export function keyOf(bytes) {
  let key = '';
  for (let i = 0; i < bytes.length; i++) key += String.fromCharCode(bytes[i]);
  return key;
}

/** @param {string} text */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
