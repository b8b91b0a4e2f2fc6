/**
 * Detects a load that crashed its tab. Phones end a page without an error when memory runs out, and the reload would crash again. So a
 * load leaves a mark in localStorage and holds a lock. A mark whose lock is free is from a crashed tab: then a load with less memory is
 * offered instead of another try.
 */

const KEY = 'bq4.loading';

/**
 * @typedef {object} Attempt
 * @property {string} name    display name of the model
 * @property {string | null} url  null for a local file, which a page cannot open again on its own
 * @property {'bundled' | 'link' | 'file'} kind
 * @property {number} level   how often the context was halved
 */

/** @typedef {Attempt & { id: string }} Mark */

/** @returns {Mark | null} */
function read() {
  try {
    const mark = JSON.parse(localStorage.getItem(KEY) ?? 'null');
    return mark &&
      typeof mark.id === 'string' &&
      typeof mark.name === 'string' &&
      ['bundled', 'link', 'file'].includes(mark.kind) &&
      Number.isInteger(mark.level)
      ? mark
      : null;
  } catch {
    return null;
  }
}

/** @param {Mark | null} mark */
function write(mark) {
  try {
    if (mark) localStorage.setItem(KEY, JSON.stringify(mark));
    else localStorage.removeItem(KEY);
  } catch {
    // Storage is blocked: crashes are not detected.
  }
}

/**
 * Runs `load` under a mark. A regular end of the page (a reload, a closed tab) removes the mark.
 * @template T
 * @param {Attempt} attempt
 * @param {() => Promise<T>} load
 * @returns {Promise<T>}
 */
export async function marked(attempt, load) {
  if (!navigator.locks) return load();
  const mark = { ...attempt, id: `${KEY}.${Math.random().toString(36).slice(2)}` };
  const clear = () => read()?.id === mark.id && write(null);
  let isLocked = false;
  const loadWithMark = async () => {
    isLocked = true;
    write(mark);
    addEventListener('pagehide', clear);
    try {
      return await load();
    } finally {
      removeEventListener('pagehide', clear);
      clear();
    }
  };
  return navigator.locks.request(mark.id, loadWithMark).catch((error) => {
    if (isLocked) throw error;
    return load(); // a browser that blocks cookies refuses locks
  });
}

/** Returns the load that crashed a tab, once; null if no tab crashed. @returns {Promise<Attempt | null>} */
export async function crashed() {
  const mark = read();
  if (!mark || !navigator.locks) return null;
  const { held = [], pending = [] } = (await navigator.locks.query().catch(() => null)) ?? {};
  if ([...held, ...pending].some(({ name }) => name === mark.id)) return null; // another tab is loading it now
  write(null);
  return { name: mark.name, url: typeof mark.url === 'string' ? mark.url : null, kind: mark.kind, level: mark.level };
}
