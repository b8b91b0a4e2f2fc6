/** Which model an example uses: `?model=ADDRESS`, else the small one that lies in the repository. */
export const MODEL =
  new URLSearchParams(location.search).get('model') ?? new URL('../models/chat.bq4', import.meta.url).href;

/** @param {string} id @returns {any} */
export const $ = (id) => document.getElementById(id);

/** Says in the page what went wrong, and what helps. @param {any} error */
export function showError(error) {
  if (error?.name === 'AbortError') return;
  $('status').textContent = [error?.message ?? error, error?.hint].filter(Boolean).join(': ');
}

/** Shows how much of a model has come. @param {{ loaded: number, total: number }} progress */
export function showProgress({ loaded, total }) {
  $('status').textContent = `Loading the model: ${((loaded / total) * 100).toFixed(0)} %`;
}
