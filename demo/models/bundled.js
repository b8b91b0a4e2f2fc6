/** The built-in model. The engine's store keeps it, so that it also works offline. */

/** Its name on the page; its file contains another one. */
export const TINY = 'Tiny';

/** @typedef {import('./picker.js').Store} Store */

/** The query is the file's id, so that a new model has another address than the stored one. A test compares them. */
export const BUNDLED = new URL('../../models/chat.bq4?31581277', import.meta.url).href;

/** Number of checks whether it is stored, and milliseconds between them. */
const [CHECKS, INTERVAL] = [40, 250];

/**
 * Waits until the built-in model is stored, pins it against eviction and deletes its other versions.
 * @param {Store | null} store
 * @returns {Promise<boolean>}  whether it is stored
 */
export async function keepBundled(store) {
  for (let check = 0; store && store.backend !== 'memory' && check < CHECKS; check++) {
    const list = await store.list().catch(() => []);
    const here = list.find(({ url }) => url === BUNDLED);
    if (here?.complete) {
      if (!here.pinned) await store.pin(here.key, true).catch(() => {});
      const older = list.filter(({ url }) => url !== BUNDLED && url.split('?')[0] === BUNDLED.split('?')[0]);
      for (const { key } of older) await store.delete(key).catch(() => {});
      return true;
    }
    if (!here && check > CHECKS / 8) return false;
    await new Promise((resolve) => setTimeout(resolve, INTERVAL));
  }
  return false;
}
