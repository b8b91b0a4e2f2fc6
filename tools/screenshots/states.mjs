// States of the demo for screenshots: size and theme of the page, and the actions that lead to the state.
import { openFile, press, ready, say, setFields, showConversation } from '../../tests/browser/person.mjs';

/** @typedef {import('../../tests/browser/browsers.mjs').Page} Page */
/**
 * Models for the states.
 * @typedef {object} Kit
 * @property {(options?: { bytesPerSecond?: number, status?: number }) => string} linkToModel  returns the address of a model of 26 MB,
 *   and sets how the server sends it from now on
 * @property {() => string} linkToRealModel  returns the address of SmolLM2-135M-Instruct
 * @property {Uint8Array} modelWithoutFormat  a file without a chat format
 */
/**
 * @typedef {object} State
 * @property {string} name
 * @property {[number, number]} [size]  width and height of the page in CSS pixels; default 1280 x 800
 * @property {'light' | 'dark'} [theme]
 * @property {{ forcedColors?: 'active', reducedMotion?: 'reduce' }} [media]  browsers that cannot emulate it omit the state
 * @property {boolean} [main]  whether it is in docs/screenshots, with which a test compares it
 * @property {boolean} [real]  whether it is in docs/screenshots with a real model. It is omitted without that model; no test compares it
 * @property {(page: Page, kit: Kit) => Promise<unknown>} prepare  leads to the state from a page whose model is loaded
 */

const DESK = /** @type {[number, number]} */ ([1280, 800]);
const PHONE = /** @type {[number, number]} */ ([390, 844]);

/** A chat with all kinds of formatted text. */
const FORMATTED = [
  { content: 'How do I boil an egg?' },
  {
    content: [
      'Boil **water** first, then:',
      '1. Lower the egg in *gently*.\n2. Wait.\n3. Cool it.',
      '| Egg | Minutes |\n|---|--:|\n| soft | 5 |\n| hard | 10 |',
      '```js\nsetTimeout(() => eat(egg), 5 * 60_000);\n```',
    ].join('\n\n'),
  },
];

const ARABIC = [
  { content: 'مرحبا! كيف حالك؟' },
  { content: 'أنا بخير، شكرا.\n\n- أولا: **ماء**\n- ثانيا: خبز 42\n\n> قال: bq4 يعمل هنا.' },
];
const HINDI = [
  { content: 'नमस्ते! आप कैसे हैं?' },
  { content: 'मैं ठीक हूँ, धन्यवाद।\n\n1. पहले **पानी** उबालें।\n2. फिर चाय डालें।\n\n| चीज़ | मिनट |\n|---|--:|\n| चाय | 5 |' },
];

/** Waits until an element is visible. @param {Page} page @param {string} selector */
const untilVisible = (page, selector) =>
  page.until((query) => document.querySelector(query)?.checkVisibility(), selector);
/** Waits until the status line contains a text. @param {Page} page @param {string} words */
const untilStatus = (page, words) =>
  page.until((text) => document.querySelector('#status')?.textContent?.includes(text), words);
const doNothing = async () => {};

/** Sends two messages to the bundled model. @param {Page} page */
async function makeStory(page) {
  await setFields(page, { seed: '4' });
  await say(page, 'Hello!');
  await say(page, 'Tell me a story about a dog.');
}

/** Enters the address of a model. @param {Page} page @param {string} url */
async function findModel(page, url) {
  await page.click('#model-name');
  await untilVisible(page, '#stored li'); // the dialog's code is loaded on demand
  await page.type('#link', url);
  await press(page, 'Find', '#models');
}

/** Starts a download and waits until the page shows the time that is left. @param {Page} page @param {Kit} kit @param {number} bytesPerSecond */
async function startDownload(page, kit, bytesPerSecond) {
  await findModel(page, kit.linkToModel());
  await untilVisible(page, '#plan-start');
  kit.linkToModel({ bytesPerSecond });
  await press(page, 'Download', '#plan');
  await untilStatus(page, 'You can already send a message');
  await page.until(() => document.querySelector('#arriving-amount')?.textContent?.includes('left')); // this line is longer than the first one
}

