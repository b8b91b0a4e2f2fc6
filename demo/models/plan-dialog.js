/**
 * Shows the size, memory and speed of a model before a large download or load, so that the user can decide. Loaded on
 * demand.
 */
import { expectedSpeed } from './expected-speed.js';
import * as format from '../page/format.js';
import { $, showDialog } from '../page/page.js';
import { factsOf, paceHere } from '../storage/model-history.js';
import { element } from '../page/element.js';

/** @typedef {import('../../js/shared/types.js').Plan} Plan */
/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */

const dialog = /** @type {HTMLDialogElement} */ ($('plan'));

/** Address below which `npm start` serves the models of this computer. */
const LOCAL = new URL('../local/', location.href).href;

/** Whether nothing needs to be downloaded. @param {Plan} plan @param {ModelChoice} choice */
const isHere = ({ cached }, { kind, key }) => kind === 'file' || cached.complete || key.startsWith(LOCAL);

/** @param {Plan} plan @param {ModelChoice} choice */
function sizeOf({ fileBytes, cached }, { kind, key, folder, source }) {
  if (folder) return `${format.bytes(fileBytes)}, converted from ${format.bytes(folder)} in your folder; no download`;
  if (kind === 'file')
    return `${format.bytes(fileBytes)}, read from your file${Array.isArray(source) ? 's' : ''}; no download`;
  if (cached.complete) return `${format.bytes(fileBytes)}, already downloaded`;
  if (key.startsWith(LOCAL)) return `${format.bytes(fileBytes)}, on this computer`;
  return cached.bytes
    ? `${format.bytes(fileBytes - cached.bytes)} of ${format.bytes(fileBytes)} to download`
    : `${format.bytes(fileBytes)} to download`;
}

/**
 * Rows of the table; a row whose text is '' is omitted.
 * @type {Record<string, (plan: Plan, choice: ModelChoice) => string>}
 */
const ROWS = {
  Licence: (plan) => plan.license || 'not given in the file',
  Size: sizeOf,
  From: (_, { kind, source }) => (kind === 'file' ? '' : String(source).split('/')[2]),
  Memory: (plan) =>
    `${format.bytes(plan.heapBytes)} with a context of ${format.count(plan.contextTokens)} tokens (${format.bytes(plan.kvBytesPer1000)} per 1,000)`,
  Fits: ({ fits, fitsReason }) => (fitsReason ? `${fits}: ${fitsReason}` : fits),
  'Speed here': (plan, { key }) => expectedSpeed(plan.tokensPerSecond, factsOf(key).rate ?? null, paceHere()),
  Architecture: (plan) => format.shape(plan),
};

/** Returns the main facts in two sentences. @param {Plan} plan @param {ModelChoice} choice */
function summary(plan, choice) {
  const memory = `Needs ${format.bytes(plan.heapBytes)} of memory`;
  const fits = {
    yes: `${memory}, which fits this device.`,
    no: `${memory}, which is too much for this device.`,
    unknown: `${memory}; it may not fit this device.`,
  };
  return `${sizeOf(plan, choice)}. ${fits[plan.fits]}`;
}

/**
 * Asks the user whether to download or load a model. Moves the focus into the dialog, and back at the end.
 * @param {Plan} plan @param {ModelChoice} choice @param {AbortSignal} signal  closes the dialog
 * @returns {Promise<boolean>}  whether the user agreed
 */
export function agreed(plan, choice, signal) {
  const rows = Object.entries(ROWS).flatMap(([name, report]) => {
    const text = report(plan, choice);
    if (!text) return [];
    const row = element('div');
    row.append(element('dt', '', name), element('dd', '', text));
    return [row];
  });
  $('plan-facts').replaceChildren(...rows);
  $('plan-title').textContent = choice.name;
  $('plan-summary').textContent = summary(plan, choice);
  $('plan-start').textContent = isHere(plan, choice) ? 'Load and use' : 'Download';
  dialog.dataset.fits = plan.fits;
  showDialog(dialog);
  dialog.returnValue = '';
  return new Promise((resolve) => {
    const close = () => dialog.close();
    signal.addEventListener('abort', close);
    dialog.addEventListener(
      'close',
      () => {
        signal.removeEventListener('abort', close);
        resolve(dialog.returnValue === 'yes' && !signal.aborted);
      },
      { once: true },
    );
  });
}

$('plan-start').addEventListener('click', () => dialog.close('yes'));
$('plan-cancel').addEventListener('click', () => dialog.close(''));
