/** For a model without a chat template: the templates that many models share, to choose from with a preview. */
import { compact } from '../../js/text/templates/compact.js';
import { FORMAT_NAMES, formatNamed } from '../../js/text/templates/known-formats.js';
import { $ } from '../page/page.js';
import { element } from '../page/element.js';

/** For people; the others are called as they are. @type {Record<string, string>} */
const NAMES = {
  chatml: 'ChatML',
  smollm2: 'ChatML of SmolLM2',
  'qwen2.5': 'ChatML of Qwen2.5',
  'llama-2': 'Llama 2',
  'llama-3': 'Llama 3',
  'llama-3.1': 'Llama 3.1',
  gemma: 'Gemma',
  mistral: 'Mistral',
  'mistral-nemo': 'Mistral Nemo',
  'phi-3': 'Phi-3',
  zephyr: 'Zephyr',
};
const NONE = 'None (continue my text)';
const EXAMPLE = [
  { role: 'user', content: 'Hello!' },
  { role: 'assistant', content: 'Hello, how are you?' },
  { role: 'user', content: 'Fine.' },
];

const card = $('format');
const choice = /** @type {HTMLSelectElement} */ ($('format-choice'));

/** @param {string} name  '': none */
export const formatTitle = (name) => (name ? (NAMES[name] ?? name) : NONE);

/** What a model would read of a short conversation. @param {string} name */
function preview(name) {
  const format = formatNamed(name);
  const pieces = format && compact(format, EXAMPLE);
  return pieces ? pieces.map(({ text }) => text).join('') : EXAMPLE.map(({ content }) => content).join('');
}

/**
 * The first template whose marks are tokens of the model: it was most likely trained with it.
 * @param {(text: string) => Promise<number | null>} tokenId
 */
async function likely(tokenId) {
  for (const name of FORMAT_NAMES) {
    const stop = formatNamed(name)?.stop?.[0] ?? '';
    // "</s>" ends texts of many models, chat or not.
    if (stop !== '</s>' && (await tokenId(stop)) !== null) return name;
  }
  return '';
}

const draw = () => {
  $('format-preview').textContent = preview(choice.value);
};

/**
 * @param {string} chosen  the template that was chosen before; '': none
 * @param {(text: string) => Promise<number | null>} tokenId
 * @param {(name: string) => void} onChoose
 */
export async function askFormat(chosen, tokenId, onChoose) {
  const suggested = chosen || (await likely(tokenId).catch(() => ''));
  choice.replaceChildren(
    ...['', ...FORMAT_NAMES].map((name) => {
      const option = element(
        'option',
        '',
        formatTitle(name) + (name && name === suggested && !chosen ? ' (recommended)' : ''),
      );
      option.value = name;
      return option;
    }),
  );
  choice.value = suggested;
  choice.onchange = draw;
  $('format-use').onclick = () => {
    hideFormat();
    onChoose(choice.value);
  };
  draw();
  card.hidden = false;
}

function hideFormat() {
  if (card.contains(document.activeElement)) $('message').focus();
  card.hidden = true;
}