/** Loads a real model and sends two questions. @param {Page} page @param {Kit} kit */
async function askRealModel(page, kit) {
  await findModel(page, kit.linkToRealModel());
  await untilVisible(page, '#plan-start');
  await press(page, 'Download', '#plan');
  await page.until(() => document.querySelector('#model-name')?.textContent?.includes('SmolLM2'));
  await ready(page);
  await setFields(page, { temperature: '0' });
  await say(page, 'What is the capital of France?');
  await say(page, 'What is it famous for?');
}

/** Opens Details and scrolls to an element, since browsers differ in the initial scroll position. @param {Page} page @param {string} selector */
async function scrollDetails(page, selector) {
  await page.evaluate((selector) => {
    const panel = /** @type {HTMLElement} */ (document.querySelector('#details'));
    if (!panel.checkVisibility()) /** @type {HTMLElement} */ (document.querySelector('#details-toggle')).click();
    document.querySelector(selector)?.scrollIntoView({ block: 'start' });
  }, selector);
}

/** @type {State[]} */
export const STATES = [
  { name: 'light-first', size: DESK, main: true, prepare: doNothing },
  { name: 'dark-first', size: DESK, theme: 'dark', prepare: doNothing },
  { name: 'phone-first', size: PHONE, main: true, prepare: doNothing },
  { name: 'answer', size: DESK, real: true, prepare: askRealModel },
  { name: 'light', size: DESK, main: true, prepare: makeStory },
  { name: 'dark', size: DESK, theme: 'dark', main: true, prepare: makeStory },
  { name: 'phone', size: PHONE, main: true, prepare: makeStory },
  { name: 'formatted', size: DESK, main: true, prepare: (page) => showConversation(page, FORMATTED) },
  { name: 'dark-formatted', size: DESK, theme: 'dark', prepare: (page) => showConversation(page, FORMATTED) },
  {
    name: 'branches',
    size: DESK,
    async prepare(page) {
      await setFields(page, { seed: '4', maxTokens: '24' });
      await say(page, 'Tell me a joke');
      await press(page, 'Regenerate the reply');
      await ready(page);
    },
  },
  {
    name: 'chats',
    size: DESK,
    main: true,
    async prepare(page) {
      await showConversation(page, FORMATTED);
      await setFields(page, { seed: '4', maxTokens: '16' });
      await press(page, 'New chat', '.bar');
      await say(page, 'Tell me a story');
      // The list of chats is next to the conversation if there are chats and the window is wide.
      await page.until(() => document.querySelectorAll('#chats-dialog .chat-name').length === 2);
    },
  },
  {
    name: 'models',
    size: DESK,
    main: true,
    async prepare(page) {
      await page.click('#model-name');
      await page.until(() => document.querySelectorAll('#stored li button').length > 5);
    },
  },
  {
    name: 'plan',
    size: DESK,
    main: true,
    async prepare(page, kit) {
      await findModel(page, kit.linkToModel());
      await untilVisible(page, '#plan-start');
    },
  },
  {
    name: 'plan-phone',
    size: PHONE,
    async prepare(page, kit) {
      await findModel(page, kit.linkToModel());
      await untilVisible(page, '#plan-start');
    },
  },
  {
    name: 'downloading',
    size: DESK,
    main: true,
    async prepare(page, kit) {
      await showConversation(page, FORMATTED);
      await startDownload(page, kit, 1e6);
    },
  },
  {
    name: 'reading',
    size: DESK,
    async prepare(page) {
      await page.evaluate(() => {
        const field = /** @type {HTMLTextAreaElement} */ (document.querySelector('#message'));
        field.value = 'A dog sat in the sun. '.repeat(40);
        // Prefill takes a short time only, so a copy of the page as it is during prefill replaces the page.
        new MutationObserver(() => {
          const amount = /** @type {HTMLElement} */ (document.querySelector('#amount'));
          if (!amount.textContent?.includes('Reading:')) return;
          const copy = /** @type {HTMLElement} */ (document.body.cloneNode(true));
          document.documentElement.replaceChild(copy, document.body);
          document.documentElement.dataset.frozen = 'yes';
        }).observe(/** @type {Node} */ (document.querySelector('#amount')), { childList: true });
      });
      await page.click('#send');
      await page.until(() => document.documentElement.dataset.frozen);
    },
  },
  {
    name: 'full',
    size: DESK,
    async prepare(page) {
      await page.evaluate(() => {
        const field = /** @type {HTMLTextAreaElement} */ (document.querySelector('#message'));
        field.value = 'A dog sat in the sun. '.repeat(120);
      });
      await page.click('#send');
      await untilVisible(page, '#notices > *');
    },
  },
  { name: 'settings', size: DESK, main: true, prepare: (page) => page.click('#settings-open') },
  {
    name: 'phone-details',
    size: PHONE,
    main: true,
    async prepare(page) {
      await makeStory(page);
      await scrollDetails(page, '#model-title');
    },
  },
  {
    name: 'parts',
    size: DESK,
    async prepare(page) {
      await scrollDetails(page, '#parts-title');
      await page.evaluate(() => /** @type {HTMLElement} */ (document.querySelector('#parts summary')).click());
      await makeStory(page);
      await untilVisible(page, '.parts tbody tr');
      await scrollDetails(page, '#parts-title');
    },
  },
  {
    name: 'error',
    size: DESK,
    main: true,
    async prepare(page) {
      await showConversation(page, FORMATTED.slice(0, 2));
      await openFile(page, 'notes.bq4', 'not a model '.repeat(30));
      await untilVisible(page, '[role=alert]');
    },
  },
  {
    name: 'crash',
    size: PHONE,
    main: true,
    async prepare(page, kit) {
      // The entry that a tab leaves if it is closed while a model loads.
      await page.evaluate((url) => {
        const mark = { id: 'bq4.loading.x', name: 'large.bq4', url, kind: 'link', level: 0 };
        localStorage.setItem('bq4.loading', JSON.stringify(mark));
      }, kit.linkToModel());
      await page.reload();
      await untilVisible(page, '[role=alert]');
    },
  },
  {
    name: 'no-format',
    size: DESK,
    main: true,
    async prepare(page, kit) {
      await openFile(page, 'formless.bq4', kit.modelWithoutFormat);
      await untilVisible(page, '#format');
      await ready(page);
    },
  },
  {
    name: 'forced',
    size: DESK,
    media: { forcedColors: 'active' },
    prepare: (page) => showConversation(page, FORMATTED),
  },
  {
    name: 'forced-models',
    size: DESK,
    media: { forcedColors: 'active' },
    prepare: (page) => page.click('#model-name'),
  },
  ...[320, 390, 768, 1280, 2560].flatMap((width) => [
    { name: `width-${width}`, size: /** @type {[number, number]} */ ([width, 844]), prepare: doNothing },
    {
      name: `width-${width}-formatted`,
      size: /** @type {[number, number]} */ ([width, 844]),
      prepare: (/** @type {Page} */ page) => showConversation(page, FORMATTED),
    },
  ]),
  // Numbers of CSS pixels in a window of 1280 x 800 at this zoom.
  { name: 'zoom-200', size: [640, 400], prepare: doNothing },
  { name: 'zoom-200-formatted', size: [640, 400], prepare: (page) => showConversation(page, FORMATTED) },
  { name: 'zoom-400', size: [320, 200], prepare: doNothing },
  { name: 'zoom-400-formatted', size: [320, 200], prepare: (page) => showConversation(page, FORMATTED) },
  { name: 'phone-landscape', size: [844, 390], prepare: (page) => showConversation(page, FORMATTED) },
  { name: 'right-to-left', size: DESK, prepare: (page) => showConversation(page, ARABIC) },
  { name: 'devanagari', size: PHONE, prepare: (page) => showConversation(page, HINDI) },
  {
    name: 'still',
    size: DESK,
    media: { reducedMotion: 'reduce' },
    prepare: (page) => showConversation(page, FORMATTED),
  },
];
