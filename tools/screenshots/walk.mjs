// Brings the demo into each of its states in a browser and measures its look: a picture, the positions of parts, and the parts that
// differ between machines.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileSink } from '../../js/format/output.js';
import { start } from '../../tests/browser/browsers.mjs';
import { makeLarge } from '../../tests/browser/large-model.mjs';
import { ready } from '../../tests/browser/person.mjs';
import { faultServer } from '../../tests/server/faults.mjs';
import { makeRandom, SHAPES } from '../make_random.mjs';
import { serve } from '../serve.mjs';
import { realModel } from '../setup/models.mjs';
import { ROOT } from '../setup/setup.mjs';

/** @typedef {import('../../tests/browser/browsers.mjs').Page} Page */
/** @typedef {import('./states.mjs').State} State */
/** Left, top, width, height in pixels. @typedef {[number, number, number, number]} Box */
/**
 * @typedef {object} Look
 * @property {Uint8Array} picture  PNG
 * @property {Record<string, Box>} layout  visible parts
 * @property {Box[]} masks  parts whose text depends on time, date or machine
 * @property {Record<string, number>} fonts  width of a text in some fonts, in pixels
 */

const PART_SELECTOR = `.bar, .bar > *, main, .lead, .chips, .log, .message .text, .dock, .composer, #send, #details, dialog[open],
  dialog[open] .filled, .card, [role=alert], #notices > *`;
const MASK_SELECTOR = `[data-stat=speed], [data-stat=ttft], [data-stat=memory], [data-stat=build], [data-stat=reason],
  [data-stat=threads], [data-stat=threads-reason], [data-stat=offline], .message .note, #status, #amount, #stored-note,
  #stored small, #plan-facts, #context-size, .parts, .parts-bar, #chats-dialog small, progress, #link,
  #offer-cards .hint + .hint, #arriving-amount`;

/** Stops animations and the caret, and waits for fonts and two frames. @param {Page} page */
const stopMotion = (page) =>
  page.evaluate(async () => {
    // The page's policy forbids inline styles, but does not apply to constructed style sheets.
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(
      '*, ::before, ::after { animation: none !important; transition: none !important; caret-color: transparent !important }',
    );
    document.adoptedStyleSheets = [sheet];
    await document.fonts.ready;
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    await frame();
    await frame();
  });

/** Measures the look of a page without its picture. @param {Page} page @returns {Promise<Omit<Look, 'picture'>>} */
const measureLook = (page) =>
  page.evaluate(
    ([partSelector, maskSelector]) => {
      /** @param {Element} element @returns {[number, number, number, number]} */
      const boxOf = (element) => {
        const { x, y, width, height } = element.getBoundingClientRect();
        return [Math.round(x), Math.round(y), Math.round(width), Math.round(height)];
      };
      const visibleElements = (/** @type {string} */ selector) =>
        [...document.querySelectorAll(selector)].filter(
          (element) => element.checkVisibility() && boxOf(element)[2] > 1,
        );
      /** @type {Record<string, [number, number, number, number]>} */
      const layout = {};
      for (const element of visibleElements(partSelector)) {
        const name = element.id ? `#${element.id}` : `${element.localName}.${[...element.classList].join('.')}`;
        let key = name;
        for (let i = 2; key in layout; i++) key = `${name} ${i}`;
        layout[key] = boxOf(element);
      }
      const context = /** @type {CanvasRenderingContext2D} */ (document.createElement('canvas').getContext('2d'));
      const family = getComputedStyle(document.body).fontFamily;
      const fonts = Object.fromEntries(
        [`100px ${family}`, `bold 100px ${family}`, '100px ui-monospace, monospace'].map((font) => {
          context.font = font;
          return [font, Math.round(context.measureText('The quick brown fox, 0123456789 „Ägäis“').width)];
        }),
      );
      const masks = visibleElements(maskSelector).map(boxOf);
      // The description of the engine has more lines on some machines, which moves the rest of the panel.
      const [engine] = visibleElements('#details section:has(#engine-title)').map(boxOf);
      if (engine && engine[1] + engine[3] > 60) masks.push([engine[0], engine[1], engine[2], innerHeight - engine[1]]);
      return { layout, masks, fonts };
    },
    [PART_SELECTOR, MASK_SELECTOR],
  );

/** Path of the model that `npm run models` downloads, or undefined. */
const REAL_MODEL = realModel('smollm2');

/** Starts servers for the site and for models. `close` stops them and deletes their files. */
async function startServers() {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-walk-'));
  const [large, small] = [join(folder, 'large.bq4'), join(folder, 'small.bq4')];
  await makeLarge(large, { context: 256 });
  await makeRandom(SHAPES['tiny-llama'], await fileSink(small), { quant: 'bq4' });
  const [site, models] = await Promise.all([
    serve({ root: ROOT }),
    faultServer({ '/large.bq4': large, ...(REAL_MODEL && { [`/${basename(REAL_MODEL)}`]: REAL_MODEL }) }),
  ]);
  return {
    url: `${site.url}demo/`,
    kit: {
      modelWithoutFormat: readFileSync(small),
      linkToRealModel: () => models.at(`/${basename(String(REAL_MODEL))}`),
      /** @type {import('./states.mjs').Kit['linkToModel']} */
      linkToModel: (fault) => {
        models.faults = fault ? [fault] : [];
        return models.at('/large.bq4');
      },
    },
    async close() {
      models.faults = [];
      await Promise.all([site.close(), models.close()]);
      rmSync(folder, { recursive: true });
    },
  };
}

/**
 * Measures the look of each state.
 * @param {import('../../tests/browser/browsers.mjs').Name} name  of the browser
 * @param {State[]} states  states that the browser cannot emulate are omitted
 * @param {(state: State, look: Look) => unknown} onLook
 * @returns {Promise<string>}  the browser's version
 */
export async function visitStates(name, states, onLook) {
  const browser = await start(name);
  const { url, kit, close } = await startServers();
  try {
    for (const state of states) {
      if (state.real && !REAL_MODEL) continue;
      const page = await browser.open();
      try {
        if (state.media && !page.media) continue;
        await page.media?.({ reducedMotion: 'reduce', ...state.media });
        await page.size(...(state.size ?? [1280, 800]));
        await page.goto(url);
        await ready(page);
        if (state.theme) {
          await page.evaluate((theme) => localStorage.setItem('bq4.theme', theme), state.theme);
          await page.reload();
          await ready(page);
        }
        await page.until(() => document.querySelector('[data-stat=offline]')?.textContent !== '');
        await page.evaluate(async () => {
          // The speed of each offer on this machine is measured after the page is ready, if the browser permits it.
          const hasSpeed = () => document.querySelector('#offer-cards')?.textContent?.includes(' here');
          for (let tries = 0; tries < 60 && !hasSpeed(); tries++)
            await new Promise((resolve) => setTimeout(resolve, 50));
        });
        await state.prepare(page, kit);
        await stopMotion(page);
        await onLook(state, { picture: await page.picture(), ...(await measureLook(page)) });
      } catch (error) {
        throw new Error(`${name}, state "${state.name}": ${/** @type {Error} */ (error).message}`, { cause: error });
      } finally {
        kit.linkToModel();
        await page.close();
      }
    }
  } finally {
    await browser.close();
    await close();
  }
  return browser.version;
}
