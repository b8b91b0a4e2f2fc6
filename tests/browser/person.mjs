// Actions of a user in the demo, for pages of every browser (browsers.mjs).
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';

/** @typedef {import('./browsers.mjs').Page} Page */

/** Waits until the demo can send a message. @param {Page} page */
export const ready = (page) =>
  page.until(() => {
    const send = /** @type {HTMLButtonElement | null} */ (document.querySelector('#send'));
    return send && !send.disabled && !send.hidden;
  });

/** The messages of the conversation, as text. @param {Page} page @returns {Promise<string[]>} */
export const texts = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('[role=log] article .text')].map((element) => element.textContent ?? ''),
  );

/** The messages after Markdown was rendered, for which the page loads a module. @param {Page} page */
export async function renderedTexts(page) {
  await page.evaluate(async () => {
    const script = /** @type {HTMLScriptElement} */ (document.querySelector('script[type=module][src]'));
    await import(new URL('chat/markdown.js', script.src).href);
    await new Promise((resolve) => setTimeout(resolve));
  });
  return texts(page);
}

/** The text of an element; '' if there is none. @param {Page} page @param {string} selector @returns {Promise<string>} */
export const textOf = (page, selector) =>
  page.evaluate((elementSelector) => document.querySelector(elementSelector)?.textContent ?? '', selector);

/** Waits until an element is visible, or invisible. @param {Page} page @param {string} selector @param {boolean} [visible] */
export const waitUntilVisible = (page, selector, visible = true) =>
  page.until(
    ([elementSelector, expected]) =>
      Boolean(document.querySelector(String(elementSelector))?.checkVisibility()) === expected,
    /** @type {[string, boolean]} */ ([selector, visible]),
  );

/** Sends a message and waits for the reply. @param {Page} page @param {string} text @returns {Promise<string>}  the reply */
export async function say(page, text) {
  await page.type('#message', text);
  await page.click('#send');
  await ready(page);
  return String((await texts(page)).at(-1));
}

/**
 * Polls a value until it is the expected one; fails after 200 polls.
 * @template T @param {() => Promise<T>} read @param {T} expected @param {string} [message]
 */
export async function waitForValue(read, expected, message) {
  for (let polls = 0; polls < 200 && !isDeepStrictEqual(await read(), expected); polls++)
    await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(await read(), expected, message);
}

/**
 * Waits for a button with this label and activates it. The button need not be in the viewport.
 * @param {Page} page @param {string} label @param {string} [within]  selector of an element that contains the button
 */
export async function press(page, label, within = 'body') {
  const find = (/** @type {[string, string, boolean]} */ [label, within, click]) => {
    const button = [...document.querySelectorAll(`${within} button`)].findLast(
      (element) =>
        (element.getAttribute('aria-label') ?? element.textContent?.trim()) === label && element.checkVisibility(),
    );
    if (click) /** @type {HTMLElement | undefined} */ (button)?.click();
    return Boolean(button);
  };
  await page.until(find, [label, within, false]);
  await page.evaluate(find, [label, within, true]);
}

/** Sets fields of the settings. @param {Page} page @param {Record<string, string>} values  by name or id */
export const setFields = (page, values) =>
  page.evaluate((values) => {
    for (const [name, value] of Object.entries(values)) {
      const field = /** @type {HTMLInputElement} */ (document.querySelector(`#sampling [name="${name}"], #${name}`));
      field.value = value;
      field.dispatchEvent(new Event('input', { bubbles: true }));
    }
  }, values);

/** Opens a file as a file dialog would. @param {Page} page @param {string} name @param {string | Uint8Array} content */
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

/** Stores a conversation and reloads the page, which then shows it. @param {Page} page @param {object[]} messages  fields of each entry @param {object} [more]  fields of the conversation */
export async function showConversation(page, messages, more = {}) {
  const entries = messages.map((message, i) => ({
    id: `m${i}`,
    parent: i ? `m${i - 1}` : null,
    role: i % 2 ? 'assistant' : 'user',
    note: '',
    ...message,
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
