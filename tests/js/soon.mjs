// A hang ends a test within a minute, and says where. No test depends on how soon something comes.

/** What a test waits for, or an error that names it. @template T @param {Promise<T>} promise @param {string} what @returns {Promise<T>} */
export function soon(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), 30_000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** @param {() => boolean} reached @param {string} what */
export async function until(reached, what) {
  const end = performance.now() + 30_000;
  while (!reached()) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
