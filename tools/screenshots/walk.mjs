// Walks a browser through states of the demo, and looks at each: a picture, where its parts lie, what differs from
// machine to machine.
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
 * @property {Record<string, Box>} layout  the parts that are seen
 * @property {Box[]} masks  what tells of time, of this machine or of today
 * @property {Record<string, number>} fonts  how wide some texts are
 */

const PARTS = `.bar, .bar > *, main, .lead, .chips, .log, .message .text, .dock, .composer, #send, #details, dialog[open],
  dialog[open] .filled, .card, [role=alert], #notices > *`;
const CHANGING = `[data-stat=speed], [data-stat=ttft], [data-stat=memory], [data-stat=build], [data-stat=reason],
  [data-stat=threads], [data-stat=threads-reason], [data-stat=offline], .message .note, #status, #amount, #stored-note,
  #stored small, #plan-facts, #context-size, .parts, .parts-bar, #chats-dialog small, progress, #link,
  #offer-cards .hint + .hint, #arriving-amount`;

/** Nothing moves, nothing blinks, and fonts are there. @param {Page} page */
const still = (page) =>
  page.evaluate(async () => {
    // A sheet that a script makes is none that the page's policy has to allow.
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

/** @param {Page} page @returns {Promise<Omit<Look, 'picture'>>} */
const measure = (page) =>
  page.evaluate(
    ([parts, changing]) => {
      /** @param {Element} one @returns {[number, number, number, number]} */
      const box = (one) => {
        const { x, y, width, height } = one.getBoundingClientRect();
        return [Math.round(x), Math.round(y), Math.round(width), Math.round(height)];
      };
      const shown = (/** @type {string} */ selector) =>
        [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility() && box(one)[2] > 1);
      /** @type {Record<string, [number, number, number, number]>} */
      const layout = {};
      for (const one of shown(parts)) {
        const name = one.id ? `#${one.id}` : `${one.localName}.${[...one.classList].join('.')}`;
        let key = name;
        for (let i = 2; key in layout; i++) key = `${name} ${i}`;
        layout[key] = box(one);
      }
      const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement('canvas').getContext('2d'));
      const family = getComputedStyle(document.body).fontFamily;
      const fonts = Object.fromEntries(
        [`100px ${family}`, `bold 100px ${family}`, '100px ui-monospace, monospace'].map((font) => {
          pen.font = font;
          return [font, Math.round(pen.measureText('The quick brown fox, 0123456789 „Ägäis“').width)];
        }),
      );
      const masks = shown(changing).map(box);
      // Machines differ in how many lines they take to say what the engine is, and so in where the rest of the panel is.
      const [engine] = shown('#details section:has(#engine-title)').map(box);
      if (engine && engine[1] + engine[3] > 60) masks.push([engine[0], engine[1], engine[2], innerHeight - engine[1]]);
      return { layout, masks, fonts };
    },
    [PARTS, CHANGING],
  );

/** Where it was fetched (`npm run models`). */
const REAL = realModel('smollm2');

/** What the states share: a site, a server of models, files. */
async function provide() {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-walk-'));
  const [large, small] = [join(folder, 'large.bq4'), join(folder, 'small.bq4')];
  await makeLarge(large, { context: 256 });
  await makeRandom(SHAPES['tiny-llama'], await fileSink(small), { quant: 'bq4' });
  const [site, models] = await Promise.all([
    serve({ root: ROOT }),
    faultServer({ '/large.bq4': large, ...(REAL && { [`/${basename(REAL)}`]: REAL }) }),
  ]);
  return {
    url: `${site.url}demo/`,
    kit: {
      formless: readFileSync(small),
      real: () => models.at(`/${basename(String(REAL))}`),
      /** @type {import('./states.mjs').Kit['link']} */
      link: (fault) => {
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
 * @param {import('../../tests/browser/browsers.mjs').Name} name
 * @param {State[]} states  those that the browser can't pretend are left out
 * @param {(state: State, look: Look) => unknown} onLook
 * @returns {Promise<string>}  the browser's version
 */
export async function walk(name, states, onLook) {
  const browser = await start(name);
  const { url, kit, close } = await provide();
  try {
    for (const state of states) {
      if (state.real && !REAL) continue;
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
          // How fast the offers are here is written a moment later, where it can be told.
          const reportOf = () => document.querySelector('#offer-cards')?.textContent?.includes(' here');
          for (let tries = 0; tries < 60 && !reportOf(); tries++)
            await new Promise((resolve) => setTimeout(resolve, 50));
        });
        await state.make(page, kit);
        await still(page);
        await onLook(state, { picture: await page.picture(), ...(await measure(page)) });
      } catch (error) {
        throw new Error(`${name}, state "${state.name}": ${/** @type {Error} */ (error).message}`, { cause: error });
      } finally {
        kit.link();
        await page.close();
      }
    }
  } finally {
    await browser.close();
    await close();
  }
  return browser.version;
}
