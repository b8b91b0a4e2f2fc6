// The states of the demo that are looked at: how large the page is, and what a person has done before.
import { openFile, press, ready, say, setFields, showConversation } from '../../tests/browser/person.mjs';

/** @typedef {import('../../tests/browser/browsers.mjs').Page} Page */
/**
 * What a state needs besides its page.
 * @typedef {object} Kit
 * @property {(options?: { bytesPerSecond?: number, status?: number }) => string} link  of a model of 26 MB that is sent so
 * @property {() => string} real  of SmolLM2-135M-Instruct
 * @property {Uint8Array} formless  a model that doesn't say how a chat is written
 */
/**
 * @typedef {object} State
 * @property {string} name
 * @property {[number, number]} [size]
 * @property {'light' | 'dark'} [theme]
 * @property {{ forcedColors?: 'active', reducedMotion?: 'reduce' }} [media]  only where the browser can pretend it
 * @property {boolean} [main]  one for docs/screenshots, which a test compares
 * @property {boolean} [real]  one for docs/screenshots with a real model, whose words a test would not compare: left out where that model is not
 * @property {(page: Page, kit: Kit) => Promise<unknown>} make  from the page with its model ready
 */

const DESK = /** @type {[number, number]} */ ([1280, 800]);
const PHONE = /** @type {[number, number]} */ ([390, 844]);

/** With each kind of formatted text. */
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

/** @param {Page} page @param {string} selector */
const seen = (page, selector) => page.until((one) => document.querySelector(one)?.checkVisibility(), selector);
/** @param {Page} page @param {string} words */
const status = (page, words) =>
  page.until((text) => document.querySelector('#status')?.textContent?.includes(text), words);
const noMore = async () => {};

/** @param {Page} page */
async function story(page) {
  await setFields(page, { seed: '4' });
  await say(page, 'Hello!');
  await say(page, 'Tell me a story about a dog.');
}

/** @param {Page} page @param {string} url */
async function check(page, url) {
  await page.click('#model-name');
  await seen(page, '#stored li'); // its code comes when it is first asked for
  await page.type('#link', url);
  await press(page, 'Find', '#models');
}

/** @param {Page} page @param {Kit} kit @param {number} bytesPerSecond */
async function download(page, kit, bytesPerSecond) {
  await check(page, kit.link());
  await seen(page, '#plan-start');
  kit.link({ bytesPerSecond });
  await press(page, 'Download', '#plan');
  await status(page, 'You can already send a message');
  await page.until(() => document.querySelector('#arriving-amount')?.textContent?.includes('left')); // a longer line than at first
}

/** A real model answers a real question. @param {Page} page @param {Kit} kit */
async function answer(page, kit) {
  await check(page, kit.real());
  await seen(page, '#plan-start');
  await press(page, 'Download', '#plan');
  await page.until(() => document.querySelector('#model-name')?.textContent?.includes('SmolLM2'));
  await ready(page);
  await setFields(page, { temperature: '0' });
  await say(page, 'What is the capital of France?');
  await say(page, 'What is it famous for?');
}

/** Whatever a browser shows in Details, without a scroll of its own. @param {Page} page @param {string} selector */
async function details(page, selector) {
  await page.evaluate((selector) => {
    const panel = /** @type {HTMLElement} */ (document.querySelector('#details'));
    if (!panel.checkVisibility()) /** @type {HTMLElement} */ (document.querySelector('#details-toggle')).click();
    document.querySelector(selector)?.scrollIntoView({ block: 'start' });
  }, selector);
}

