/** Cards with better models, shown under the headline while the built-in model is in use. */
import { addressOf, CATALOGUE } from './catalogue.js';
import { words } from './expected-speed.js';
import * as format from '../page/format.js';
import { button, element } from '../page/element.js';
import { $ } from '../page/page.js';
import { factsOf, fromLink, paceHere } from '../storage/model-history.js';

/** @typedef {import('./catalogue.js').Offer} Offer */
/** @typedef {import('./engine-host.js').Host} Host */
/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */

/** Estimated memory in addition to the weights, in bytes: the KV cache and the engine. */
const OVERHEAD_BYTES = 80e6;

/**
 * Estimates the bytes of weights that the kernels read per second here, from the plan of the model in use; 0 if
 * unknown.
 * @param {Host} host
 */
async function bytesPerSecond(host) {
  const perSecond = await host.limit().catch(() => null);
  return perSecond ? perSecond * (host.info?.weightBytes ?? 0) : 0;
}

/** @param {Host} host @param {{ onUse: (choice: ModelChoice) => void, onOffer: (offer: Offer) => void }} actions */
export async function showOffers(host, { onUse, onOffer }) {
  const list = (await host.store?.list().catch(() => [])) ?? [];
  const draw = (/** @type {number} */ pace) => {
    const cards = CATALOGUE.filter(({ first }) => first).map((offer) => {
      const url = addressOf(offer);
      const stored = list.find((file) => file.url === url);
      const { rate } = factsOf(url);
      const speed = rate ? `about ${words(rate)} here` : pace ? `up to ${words(pace / offer.bytes)} here` : '';
      const card = element('li', 'offer');
      card.append(
        element('h3', '', offer.name),
        element('p', 'use', offer.use),
        element(
          'p',
          'hint',
          `${format.bytes(offer.bytes)} · needs ${format.bytes(offer.bytes + OVERHEAD_BYTES)} of memory`,
        ),
        element('p', 'hint', [speed, offer.license].filter(Boolean).join(' · ')),
      );
      const verb = stored ? (stored.complete ? 'Use' : 'Resume') : 'Download';
      const get = button(verb, `${verb} ${offer.name}`, () =>
        stored?.complete ? onUse(fromLink(url, offer.name)) : onOffer(offer),
      );
      get.className = '';
      card.append(get);
      return card;
    });
    $('offer-cards').replaceChildren(...cards);
  };
  draw(0);
  const speed = await bytesPerSecond(host);
  if (speed && !$('offer-cards').contains(document.activeElement)) draw(speed * (paceHere() ?? 1));
}
