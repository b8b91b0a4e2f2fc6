/**
 * Measures how well the model predicts a text of the user, like `bq4 perplexity`. Loaded when its section is first
 * opened.
 */
import { clearAlert, showError, showNotice, trouble } from '../page/alerts.js';
import { element } from '../page/element.js';
import * as format from '../page/format.js';
import { $, say } from '../page/page.js';

/** @typedef {import('../../js/shared/types.js').Model} Model */
/**
 * @typedef {{ host: import('../models/engine-host.js').Host, turns: import('../chat/turn.js').Turns, enter: (next: 'ready' | 'writing') => void }}
 *   Page
 */

/** Logit bias that makes a token the most likely one. */
const FORCING_BIAS = 1e9;
const TEXT =
  'Once upon a time there was a little dog who lived by the sea. Every morning he ran along the beach and looked for shells. One day he found a blue one, and when he held it to his ear, it sang.';

/**
 * Forces each token of a text in turn and reads from the engine how likely it was.
 * @param {Model} model @param {number[]} ids @param {AbortSignal} signal @param {(done: number) => void} onToken
 */
async function predicted(model, ids, signal, onToken) {
  let [nll, first] = [0, 0];
  for (let n = 1; n < ids.length; n++) {
    const logitBias = [{ token: ids[n], bias: FORCING_BIAS }];
    const next = model.generate(ids.slice(0, n), { logitBias, logprobs: 1, temperature: 0, maxTokens: 1, signal });
    for await (const { logprobs } of next) {
      if (!logprobs) continue;
      nll -= logprobs.logprob;
      first += Number(logprobs.top[0].token === ids[n]);
    }
    onToken(n);
  }
  return { perplexity: Math.exp(nll / (ids.length - 1)), first: first / (ids.length - 1) };
}

/** @param {Model} model @param {string} text */
async function tokensOf(model, text) {
  const ids = await model.tokenize(text);
  const { contextTokens: context } = model.info;
  if (ids.length > context)
    throw trouble(
      'CONTEXT_FULL',
      `the text has ${format.count(ids.length)} tokens, and ${format.count(context)} fit`,
      'shorten it, or choose a larger context in Settings',
    );
  if (ids.length < 2) throw trouble('ARGUMENT', 'the text is too short to be predicted', 'type a longer one');
  return ids;
}

/** Fills the section of the panel, once. @param {Page} page */
export function show({ host, turns, enter }) {
  const root = $('perplexity');
  if (root.querySelector('textarea')) return;
  const label = element('label', 'whole', 'Text ');
  const text = element('textarea');
  text.rows = 5;
  text.value = TEXT;
  label.append(text);
  const button = element('button', '', 'Measure');
  button.type = 'button';
  const form = element('div', 'sampling measure');
  form.append(label, button);
  const found = element('dl', 'figures');
  const hint = element(
    'p',
    'hint',
    'How well the model predicts each word, or part of one, from those before it. 1 would be perfect.',
  );
  root.append(form, found, hint);

  /** @param {[name: string, value: string][]} figures */
  const report = (figures) =>
    found.replaceChildren(
      ...figures.map(([name, value]) => {
        const row = element('div');
        row.append(element('dt', '', name), element('dd', '', value));
        return row;
      }),
    );

  /** @param {AbortSignal} signal */
  async function measure(signal) {
    clearAlert();
    enter('writing');
    button.textContent = 'Stop measuring';
    report([]);
    say('Measuring…');
    try {
      const { model } = host;
      const ids = await tokensOf(model, text.value);
      const total = ids.length - 1;
      const { perplexity, first } = await predicted(model, ids, signal, (done) =>
        report([['Tokens predicted', `${format.count(done)} of ${format.count(total)}`]]),
      );
      report([
        ['Perplexity', perplexity.toFixed(4)],
        ['Top guess correct', `${(100 * first).toFixed(1)} %`],
        ['Tokens predicted', format.count(total)],
      ]);
      const { contextTokens: context, kv, activations } = model.info;
      hint.textContent = `Same result as "bq4 perplexity" with context ${context}, kv ${kv} and activations ${activations}.`;
      say(`Measured: perplexity ${perplexity.toFixed(2)}.`);
    } catch (error) {
      if (!signal.aborted) showError(error);
      say(signal.aborted ? 'Stopped.' : 'Nothing was measured.');
    }
    button.textContent = 'Measure';
    enter('ready');
    return true;
  }

  let measuring = false;
  button.addEventListener('click', async () => {
    if (measuring) return turns.stop();
    measuring = true;
    if (!(await turns.runTask(measure)))
      showNotice('Nothing can be measured while a reply is written, or without a model.');
    measuring = false;
  });
}
