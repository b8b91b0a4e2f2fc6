#!/usr/bin/env node
// Measures how soon the demo can be used in Chromium over a slow connection: a first visit with an empty cache and a second one.
//
//   npm run build && node tools/bench/visits.mjs [--latency 100] [--mbit 10] [--rounds 5] [--sources] [--plain]
//
// --latency: round-trip time in ms; --mbit: rate in megabits per second; --sources: serves every module as a file, as `npm start` does,
// instead of the output of tools/site.mjs; --plain: sends no headers for cross-origin isolation.
//
// The connection delays all bytes and shares its rate between TCP connections, each of which takes a round trip before its first byte.
// It has no slow start and no packet loss. The server compresses with gzip. Times are
// reported from the start of a visit, before the page reloads itself for isolation, until: the text box is visible; the page processes
// its input; "Send" can be pressed; the first word of a reply is visible. The numbers of responses and of sent bytes are also reported.
import { connect, createServer } from 'node:net';
import { parseArgs } from 'node:util';
import { launch } from '../../tests/browser/launch.mjs';
import { waitUntilOffline, newPage, ROOT } from '../../tests/browser/site.mjs';
import { serve } from '../serve.mjs';
import { makeSite, SITE } from '../site.mjs';

/** @typedef {import('node:net').Socket} Socket */
/** Milliseconds. @typedef {{ box: number, input: number, ready: number, word: number }} Times */

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
const medianOf = (/** @type {number[]} */ list) => Math.round(list.sort((a, b) => a - b)[list.length >> 1]);

/** Starts a proxy that simulates a slow connection to a port of this machine. @param {number} port */
async function startSlowProxy(port) {
  /** Time at which the proxy will have sent all bytes that it has received. */
  let freeTime = 0;
  let bytes = 0;
  /** Largest number of bytes that a connection sends without an acknowledgement, like TCP's window. */
  const windowBytes = Math.max(16_384, rate * latency);
  /** Forwards data with a delay. @param {Socket} source @param {Socket} target @param {(length: number) => number} arrivalTime  returns the time at which bytes arrive that are received now */
  const forward = (source, target, arrivalTime) => {
    let lastWork = Promise.resolve();
    let waitingBytes = 0;
    const schedule = (/** @type {number} */ time, /** @type {() => void} */ work) => {
      lastWork = lastWork.then(
        () => new Promise((resolve) => setTimeout(() => resolve(work()), Math.max(0, time - performance.now()))),
      );
    };
    source.on('data', (chunk) => {
      waitingBytes += chunk.length;
      if (waitingBytes > windowBytes) source.pause();
      schedule(arrivalTime(chunk.length), () => {
        waitingBytes -= chunk.length;
        if (waitingBytes <= windowBytes) source.resume();
        if (target.writable) target.write(chunk);
      });
    });
    source.on('end', () => schedule(0, () => target.end()));
    source.on('error', () => target.destroy());
  };
  const server = createServer((clientSocket) => {
    const openTime = performance.now() + latency;
    const serverSocket = connect(port, '127.0.0.1');
    forward(clientSocket, serverSocket, () => Math.max(openTime, performance.now()) + latency / 2);
    forward(serverSocket, clientSocket, (length) => {
      bytes += length;
      freeTime = Math.max(freeTime, performance.now()) + length / rate;
      return freeTime + latency / 2;
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
function recordTimes() {
  if (!location.protocol.startsWith('http')) return;
  /** @type {{ began: number, times: Record<string, number> }} */
  const { began: visitStart, times } = JSON.parse(sessionStorage.getItem('visit') ?? '{"times":{}}');
  const start = visitStart ?? performance.timeOrigin;
  let hasSent = false;
  Object.assign(globalThis, { times });
  sessionStorage.removeItem('visit');
  addEventListener('pagehide', () => {
    if (!hasSent) sessionStorage.setItem('visit', JSON.stringify({ began: start, times }));
  });
  const conditions = {
    box: () => document.styleSheets.length > 0 && document.querySelector('#message')?.checkVisibility(),
    // The page focuses the text box after it has added its listeners.
    input: () => document.activeElement?.id === 'message',
    ready: () => document.querySelector('#send:not(:disabled)'),
    // Replies of the previous visit may also be in the page.
    word: () => hasSent && document.querySelector('.assistant:last-child .text')?.textContent,
  };
  const checkConditions = () => {
    for (const [name, holds] of Object.entries(conditions))
      if (!(name in times) && holds()) times[name] = performance.timeOrigin + performance.now() - start;
    if ('ready' in times && !hasSent) {
      hasSent = true;
      /** @type {HTMLTextAreaElement} */ (document.querySelector('#message')).value = 'Hello!';
      /** @type {HTMLElement} */ (document.querySelector('#send')).click();
    }
    if (!('word' in times)) setTimeout(checkConditions, 4);
  };
  checkConditions();
}

if (!values.sources) await makeSite();
const site = await serve({ root: values.sources ? ROOT : SITE, compress: true, plain: values.plain });
const proxy = await startSlowProxy(site.port);
const browser = await launch({ full: true });

/** Measures a visit. @param {import('../../tests/browser/site.mjs').Page} page */
async function visit(page) {
  let responses = 0;
  const countResponse = () => responses++;
  const bytesBefore = proxy.bytes();
  page.context().on('response', countResponse);
  await page.goto(proxy.url, { waitUntil: 'commit' });
  await page.waitForFunction(() => 'word' in /** @type {any} */ (globalThis).times, null, { timeout: 120_000 });
  page.context().off('response', countResponse);
  /** @type {Times} */
  const times = await page.evaluate(() => /** @type {any} */ (globalThis).times);
  return { ...times, responses, bytes: proxy.bytes() - bytesBefore };
}

/** @type {Record<string, Awaited<ReturnType<typeof visit>>[]>} */
const visits = { first: [], second: [] };
for (let round = 0; round < Number(values.rounds); round++) {
  const page = await newPage(browser);
  await page.addInitScript(recordTimes);
  visits.first.push(await visit(page));
  await waitUntilOffline(page);
  await page.goto('about:blank');
  visits.second.push(await visit(page));
  await page.context().close();
}
console.log(
  `Chromium ${browser.version()}, ${values.sources ? 'sources' : 'build/site'}, latency ${latency} ms, ${values.mbit} Mbit/s, medians of ${values.rounds}:`,
);
for (const [name, results] of Object.entries(visits)) {
  const format = (/** @type {keyof typeof results[0]} */ key) => medianOf(results.map((result) => result[key]));
  console.log(
    `${name} visit: text box ${format('box')} ms, input ${format('input')} ms, ready ${format('ready')} ms, first word ${format('word')} ms; ` +
      `${format('responses')} responses, ${format('bytes').toLocaleString('en')} bytes until the first word`,
  );
}
await browser.close();
proxy.close();
await site.close();
