#!/usr/bin/env node
// How soon the demo can be used: a first visit, and a second one, from a host whose every answer takes a while.
//
//   node tools/bench/visits.mjs [--latency 100] [--rounds 5]     milliseconds before each answer
import { createServer, request as ask } from 'node:http';
import { parseArgs } from 'node:util';
import { launch } from '../../tests/browser/launch.mjs';
import { kept, newPage, openDemo, ROOT, ui } from '../../tests/browser/site.mjs';
import { serve } from '../serve.mjs';

const { values } = parseArgs({
  options: { latency: { type: 'string', default: '100' }, rounds: { type: 'string', default: '5' } },
});
const latency = Number(values.latency);
const middle = (/** @type {number[]} */ list) => list.sort((a, b) => a - b)[list.length >> 1];

/** Answers as another server does, later. @param {number} port */
async function late(port) {
  const server = createServer((request, response) => {
    setTimeout(() => {
      const { url, method, headers } = request;
      ask({ port, path: url, method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      }).end();
    }, latency);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  return {
    url: `http://localhost:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}/demo/`,
    close: () => server.close(),
  };
}

const site = await serve({ root: ROOT });
const host = await late(site.port);
const browser = await launch();
/** Milliseconds until the message can be sent. @param {import('../../tests/browser/site.mjs').Page} page @param {() => Promise<unknown>} visit */
async function timed(page, visit) {
  const since = performance.now();
  await visit();
  await ui(page).send.waitFor();
  await page.waitForFunction(() => !(/** @type {HTMLButtonElement} */ (document.querySelector('#send')).disabled));
  return performance.now() - since;
}
const [first, second] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
for (let round = 0; round < Number(values.rounds); round++) {
  const page = await newPage(browser);
  first.push(await timed(page, () => openDemo(page, host.url)));
  await kept(page);
  await page.goto('about:blank');
  second.push(await timed(page, () => page.goto(host.url, { waitUntil: 'commit' })));
  await page.context().close();
}
console.log(
  `latency ${latency} ms, median of ${values.rounds}: first visit ${Math.round(middle(first))} ms, second visit ${Math.round(middle(second))} ms until a message can be sent`,
);
await browser.close();
host.close();
await site.close();
