/**
 * The recommended models: those of the catalogue, and those that `npm start` found on this machine. Loaded on demand.
 */
import { addressOf, CATALOGUE } from './catalogue.js';
import * as format from '../page/format.js';

/** @typedef {import('./catalogue.js').Offer} Offer */

/** Address of the list of models on the machine that runs `npm start`; on other hosts the list is empty. */
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
    return []; // offline, or a host without this file
  }
}

/** @type {Promise<(Offer & { url: string })[]> | undefined} */
let found;

/**
 * Returns all recommended models. A file on this machine is listed first and replaces the same file of the catalogue.
 * @returns {Promise<(Offer & { url: string })[]>}
 */
export async function offers() {
  const here = await (found ??= local());
  const others = CATALOGUE.map((offer) => ({ ...offer, url: addressOf(offer) }));
  return [...here, ...others.filter(({ url }) => !here.some((one) => format.nameOf(one.url) === format.nameOf(url)))];
}
