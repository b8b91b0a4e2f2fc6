/**
 * Shows search results of Hugging Face: repositories, or the files of one with the best for this device marked. Loaded
 * on demand.
 */
import { bestOf, filesOf, search } from './hub.js';
import * as format from '../page/format.js';
import { button, element } from '../page/element.js';
import { fromLink, rememberFacts } from '../storage/model-history.js';

/** @typedef {import('./hub.js').HubFile} HubFile */
/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */

/**
 * Returns the size in bytes of the largest file that the device has memory for. Browsers report its memory capped, or
 * not at all.
 */
const maxFileBytes = () => {
  const { deviceMemory = 4 } = /** @type {any} */ (navigator);
  return (deviceMemory * 2 ** 30) / 4;
};

/**
 * @param {HTMLElement} place @param {import('./hub.js').Named | string} sought  a repository, or search words
 * @param {AbortSignal} signal @param {(choice: ModelChoice) => void} onUse
 */
export async function showFound(place, sought, signal, onUse) {
  const show = (/** @type {string} */ title, /** @type {HTMLElement[]} */ rows) => {
    if (signal.aborted) return;
    place.hidden = false;
    const list = element('ul', 'stored-list');
    list.append(...rows);
    const head = element('p', 'group', title);
    head.setAttribute('role', 'status');
    place.replaceChildren(head, list);
  };
  show('Looking on Hugging Face…', []);
  try {
    if (typeof sought === 'string') {
      const found = await search(sought, signal);
      const next = (/** @type {string} */ repo) =>
        void showFound(place, { repo, revision: 'main', file: '' }, signal, onUse);
      return show(
        found.length ? 'On Hugging Face' : 'No models found on Hugging Face.',
        found.map((repo) => row(repo, '', [['Show files', `Show the files of ${repo}`, () => next(repo)]])),
      );
    }
    const all = await filesOf(sought, signal);
    const files = sought.file ? all.filter(({ path }) => path === sought.file) : all;
    const best = bestOf(files, maxFileBytes());
    const use = (/** @type {HubFile} */ { path, url, integrity }) => {
      if (integrity) rememberFacts(url, { integrity });
      onUse(fromLink(url, format.nameOf(path)));
    };
    show(
      files.length ? `${sought.repo} on Hugging Face` : `${sought.repo} has no .gguf files, which this page needs.`,
      files.map((file) =>
        row(
          file.path,
          [format.bytes(file.bytes), file === best && 'Fits this device best'].filter(Boolean).join(' · '),
          [['Download…', `Download ${file.path}`, () => use(file)]],
          file === best,
        ),
      ),
    );
    /** @type {HTMLElement | null} */ (place.querySelector('.best button'))?.focus();
  } catch (error) {
    const { message, hint } = /** @type {any} */ (error);
    show(`${message[0].toUpperCase()}${message.slice(1)}${hint ? `: ${hint}` : ''}.`, []);
  }
}

/**
 * @param {string} name
 * @param {string} facts
 * @param {[text: string, label: string, run: () => void][]} actions
 * @param {boolean} [best]
 */
function row(name, facts, actions, best = false) {
  const item = element('li', best ? 'stored best' : 'stored');
  const text = element('p', 'stored-name', name);
  if (facts) text.append(element('small', 'facts-line', facts));
  const buttons = element('div', 'row');
  for (const [text, label, run] of actions) {
    const action = button(text, label, run);
    action.className = best ? 'filled' : '';
    buttons.append(action);
  }
  item.append(text, buttons);
  return item;
}
