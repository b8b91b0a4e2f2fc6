/**
 * Decodes percent escapes in a part of an address; returns the part unchanged if they are invalid.
 * @param {string} part
 */
export function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the last part of an address, as a name to show to the user. @param {string} url */
export const nameOf = (url) => decodePart(url.split(/[?#]/, 1)[0].split('/').pop() || url);
