/** A part of an address without its escapes; as it is where these are none. @param {string} part */
export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The last part of an address, for people. @param {string} url */
export const nameOf = (url) => decoded(url.split(/[?#]/, 1)[0].split('/').pop() || url);
