#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/smollm2.mjs [rounds] [--write]`: measures SmolLM2-135M-Instruct's GGUF file in bq4, in two versions
// of wllama and in native llama.cpp. transformers.js runs an int8 ONNX file of the same shape with random weights, since no registry has
// one of this model. All have one thread and are measured in alternation; in Chromium each measurement has a new page. Prints load time,
// rates of prefill and decode, peak of memory, and the time from opening a runtime in a page with the file in its cache to the first token
// of a reply. `--write` writes docs/benchmarks/real-model.md, which docs/log/benchmarks.md includes, and the tables of medians in
// README.md and docs/benchmarks.md.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { launch } from '../../tests/browser/launch.mjs';
import { PUBLIC, serve } from '../serve.mjs';
import { modelsFolder, provideModels, REAL_MODELS } from '../setup/models.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { benchPython, provideNative, providePeers } from './install.mjs';
import { dotInstruction, machine } from './machine.mjs';
import { withTable } from './main.mjs';
import { bytesBelow, watched } from './memory.mjs';
import { modelUrl, provideModel } from './models.mjs';
import { median, shown, summary } from './stats.mjs';

/** A page's runtime takes this as `runtime`; `native` is no page. @typedef {{ who: string, name: string, version?: string }} Peer */
/** @typedef {Record<'loadMs' | 'prefill' | 'decode' | 'firstMs' | 'memory', number>} Figures  ms, tokens per second, bytes; NaN: there is none */

const execute = promisify(execFile);
const [PROMPT, TOKENS, FIRST] = [128, 32, 5];
/** Model used in place of this one for a runtime without a file of it. */
const SAME_SHAPE = /** @type {any} */ ({ runtime: 'tjs', shape: '135m', precision: 'q8' });
/** @type {readonly Peer[]} */
const PEERS = [
  { who: 'bq4', name: '**bq4**' },
  { who: 'native', name: 'native llama.cpp' },
  { who: 'wllama', version: '3.13.0', name: 'wllama 3.13.0' },
  { who: 'wllama', version: '2.3.1', name: 'wllama 2.3.1' },
  { who: 'tjs', name: 'transformers.js 4.3.1, int8, random weights' },
];
/** @type {[keyof Figures, string, number][]} */
const COLUMNS = [
  ['loadMs', 'load, ms', 1],
  ['firstMs', 'warm cache to first token, ms', 1],
  ['prefill', 'prefill, tokens/s', 1],
  ['decode', 'decode, tokens/s', 1],
  ['memory', 'memory, MB', 1e-6],
];

const rounds = Number(process.argv.slice(2).find((word) => /^\d+$/.test(word)) ?? 5);

