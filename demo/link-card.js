/** A model from a link: what it is and what it will take is shown before anything large is downloaded. */
import * as format from './format.js';
import { $ } from './page.js';
import { element } from './element.js';

/** @typedef {import('../js/shared/types.js').Plan} Plan */

/** A download larger than this waits until the person agrees. */
const ASK_ABOVE = 20e6;

const form = /** @type {HTMLFormElement} */ ($('from-link'));
const field = /** @type {HTMLInputElement} */ ($('link'));
const card = $('plan');
const start = /** @type {HTMLButtonElement} */ ($('plan-start'));
const pause = /** @type {HTMLButtonElement} */ ($('plan-pause'));
const cancel = /** @type {HTMLButtonElement} */ ($('plan-cancel'));

/** Each says what the plan tells about it; '' leaves the row out. @type {Record<string, (plan: Plan) => string>} */
const ROWS = {
  Name: (plan) => plan.name,
  Licence: (plan) => plan.license || 'not stated',
  Shape: (plan) => format.shape(plan),
  Download: ({ fileBytes, cached }) => {
    const left = fileBytes - cached.bytes;
    if (cached.complete) return `none: ${format.bytes(fileBytes)} are stored here`;
    return cached.bytes ? `${format.bytes(left)} of ${format.bytes(fileBytes)}; the rest is stored here` : format.bytes(fileBytes);
  },
  Memory: (plan) => `${format.bytes(plan.heapBytes)} with a context of ${format.count(plan.context)} tokens`,
  'KV cache': (plan) => `${format.bytes(plan.kvBytesPer1000)} per 1,000 tokens`,
  Fits: ({ fits, fitsReason }) => (fitsReason ? `${fits}: ${fitsReason}` : fits),
  Speed: ({ tokensPerSecond }) => (tokensPerSecond ? `about ${format.speed(tokensPerSecond)} on this machine` : ''),
};

/** @param {Plan} plan */
export const needsConsent = (plan) => plan.fits === 'no' || plan.fileBytes - plan.cached.bytes > ASK_ABOVE;

/** @param {Plan} plan */
export function showPlan(plan) {
  const rows = Object.entries(ROWS).flatMap(([name, tell]) => {
    const text = tell(plan);
    if (!text) return [];
    const row = element('div');
    row.append(element('dt', '', name), element('dd', '', text));
    return [row];
  });
  $('plan-facts').replaceChildren(...rows);
  card.dataset.fits = plan.fits;
  card.hidden = false;
}

export function hidePlan() {
  card.hidden = true;
}

/**
 * Which buttons make sense now.
 * @param {'asking' | 'downloading' | 'paused'} state
 */
export function showButtons(state) {
  start.hidden = state !== 'asking';
  pause.hidden = state === 'asking';
  pause.textContent = state === 'paused' ? 'Go on' : 'Pause';
}

/**
 * @param {{ look: (url: string) => void, start: () => void, pause: () => void, cancel: () => void }} actions
 */
export function onLink(actions) {
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const url = field.value.trim();
    if (url) actions.look(url);
  });
  start.addEventListener('click', actions.start);
  pause.addEventListener('click', actions.pause);
  cancel.addEventListener('click', actions.cancel);
}
