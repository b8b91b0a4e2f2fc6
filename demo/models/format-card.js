/** Lets the user choose a chat template, with a preview, for a model without one. */
import { listSupported } from '../../js/index.js';
import { $, focusMessage } from '../page/page.js';
import { element } from '../page/element.js';

/** Display names of chat templates; others are shown under their own name. @type {Record<string, string>} */
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
/** Preview without a template. */
const PLAIN = 'Hello!Hello, how are you?Fine.';

const card = $('format');
const choice = /** @type {HTMLSelectElement} */ ($('format-choice'));

/** @param {string} name  '' for no template */
export const formatTitle = (name) => (name ? (NAMES[name] ?? name) : NONE);

/** @typedef {Awaited<ReturnType<typeof listSupported>>['chatFormats']} Formats */

/**
 * Returns the first format whose stop string is a token of the model, which was then probably trained with it; '' if no
 * format has one.
 * @param {Formats} formats @param {(text: string) => Promise<number | null>} tokenId
 */
async function likely(formats, tokenId) {
  for (const { name, format } of formats) {
    const stop = [format.stop ?? ''].flat()[0];
    // "</s>" is also the end token of many models that are not trained for chats.
    if (stop !== '</s>' && (await tokenId(stop)) !== null) return name;
  }
  return '';
}

/**
 * @param {string} chosen  name of the template chosen before; '' if none
 * @param {(text: string) => Promise<number | null>} tokenId
 * @param {(name: string) => void} onChoose
 */
export async function askFormat(chosen, tokenId, onChoose) {
  const { chatFormats } = await listSupported();
  const suggested = chosen || (await likely(chatFormats, tokenId).catch(() => ''));
  const draw = () => {
    const chosenFormat = chatFormats.find(({ name }) => name === choice.value);
    $('format-preview').textContent = chosenFormat?.example ?? PLAIN;
  };
  choice.replaceChildren(
    ...['', ...chatFormats.map(({ name }) => name)].map((name) => {
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
  if (card.contains(document.activeElement)) focusMessage();
  card.hidden = true;
}
