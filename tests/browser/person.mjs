// What a person does in the demo, in words that every browser's page understands.

import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';

/** @typedef {import('./browsers.mjs').Page} Page */

/** @param {Page} page */
export const ready = (page) =>
  page.until(() => {
    const send = /** @type {HTMLButtonElement | null} */ (document.querySelector('#send'));
    return send && !send.disabled && !send.hidden;
  });

/** @param {Page} page @returns {Promise<string[]>} */
export const texts = (page) =>
  page.evaluate(() => [...document.querySelectorAll('[role=log] article .text')].map((one) => one.textContent ?? ''));

/** The same once what has marks of Markdown is drawn, which waits for a library. @param {Page} page */
export async function drawn(page) {
  await page.evaluate(async () => {
    const own = /** @type {HTMLScriptElement} */ (document.querySelector('script[type=module][src]'));
    await import(new URL('chat/markdown.js', own.src).href);
    await new Promise((resolve) => setTimeout(resolve));
  });
  return texts(page);
}

/** @param {Page} page @param {string} selector @returns {Promise<string>} */
export const textOf = (page, selector) =>
  page.evaluate((one) => document.querySelector(one)?.textContent ?? '', selector);

/** @param {Page} page @param {string} selector @param {boolean} [is] */
export const seen = (page, selector, is = true) =>
  page.until(
    ([one, is]) => Boolean(document.querySelector(String(one))?.checkVisibility()) === is,
    /** @type {[string, boolean]} */ ([selector, is]),
  );

/** @param {Page} page @param {string} text */
export async function say(page, text) {
  await page.type('#message', text);
  await page.click('#send');
  await ready(page);
  return String((await texts(page)).at(-1));
}

/**
 * What is looked at comes to be this: the page may take a moment for what it was told.
 * @template T @param {() => Promise<T>} look @param {T} wanted @param {string} [why]
 */
export async function comesTo(look, wanted, why) {
  for (let tries = 0; tries < 200 && !isDeepStrictEqual(await look(), wanted); tries++)
    await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(await look(), wanted, why);
}

/**
 * Presses a button by its label once it is shown, as a keyboard does: it need not be in view.
 * @param {Page} page @param {string} label @param {string} [within]
 */
export async function press(page, label, within = 'body') {
  const find = (/** @type {[string, string, boolean]} */ [label, within, click]) => {
    const button = [...document.querySelectorAll(`${within} button`)].findLast(
      (one) => (one.getAttribute('aria-label') ?? one.textContent?.trim()) === label && one.checkVisibility(),
    );
    if (click) /** @type {HTMLElement | undefined} */ (button)?.click();
    return Boolean(button);
  };
  await page.until(find, [label, within, false]);
  await page.evaluate(find, [label, within, true]);
}

/** @param {Page} page @param {Record<string, string>} values */
export const set = (page, values) =>
  page.evaluate((values) => {
    for (const [name, value] of Object.entries(values)) {
      const field = /** @type {HTMLInputElement} */ (document.querySelector(`#sampling [name="${name}"], #${name}`));
      field.value = value;
      field.dispatchEvent(new Event('input', { bubbles: true }));
    }
  }, values);

/** @param {Page} page @param {string} name @param {string | Uint8Array} content  chosen by hand */
export const openFile = (page, name, content) =>
  page.evaluate(
    ([name, base64]) => {
      const field = /** @type {HTMLInputElement} */ (document.querySelector('#file'));
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name));
      field.files = data.files;
      field.dispatchEvent(new Event('change'));
    },
    [name, Buffer.from(content).toString('base64')],
  );

/** A stored conversation, and the page that shows it. @param {Page} page @param {object[]} message @param {object} [more] */
export async function shown(page, message, more = {}) {
  const entries = message.map((one, i) => ({
    id: `m${i}`,
    parent: i ? `m${i - 1}` : null,
    role: i % 2 ? 'assistant' : 'user',
    note: '',
    ...one,
  }));
  await page.evaluate(
    ([entries, more]) => {
      localStorage.setItem(
        'bq4.chat.x',
        JSON.stringify({ version: 2, entries, leaf: entries.at(-1).id, at: 1, ...more }),
      );
      sessionStorage.setItem('bq4.open', 'x');
    },
    /** @type {const} */ ([/** @type {any[]} */ (entries), more]),
  );
  await page.reload();
  await ready(page);
}