/** @type {State[]} */
export const STATES = [
  { name: 'light-first', size: DESK, main: true, make: noMore },
  { name: 'dark-first', size: DESK, theme: 'dark', make: noMore },
  { name: 'phone-first', size: PHONE, main: true, make: noMore },
  { name: 'answer', size: DESK, real: true, make: answer },
  { name: 'light', size: DESK, main: true, make: story },
  { name: 'dark', size: DESK, theme: 'dark', main: true, make: story },
  { name: 'phone', size: PHONE, main: true, make: story },
  { name: 'formatted', size: DESK, main: true, make: (page) => showConversation(page, FORMATTED) },
  { name: 'dark-formatted', size: DESK, theme: 'dark', make: (page) => showConversation(page, FORMATTED) },
  {
    name: 'branches',
    size: DESK,
    async make(page) {
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
    async make(page) {
      await showConversation(page, FORMATTED);
      await setFields(page, { seed: '4', maxTokens: '16' });
      await press(page, 'New chat', '.bar');
      await say(page, 'Tell me a story');
      // Beside the conversation, as there are chats and there is room.
      await page.until(() => document.querySelectorAll('#chats-dialog .chat-name').length === 2);
    },
  },
  {
    name: 'models',
    size: DESK,
    main: true,
    async make(page) {
      await page.click('#model-name');
      await page.until(() => document.querySelectorAll('#stored li button').length > 5);
    },
  },
  {
    name: 'plan',
    size: DESK,
    main: true,
    async make(page, kit) {
      await check(page, kit.link());
      await seen(page, '#plan-start');
    },
  },
  {
    name: 'plan-phone',
    size: PHONE,
    async make(page, kit) {
      await check(page, kit.link());
      await seen(page, '#plan-start');
    },
  },
  {
    name: 'downloading',
    size: DESK,
    main: true,
    async make(page, kit) {
      await showConversation(page, FORMATTED);
      await download(page, kit, 1e6);
    },
  },
  {
    name: 'reading',
    size: DESK,
    async make(page) {
      await page.evaluate(() => {
        const field = /** @type {HTMLTextAreaElement} */ (document.querySelector('#message'));
        field.value = 'A dog sat in the sun. '.repeat(40);
        // What is read is soon read: the page stops in the middle.
        new MutationObserver(() => {
          const amount = /** @type {HTMLElement} */ (document.querySelector('#amount'));
          if (!amount.textContent?.includes('Reading:')) return;
          const copy = /** @type {HTMLElement} */ (document.body.cloneNode(true));
          document.documentElement.replaceChild(copy, document.body);
          document.documentElement.dataset.held = 'yes';
        }).observe(/** @type {Node} */ (document.querySelector('#amount')), { childList: true });
      });
      await page.click('#send');
      await page.until(() => document.documentElement.dataset.held);
    },
  },
  {
    name: 'full',
    size: DESK,
    async make(page) {
      await page.evaluate(() => {
        const field = /** @type {HTMLTextAreaElement} */ (document.querySelector('#message'));
        field.value = 'A dog sat in the sun. '.repeat(120);
      });
      await page.click('#send');
      await seen(page, '#notices > *');
    },
  },
  { name: 'settings', size: DESK, main: true, make: (page) => page.click('#settings-open') },
  {
    name: 'phone-details',
    size: PHONE,
    main: true,
    async make(page) {
      await story(page);
      await details(page, '#model-title');
    },
  },
  {
    name: 'parts',
    size: DESK,
    async make(page) {
      await details(page, '#parts-title');
      await page.evaluate(() => /** @type {HTMLElement} */ (document.querySelector('#parts summary')).click());
      await story(page);
      await seen(page, '.parts tbody tr');
      await details(page, '#parts-title');
    },
  },
  {
    name: 'error',
    size: DESK,
    main: true,
    async make(page) {
      await showConversation(page, FORMATTED.slice(0, 2));
      await openFile(page, 'notes.bq4', 'not a model '.repeat(30));
      await seen(page, '[role=alert]');
    },
  },
  {
    name: 'crash',
    size: PHONE,
    main: true,
    async make(page, kit) {
      // As a tab leaves it that ended while it loaded.
      await page.evaluate((url) => {
        const mark = { id: 'bq4.loading.x', name: 'large.bq4', url, kind: 'link', level: 0 };
        localStorage.setItem('bq4.loading', JSON.stringify(mark));
      }, kit.link());
      await page.reload();
      await seen(page, '[role=alert]');
    },
  },
  {
    name: 'no-format',
    size: DESK,
    main: true,
    async make(page, kit) {
      await openFile(page, 'formless.bq4', kit.formless);
      await seen(page, '#format');
      await ready(page);
    },
  },
  { name: 'forced', size: DESK, media: { forcedColors: 'active' }, make: (page) => showConversation(page, FORMATTED) },
  {
    name: 'forced-models',
    size: DESK,
    media: { forcedColors: 'active' },
    make: (page) => page.click('#model-name'),
  },
  ...[320, 390, 768, 1280, 2560].flatMap((width) => [
    { name: `width-${width}`, size: /** @type {[number, number]} */ ([width, 844]), make: noMore },
    {
      name: `width-${width}-formatted`,
      size: /** @type {[number, number]} */ ([width, 844]),
      make: (/** @type {Page} */ page) => showConversation(page, FORMATTED),
    },
  ]),
  // A page of 1280 x 800 that is zoomed has so many of its own pixels.
  { name: 'zoom-200', size: [640, 400], make: noMore },
  { name: 'zoom-200-formatted', size: [640, 400], make: (page) => showConversation(page, FORMATTED) },
  { name: 'zoom-400', size: [320, 200], make: noMore },
  { name: 'zoom-400-formatted', size: [320, 200], make: (page) => showConversation(page, FORMATTED) },
  { name: 'phone-across', size: [844, 390], make: (page) => showConversation(page, FORMATTED) },
  { name: 'right-to-left', size: DESK, make: (page) => showConversation(page, ARABIC) },
  { name: 'devanagari', size: PHONE, make: (page) => showConversation(page, HINDI) },
  { name: 'still', size: DESK, media: { reducedMotion: 'reduce' }, make: (page) => showConversation(page, FORMATTED) },
];
