/** What a model will take, shown before anything large is downloaded or loaded: a person agrees, or doesn't. */
import { expectedSpeed } from './expected-speed.js';
import * as format from '../page/format.js';
import { $, showDialog } from '../page/page.js';
import { factsOf, paceHere } from '../storage/model-history.js';
import { element } from '../page/element.js';

/** @typedef {import('../../js/shared/types.js').Plan} Plan */
/** @typedef {import('../storage/model-history.js').Wanted} Wanted */

/** Bytes to download, or to read from a file, of which nobody need be asked. */
const ASK_ABOVE = 20e6;

const dialog = /** @type {HTMLDialogElement} */ ($('plan'));

/** What each row tells; nothing: it is left out. @type {Record<string, (plan: Plan, wanted: Wanted) => string>} */
const ROWS = {
  Licence: (plan) => plan.license || 'not stated',
  Size: ({ fileBytes, cached }, { kind, folder, source }) => {
    if (folder)
      return `${format.bytes(fileBytes)}, made here of ${format.bytes(folder)} in your folder; nothing is downloaded`;
    const left = fileBytes - cached.bytes;
    if (kind === 'file')
      return `${format.bytes(fileBytes)}, read from your file${Array.isArray(source) ? 's' : ''}; nothing is downloaded`;
    if (cached.complete) return `${format.bytes(fileBytes)}, all of it stored in this browser`;
    return cached.bytes
      ? `${format.bytes(left)} of ${format.bytes(fileBytes)} to download; the rest is stored in this browser`
      : `${format.bytes(fileBytes)} to download`;
  },
  From: (_, { source }) => String(source).split('/')[2],
  Memory: (plan) =>
    `${format.bytes(plan.heapBytes)} with a context of ${format.count(plan.contextTokens)} tokens (${format.bytes(plan.kvBytesPer1000)} per 1,000)`,
  Fits: ({ fits, fitsReason }) => (fitsReason ? `${fits}: ${fitsReason}` : fits),
  Speed: (plan, { key }) => expectedSpeed(plan.tokensPerSecond, factsOf(key).rate ?? null, paceHere()),
  Shape: (plan) => format.shape(plan),
};

/** @param {Plan} plan @param {Wanted} wanted */
export const needsConsent = ({ fits, fileBytes, cached }, { kind }) =>
  fits === 'no' || fileBytes - (kind === 'file' ? 0 : cached.bytes) > ASK_ABOVE;

/**
 * Whether the person wants it. Focus goes into the dialog, and back to where it was.
 * @param {Plan} plan @param {Wanted} wanted @param {AbortSignal} signal  closes it
 * @returns {Promise<boolean>}
 */
export function agreed(plan, wanted, signal) {
  const rows = Object.entries(ROWS).flatMap(([name, tell]) => {
    const text = tell(plan, wanted);
    if (!text) return [];
    const row = element('div');
    row.append(element('dt', '', name), element('dd', '', text));
    return [row];
  });
  $('plan-facts').replaceChildren(...rows);
  $('plan-title').textContent = wanted.name;
  $('plan-name').textContent = plan.name && plan.name !== wanted.name ? `It calls itself “${plan.name}”.` : '';
  $('plan-start').textContent = wanted.kind === 'file' || plan.cached.complete ? 'Load and use' : 'Download and use';
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
