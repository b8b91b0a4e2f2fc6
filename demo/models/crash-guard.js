/**
 * Remembers a load that killed its tab. Memory that a phone doesn't have ends a page without a word, and the reload
 * that follows would end the same way. So a load leaves a mark in localStorage and holds a lock: a mark whose lock is
 * free was left by a tab that died, and is answered with an offer of less memory instead of another try.
 */

const KEY = 'bq4.loading';

/**
 * @typedef {object} Attempt
 * @property {string} name    of the model, for people
 * @property {string | null} url  null: a file, which a page can't open again by itself
 * @property {'bundled' | 'link' | 'file'} kind
 * @property {number} level   how often less memory was asked for: each halves the context
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
    // Then nothing is remembered.
  }
}

/**
 * Runs `load` under a mark. The page's ordinary end (a reload, a closed tab) takes the mark along.
 * @template T
 * @param {Attempt} attempt
 * @param {() => Promise<T>} load
 * @returns {Promise<T>}
 */
export async function marked(attempt, load) {
  if (!navigator.locks) return load();
  const mark = { ...attempt, id: `${KEY}.${Math.random().toString(36).slice(2)}` };
  const clear = () => read()?.id === mark.id && write(null);
  return navigator.locks.request(mark.id, async () => {
    write(mark);
    addEventListener('pagehide', clear);
    try {
      return await load();
    } finally {
      removeEventListener('pagehide', clear);
      clear();
    }
  });
}

/** The load that killed a tab, told once. @returns {Promise<Attempt | null>} */
export async function crashed() {
  const mark = read();
  if (!mark || !navigator.locks) return null;
  const { held = [], pending = [] } = await navigator.locks.query();
  if ([...held, ...pending].some(({ name }) => name === mark.id)) return null; // Another tab is loading it now.
  write(null);
  return { name: mark.name, url: typeof mark.url === 'string' ? mark.url : null, kind: mark.kind, level: mark.level };
}
