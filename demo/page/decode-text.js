/** Decodes text files. Loaded on demand. */

/**
 * Decodes a text file: UTF-16 with a byte order mark, UTF-8, else Windows-1252. Returns '' if it is not text.
 * @param {Uint8Array} bytes
 */
export function decodeText(bytes) {
  const mark = (bytes[0] << 8) | bytes[1];
  if (mark === 0xfffe || mark === 0xfeff)
    return new TextDecoder(mark === 0xfffe ? 'utf-16le' : 'utf-16be').decode(bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    // Binary files contain control characters that texts do not.
    const isText = bytes.every((byte) => byte >= 32 || (byte >= 9 && byte <= 13));
    return isText ? new TextDecoder('windows-1252').decode(bytes) : '';
  }
}
