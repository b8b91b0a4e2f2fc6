/**
 * Saved prompts, listed while the message is a slash and a part of their names: those of the page and those that the user has saved.
 * Loaded when the first slash is typed.
 */
import { showNotice } from '../page/alerts.js';
import { button, element } from '../page/element.js';
import { grow, isComposing, message, say } from '../page/page.js';
import { loadPrompts, savePrompts } from '../storage/saved-prompts.js';

/** @typedef {{ name: string, text: string }} Prompt */

/** @type {readonly Prompt[]} */
const BUILT_IN = [
  { name: 'Summarize', text: 'Summarize this text in three sentences:\n\n' },
  { name: 'Simplify', text: 'Explain this in simple words, for a child of ten:\n\n' },
  { name: 'Correct', text: 'Correct the spelling and grammar of this text, and change nothing else:\n\n' },
  { name: 'Ideas', text: 'Give me five ideas for ' },
  { name: 'Story', text: 'Tell me a short story about ' },
];

/** Longest name that is made of a prompt's first words, in characters. */
const MAX_NAME = 40;

const list = element('ul', 'prompts');
list.setAttribute('aria-label', 'Prompts');
list.hidden = true;
message.before(list);

/** Texts of the prompts that are shown. @type {string[]} */
let choices = [];
let selected = 0;

/** Returns the prompts whose names contain a text. @param {string} typed  after the slash */
function found(typed) {
  const wanted = typed.toLocaleLowerCase();
  return [...loadPrompts(), ...BUILT_IN].filter(({ name }) => name.toLocaleLowerCase().includes(wanted));
}

/** @param {string} text */
function insert(text) {
  message.value = text;
  message.dispatchEvent(new Event('input', { bubbles: true }));
  message.focus();
  grow();
}

function hide() {
  list.hidden = true;
  choices = [];
}

/** @param {number} index */
function select(index) {
  selected = (index + choices.length) % choices.length;
  for (const [i, row] of [...list.children].entries()) row.toggleAttribute('data-selected', i === selected);
  list.children[selected]?.scrollIntoView({ block: 'nearest' });
  say(`${list.querySelector('[data-selected] b')?.textContent}, ${selected + 1} of ${choices.length} prompts.`);
}

/** @param {Prompt} prompt */
function rowOf({ name, text }) {
  const row = element('li');
  const choice = element('button', 'quiet');
  choice.type = 'button';
  choice.addEventListener('click', () => insert(text));
  choice.append(element('b', '', name), element('small', '', text.trim().replace(/\s+/g, ' ')));
  row.append(choice);
  if (!BUILT_IN.some((prompt) => prompt.name === name))
    row.append(
      button('Remove', `Remove the prompt ${name}`, () => {
        savePrompts(loadPrompts().filter((prompt) => prompt.name !== name));
        say('Prompt removed.');
        showPrompts();
        message.focus();
      }),
    );
  return row;
}

/** Shows the prompts that match the typed text, or hides the list. */
export function showPrompts() {
  const typed = /^\/([\p{L}\p{N} ]*)$/u.exec(message.value);
  const prompts = typed ? found(typed[1]) : [];
  if (!prompts.length) return hide();
  choices = prompts.map(({ text }) => text);
  list.replaceChildren(...prompts.map(rowOf));
  list.hidden = false;
  select(0);
}

/** Saves a text as a prompt of the user. @param {string} text */
export function keepPrompt(text) {
  const name = text.trim().split('\n', 1)[0].slice(0, MAX_NAME).trim();
  const isKept = savePrompts([{ name, text: text.trim() }, ...loadPrompts().filter((prompt) => prompt.name !== name)]);
  showNotice(
    isKept
      ? 'Saved as a prompt: type / in an empty message to insert it.'
      : 'The prompt could not be saved: the storage of this browser is full or blocked.',
  );
}

// Capturing: runs before the listener that sends the message.
message.addEventListener(
  'keydown',
  (event) => {
    if (list.hidden || isComposing(event)) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) select(selected + step);
    else if (event.key === 'Enter' || event.key === 'Tab') insert(choices[selected]);
    else if (event.key === 'Escape') hide();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  { capture: true },
);
message.addEventListener('input', showPrompts);
document.addEventListener('focusin', ({ target }) => {
  if (target !== message && !list.contains(/** @type {Node} */ (target))) hide();
});
