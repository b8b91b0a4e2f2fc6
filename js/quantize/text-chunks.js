/** Divides long texts into chunks for tokenization, when only the beginning is needed or memory is limited. */

/**
 * Yields the chunks of a text. It is divided before spaces, where tokens rarely depend on the text before.
 * @param {string} text @param {number} maxCharacters  of a chunk
 */
export function* chunksOf(text, maxCharacters) {
  for (let from = 0; from < text.length;) {
    let to = from + maxCharacters;
    const space = text.lastIndexOf(' ', to);
    if (to >= text.length) to = text.length;
    else if (space > from) to = space;
    else if (/[\uDC00-\uDFFF]/.test(text[to])) to--; // keeps surrogate pairs together
    yield text.slice(from, to);
    from = to;
  }
}
