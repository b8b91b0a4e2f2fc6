/** The model that comes with the page. The engine's store keeps it, so that a visit without a network has it too. */

/** Its name on the page, where its own file says another. */
export const TINY = 'Tiny';

/** @typedef {import('./picker.js').Shelf} Shelf */

/** Its file id follows the address: a new model is another address, and not what is stored. A test compares them. */
export const BUNDLED = new URL('../../models/chat.bq4?6368f489', import.meta.url).href;

/** How often, and how many milliseconds apart, the store is asked whether all of it is there. */
const [LOOKS, APART] = [40, 250];

/**
 * Waits until it is stored, keeps it from making room for others and deletes those of other versions.
 * @param {Shelf | null} store
 * @returns {Promise<boolean>}  whether it is there
 */
export async function keepBundled(store) {
  for (let look = 0; store && store.backend !== 'memory' && look < LOOKS; look++) {
    const list = await store.list().catch(() => []);
    const here = list.find(({ url }) => url === BUNDLED);
    if (here?.complete) {
      if (!here.pinned) await store.pin(here.key, true).catch(() => {});
      const older = list.filter(({ url }) => url !== BUNDLED && url.split('?')[0] === BUNDLED.split('?')[0]);
      for (const { key } of older) await store.delete(key).catch(() => {});
      return true;
    }
    if (!here && look > LOOKS / 8) return false;
    await new Promise((resolve) => setTimeout(resolve, APART));
  }
  return false;
}
