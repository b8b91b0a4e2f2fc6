/** The last part of an address, for people. @param {string} url */
export function nameOf(url) {
  const name = url.split(/[?#]/, 1)[0].split('/').pop() || url;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
