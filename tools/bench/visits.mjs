#!/usr/bin/env node
// Measures how soon the demo can be used in Chromium over a slow connection: a first visit with an empty cache and a second one.
//
//   npm run build && node tools/bench/visits.mjs [--latency 100] [--mbit 10] [--rounds 5] [--sources] [--plain]
//
// --latency: round-trip time in ms; --mbit: rate in megabits per second; --sources: serves every module as a file, as `npm start` does,
// instead of the output of tools/site.mjs; --plain: sends no headers for cross-origin isolation.
//
// The connection delays all bytes and shares its rate between TCP connections, each of which takes a round trip before its first byte.
// It has no slow start and no packet loss. The server compresses with gzip. Times are reported for each visit from its beginning, before
// the page reloads itself for isolation, until: the text box exists; its input has an effect; "Send" can be pressed; the first word of
// a reply to a message entered before. The number of responses and of sent bytes are also reported.
import { connect, createServer } from 'node:net';
import { parseArgs } from 'node:util';
import { launch } from '../../tests/browser/launch.mjs';
import { waitUntilOffline, newPage, ROOT } from '../../tests/browser/site.mjs';
import { serve } from '../serve.mjs';
import { makeSite, SITE } from '../site.mjs';

/** @typedef {import('node:net').Socket} Socket */
/** Milliseconds. @typedef {{ box: number, hears: number, ready: number, word: number }} Times */

const { values } = parseArgs({
  options: {
    latency: { type: 'string', default: '100' },
    mbit: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '5' },
    sources: { type: 'boolean', default: false },
    plain: { type: 'boolean', default: false },
  },
});
const [latency, rate] = [Number(values.latency), (Number(values.mbit) * 1e6) / 8 / 1000];
const middle = (/** @type {number[]} */ list) => Math.round(list.sort((a, b) => a - b)[list.length >> 1]);

/** Starts a proxy that simulates a slow connection to a port of this machine. @param {number} port */
async function line(port) {
  /** When it has sent all that it has. */
  let free = 0;
  let bytes = 0;
  /** As much as one connection may have under way, as TCP's window holds it. */
  const window = Math.max(16_384, rate * latency);
  /** @param {Socket} from @param {Socket} to @param {(length: number) => number} due  when the last of it arrives */
  const carry = (from, to, due) => {
    let last = Promise.resolve();
    let waiting = 0;
    const then = (/** @type {number} */ at, /** @type {() => void} */ work) => {
      last = last.then(
        () => new Promise((resolve) => setTimeout(() => resolve(work()), Math.max(0, at - performance.now()))),
      );
    };
    from.on('data', (chunk) => {
      waiting += chunk.length;
      if (waiting > window) from.pause();
      then(due(chunk.length), () => {
        waiting -= chunk.length;
        if (waiting <= window) from.resume();
        if (to.writable) to.write(chunk);
      });
    });
    from.on('end', () => then(0, () => to.end()));
    from.on('error', () => to.destroy());
  };
  const server = createServer((near) => {
    const open = performance.now() + latency;
    const far = connect(port, '127.0.0.1');
    carry(near, far, () => Math.max(open, performance.now()) + latency / 2);
    carry(far, near, (length) => {
      bytes += length;
      free = Math.max(free, performance.now()) + length / rate;
      return free + latency / 2;
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  return {
    url: `http://localhost:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}/demo/`,
    bytes: () => bytes,
    close: () => server.close(),
  };
}

/** Runs in the page before its scripts: records the time at which each condition becomes true. */
function watch() {
  if (!location.protocol.startsWith('http')) return;
  /** @type {{ began: number, times: Record<string, number> }} */
  const { began, times } = JSON.parse(sessionStorage.getItem('visit') ?? '{"times":{}}');
  const start = began ?? performance.timeOrigin;
  let message = false;
  Object.assign(globalThis, { times });
  sessionStorage.removeItem('visit');
  addEventListener('pagehide', () => {
    if (!message) sessionStorage.setItem('visit', JSON.stringify({ began: start, times }));
  });
  const is = {
    box: () => document.styleSheets.length > 0 && document.querySelector('#message')?.checkVisibility(),
    // The page focuses the text box after it has added its listeners.
    hears: () => document.activeElement?.id === 'message',
    ready: () => document.querySelector('#send:not(:disabled)'),
    // Replies of the previous visit may also be in the page.
    word: () => message && document.querySelector('.assistant:last-child .text')?.textContent,
  };
  const look = () => {
    for (const [name, so] of Object.entries(is))
      if (!(name in times) && so()) times[name] = performance.timeOrigin + performance.now() - start;
    if ('ready' in times && !message) {
      message = true;
      /** @type {HTMLTextAreaElement} */ (document.querySelector('#message')).value = 'Hello!';
      /** @type {HTMLElement} */ (document.querySelector('#send')).click();
    }
    if (!('word' in times)) setTimeout(look, 4);
  };
  look();
}

if (!values.sources) await makeSite();
const site = await serve({ root: values.sources ? ROOT : SITE, compress: true, plain: values.plain });
const slow = await line(site.port);
const browser = await launch({ full: true });

/** @param {import('../../tests/browser/site.mjs').Page} page */
async function visit(page) {
  let responses = 0;
  const count = () => responses++;
  const before = slow.bytes();
  page.context().on('response', count);
  await page.goto(slow.url, { waitUntil: 'commit' });
  await page.waitForFunction(() => 'word' in /** @type {any} */ (globalThis).times, null, { timeout: 120_000 });
  page.context().off('response', count);
  /** @type {Times} */
  const times = await page.evaluate(() => /** @type {any} */ (globalThis).times);
  return { ...times, responses, bytes: slow.bytes() - before };
}

/** @type {Record<string, Awaited<ReturnType<typeof visit>>[]>} */
const visits = { first: [], second: [] };
for (let round = 0; round < Number(values.rounds); round++) {
  const page = await newPage(browser);
  await page.addInitScript(watch);
  visits.first.push(await visit(page));
  await waitUntilOffline(page);
  await page.goto('about:blank');
  visits.second.push(await visit(page));
  await page.context().close();
}
console.log(
  `Chromium ${browser.version()}, ${values.sources ? 'sources' : 'build/site'}, latency ${latency} ms, ${values.mbit} Mbit/s, medians of ${values.rounds}:`,
);
for (const [name, all] of Object.entries(visits)) {
  const of = (/** @type {keyof typeof all[0]} */ key) => middle(all.map((one) => one[key]));
  console.log(
    `${name} visit: text box ${of('box')} ms, hears ${of('hears')} ms, ready ${of('ready')} ms, first word ${of('word')} ms; ` +
      `${of('responses')} responses, ${of('bytes').toLocaleString('en')} bytes until then`,
  );
}
await browser.close();
slow.close();
await site.close();
