/** Better models, under the headline while the built-in one is in use: what each is for and takes, and one click to have it. */
import { addressOf, CATALOGUE } from './catalogue.js';
import { words } from './expected-speed.js';
import * as format from '../page/format.js';
import { button, element } from '../page/element.js';
import { $ } from '../page/page.js';
import { factsOf, fromLink, paceHere } from '../storage/model-history.js';

/** @typedef {import('./catalogue.js').Offer} Offer */
/** @typedef {import('./engine-host.js').Host} Host */
/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */

/** Memory beside the weights: the KV cache, the engine. */
const BESIDE = 80e6;

/** Bytes of weights that the kernels go through in a second here, as far as a plan of the model in use tells. @param {Host} host */
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
        element('p', 'hint', `${format.bytes(offer.bytes)} · needs ${format.bytes(offer.bytes + BESIDE)} of memory`),
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
