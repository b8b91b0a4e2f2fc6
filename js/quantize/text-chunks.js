/** Texts that are too long to become tokens at once, as only their beginning is needed or there is not that much room. */

/** Each but the first from a space on where there is one: what begins there hardly depends on what is before it. @param {string} text @param {number} most  characters of a piece */
export function* piecesOf(text, most) {
  for (let from = 0; from < text.length;) {
    let to = from + most;
    const space = text.lastIndexOf(' ', to);
    if (to >= text.length) to = text.length;
    else if (space > from) to = space;
    else if (/[\uDC00-\uDFFF]/.test(text[to])) to--; // a pair stays together
    yield text.slice(from, to);
    from = to;
  }
}
