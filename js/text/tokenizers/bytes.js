/**
 * Converts token texts to bytes. Byte-level vocabularies are written in an alphabet of printable letters, one per byte.
 */
import { malformed } from './section.js';

const encoder = new TextEncoder();
/** Decoder that keeps U+FEFF at the beginning of a token, where it is not a byte order mark. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** @param {string} text */
export const utf8 = (text) => encoder.encode(text);

/** @param {Uint8Array} bytes */
export const fromUtf8 = (bytes) => decoder.decode(bytes);

/**
 * GPT-2's alphabet, bytes by letter. Bytes that are printable in Latin-1 are represented by the same code point, the
 * others in ascending order by U+0100 and the following ones.
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

/** Bytes by the code of their letter; 256: not a letter of the alphabet. */
export const BYTES = new Uint16Array(512).fill(256);
for (const [letter, byte] of ALPHABET) BYTES[letter.charCodeAt(0)] = byte;

/**
 * Returns the bytes of a token of a byte-level vocabulary, or undefined if it has letters outside the alphabet.
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

/** Returns the bytes of a token. Throws FORMAT if it has letters outside the alphabet. @param {string} text */
export function fromAlphabet(text) {
  const bytes = lettersOf(text);
  if (!bytes) throw malformed(`the token ${JSON.stringify(text)} is not in the byte alphabet`);
  return bytes;
}

/**
 * Returns the bytes of a token of tokenizer.json. A token with letters outside the alphabet is plain text there.
 * @param {string} text
 */
export const fromAlphabetOrText = (text) => lettersOf(text) ?? utf8(text);

/** Returns the bytes of a SentencePiece piece, in which spaces are written as ▁. @param {string} piece */
export const fromPiece = (piece) => utf8(piece.replaceAll('\u2581', ' '));

/** Parses a byte token such as `<0x0A>`. Returns undefined for other pieces. @param {string} piece */
export function byteOf(piece) {
  const digits = /^<0x([0-9A-Fa-f]{2})>$/.exec(piece)?.[1];
  return digits === undefined ? undefined : parseInt(digits, 16);
}

/** Returns a key for maps: a string of one character per byte. @param {Uint8Array} bytes */
export function keyOf(bytes) {
  let key = '';
  for (let i = 0; i < bytes.length; i++) key += String.fromCharCode(bytes[i]);
  return key;
}

/** @param {string} text */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
