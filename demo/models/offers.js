/** The models that can be chosen here: the catalogue's, and those that `npm start` found on this machine. Loaded on demand. */
import { addressOf, CATALOGUE } from './catalogue.js';
import * as format from '../page/format.js';

/** @typedef {import('./catalogue.js').Offer} Offer */

/** Lists the models in the cache folder of the machine that serves the page; elsewhere it is an empty list. */
const LOCAL = new URL('../local.json', import.meta.url);

/** @returns {Promise<(Offer & { url: string })[]>} */
async function local() {
  try {
    const list = await (await fetch(LOCAL)).json();
    return list.map((/** @type {Offer & { url: string }} */ { name, url, bytes }) => ({
      name,
      bytes,
      url: new URL(url, LOCAL).href,
      here: true,
    }));
  } catch {
    return []; // without a network, or from a host that has no such file
  }
}

/** @type {Promise<(Offer & { url: string })[]> | undefined} */
let found;

/** A file on this machine comes first, and stands for the same file elsewhere. @returns {Promise<(Offer & { url: string })[]>} */
export async function offers() {
  const here = await (found ??= local());
  const others = CATALOGUE.map((offer) => ({ ...offer, url: addressOf(offer) }));
  return [...here, ...others.filter(({ url }) => !here.some((one) => format.nameOf(one.url) === format.nameOf(url)))];
}