await command(async () => {
  const tools = await setUp({ tests: true });
  await providePeers();
  const python = await benchPython(tools);
  await provideModels(python);
  await provideModel(SAME_SHAPE, python);
  const native = await provideNative(tools);
  // Peers start workers from blob: URLs, which the policy of bq4's server forbids.
  const pages = await serve({
    root: ROOT,
    folders: [...PUBLIC, 'tools/bench/pages', 'build/bench'],
    policy: false,
    models: modelsFolder(),
  });
  const { file } = REAL_MODELS.smollm2;
  const browser = await launch({ full: true });
  const context = await browser.newContext();

  /** @param {Peer} peer @param {boolean} warm @param {number} seed  the same text comes once @returns {Promise<Partial<Figures>>} */
  const visit = async ({ who, version }, warm, seed) => {
    const page = await context.newPage();
    try {
      await page.goto(`${pages.url}tools/bench/pages/page.html`);
      await page.waitForFunction('globalThis.benchReady');
      const model = who === 'tjs' ? modelUrl(SAME_SHAPE) : `/local/smollm2/${file}`;
      const options = { runtime: 'smollm2', who, version, model, warm, seed, prompt: PROMPT, tokens: TOKENS };
      const { value, peak } = await watched(bytesBelow(), async () => {
        await page.evaluate(`prepare(${JSON.stringify(options)})`);
        return page.evaluate('run([])');
      });
      return { ...value, ...(!warm && { memory: peak }) };
    } finally {
      await page.close();
    }
  };
  /** @returns {Promise<Figures>} */
  const visitNative = async () => {
    const cells = [`${PROMPT}:${TOKENS}`, `${FIRST}:1`];
    const { stdout } = await execute(
      native.program,
      [join(modelsFolder(), 'smollm2', file), native.best, '1', '1024', 'f16', ...cells],
      { maxBuffer: 1 << 24 },
    );
    const { cells: done, facts } = JSON.parse(stdout);
    return {
      loadMs: facts.loadMs,
      firstMs: facts.loadMs + done[1].prefillMs,
      prefill: (PROMPT / done[0].prefillMs) * 1e3,
      decode: (TOKENS / done[0].decodeMs) * 1e3,
      memory: facts.memory,
    };
  };

  /** @type {Map<Peer, Figures[]>} */
  const all = new Map(PEERS.map((peer) => [peer, []]));
  try {
    const kept = PEERS.filter(({ who }) => who === 'bq4' || who === 'wllama');
    for (const peer of kept) await visit(peer, true, 0); // fills the caches
    for (let round = 0; round < rounds; round++)
      for (const peer of PEERS) {
        const figures =
          peer.who === 'native'
            ? await visitNative()
            : {
                firstMs: NaN,
                ...(await visit(peer, false, 3 + 2 * round)),
                ...(kept.includes(peer) && (await visit(peer, true, 0))),
              };
        all.get(peer)?.push(/** @type {Figures} */ (figures));
      }
  } finally {
    await browser.close();
    await pages.close();
  }
  const ours = /** @type {Figures[]} */ (all.get(PEERS[0]));
  const rows = PEERS.map((peer) => {
    const theirs = /** @type {Figures[]} */ (all.get(peer));
    const cells = COLUMNS.map(([what, , scale]) => {
      const values = theirs.map((figures) => scale * figures[what]);
      const ratio = median(ours.map((figures, i) => figures[what] / theirs[i][what]));
      const beside = peer === PEERS[0] || !Number.isFinite(ratio) ? '' : `; ${ratio.toFixed(2)}`;
      return shown(summary(values)) + beside;
    });
    return `| ${peer.name} | ${cells.join(' | ')} |`;
  });
  const here = machine();
  const text = `## A real model

SmolLM2-135M-Instruct from its GGUF file (Q4_1, 98 MB): a prompt of about ${PROMPT} tokens and ${TOKENS} behind it, one thread each, ${rounds} rounds in turns: median (least–most);
bq4's figure over this one, median of the rounds. ${here.cpu}, the relaxed dot is ${dotInstruction(here)}; Chromium ${browser.version()}, Node ${here.node}.
\`node_modules/.bin/node tools/bench/smollm2.mjs ${rounds} --write\`. Activations have 8 bits in all of them. *Load* is with the file served by this machine and no cache, *memory* what
all processes of the browser took more than before (native: what the process held, its mapped file included). Native llama.cpp finds its file in the system's cache.
transformers.js computes an int8 ONNX of the same shape with random weights: no registry has one of this model. Energy can't be read on this machine.

| runtime | ${COLUMNS.map(([, title]) => title).join(' | ')} |
|---|${COLUMNS.map(() => '---|').join('')}
${rows.join('\n')}
`;
  console.log(text);
  if (!process.argv.includes('--write')) return;
  writeFileSync(join(ROOT, 'docs/benchmarks/real-model.md'), text);
  const medians = PEERS.map((peer) => {
    const cells = COLUMNS.map(([what, , scale]) => {
      const middle = median((all.get(peer) ?? []).map((figures) => scale * figures[what]));
      return Number.isFinite(middle) ? Number(middle.toPrecision(3)).toLocaleString('en-US') : '–';
    });
    return `| ${peer.name} | ${cells.join(' | ')} |`;
  });
  const table = `| one thread | ${COLUMNS.map(([, title]) => title).join(' | ')} |
|---|${COLUMNS.map(() => '---|').join('')}
${medians.join('\n')}

${here.cpu}; ${rounds} rounds in turns, Chromium ${browser.version().split('.')[0]}.`;
  for (const name of ['README.md', 'docs/benchmarks.md']) {
    const path = join(ROOT, name);
    writeFileSync(path, withTable(readFileSync(path, 'utf8'), table, 'real model'));
  }
});
