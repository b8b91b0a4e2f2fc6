#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/smollm2.mjs [rounds] [--write]`: measures SmolLM2-135M-Instruct's GGUF file in bq4, in two versions
// of wllama and in native llama.cpp. LiteRT-LM runs the same weights, converted to its format; for the conversion, the first run installs
// Python packages of some GB and takes minutes. transformers.js runs an int8 ONNX file of the same shape with random weights, since no
// registry has such a file of this model. All runtimes have one thread and are measured in alternation; in Chromium each measurement has
// a new page. Prints load time, rates of prefill and decode, peak of memory, and the time from opening a runtime in a page with the file
// in its cache to the first token of a reply. `--write` writes docs/benchmarks/real-model.md, which docs/log/benchmarks.md includes, and
// the tables of medians in README.md and docs/benchmarks.md.
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { launch } from '../../tests/browser/launch.mjs';
import { PUBLIC, serve } from '../serve.mjs';
import { modelsFolder, provideModels, REAL_MODELS } from '../setup/models.mjs';
import { providePython } from '../setup/python.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { run, step } from '../setup/shell.mjs';
import { benchPython, provideNative, providePeers } from './install.mjs';
import { dotInstruction, readMachine } from './machine.mjs';
import { replaceTable } from './main.mjs';
import { childProcessBytes, measurePeak } from './memory.mjs';
import { modelUrl, provideModel } from './models.mjs';
import { median, formatSummary, summary } from './stats.mjs';

/** A runtime, with its title in the table. All except `native` run in a page. @typedef {{ runtime: string, title: string, version?: string }} Peer */
/** Milliseconds, tokens per second and bytes; NaN: not measured. @typedef {Record<'loadMs' | 'prefill' | 'decode' | 'firstMs' | 'memory', number>} Figures */

const execute = promisify(execFile);
const [PROMPT_TOKENS, DECODED_TOKENS, FIRST_PROMPT_TOKENS] = [128, 32, 5];
/** Model for transformers.js, which has no file of the real model. */
const SUBSTITUTE = /** @type {any} */ ({ runtime: 'tjs', shape: '135m', precision: 'q8' });
/** Model for LiteRT-LM, which cannot read GGUF files. */
const LITERT_FILE = 'build/bench/models/smollm2.litertlm';
/** @type {readonly Peer[]} */
const PEERS = [
  { runtime: 'bq4', title: '**bq4**' },
  { runtime: 'native', title: 'native llama.cpp' },
  { runtime: 'wllama', version: '3.13.0', title: 'wllama 3.13.0' },
  { runtime: 'wllama', version: '2.3.1', title: 'wllama 2.3.1' },
  { runtime: 'litert', title: 'LiteRT-LM 0.17.1, int8' },
  { runtime: 'tjs', title: 'transformers.js 4.3.1, int8, random weights' },
];
/** Columns of the table: figure, title, factor. @type {[keyof Figures, string, number][]} */
const COLUMNS = [
  ['loadMs', 'load, ms', 1],
  ['firstMs', 'warm cache to first token, ms', 1],
  ['prefill', 'prefill, tokens/s', 1],
  ['decode', 'decode, tokens/s', 1],
  ['memory', 'memory, MB', 1e-6],
];

const rounds = Number(process.argv.slice(2).find((arg) => /^\d+$/.test(arg)) ?? 5);

/** Converts SmolLM2's GGUF file to LiteRT-LM's format if that was not done before. @param {string} systemPython */
async function provideLiteRtModel(systemPython) {
  const path = join(ROOT, LITERT_FILE);
  if (existsSync(path)) return;
  const python = await providePython(ROOT, systemPython, 'tools/bench/requirements-litert.txt');
  const { file } = REAL_MODELS.smollm2;
  mkdirSync(dirname(path), { recursive: true });
  await step(`converting ${file} to LiteRT-LM's format (once; it takes minutes)`, () =>
    run(python, [join(ROOT, 'tools/bench/make_litert.py'), join(modelsFolder(), 'smollm2', file), path]),
  );
}

await command(async () => {
  const tools = await setUp({ tests: true });
  await providePeers();
  const python = await benchPython(tools);
  await provideModels(python);
  await provideModel(SUBSTITUTE, python);
  await provideLiteRtModel(tools.python);
  const native = await provideNative(tools);
  // Peers start workers from blob: URLs, which the policy of bq4's server forbids.
  const pages = await serve({
    root: ROOT,
    folders: [...PUBLIC, 'tools/bench/pages', 'build/bench'],
    policy: false,
    models: modelsFolder(),
  });
  const { file } = REAL_MODELS.smollm2;
  /** Addresses of the models that are not the GGUF file, by runtime. @type {Record<string, string>} */
  const otherModels = { litert: `/${LITERT_FILE}`, tjs: modelUrl(SUBSTITUTE) };
  const browser = await launch({ full: true });
  const context = await browser.newContext();

  /** Measures a runtime in a new page. @param {Peer} peer @param {boolean} warm  whether the file is in its cache @param {number} seed  of the prompt's text @returns {Promise<Partial<Figures>>} */
  const visitPage = async ({ runtime, version }, warm, seed) => {
    const page = await context.newPage();
    try {
      await page.goto(`${pages.url}tools/bench/pages/page.html`);
      await page.waitForFunction('globalThis.benchReady');
      const model = otherModels[runtime] ?? `/local/smollm2/${file}`;
      const options = {
        ...{ runtime: 'smollm2', peer: runtime, version, model, isWarm: warm, seed },
        ...{ prompt: PROMPT_TOKENS, tokens: DECODED_TOKENS },
      };
      const { value, peak } = await measurePeak(childProcessBytes(), async () => {
        await page.evaluate(`prepare(${JSON.stringify(options)})`);
        return page.evaluate('run([])');
      });
      return { ...value, ...(!warm && { memory: peak }) };
    } finally {
      await page.close();
    }
  };
  /** Measures native llama.cpp. @returns {Promise<Figures>} */
  const visitNative = async () => {
    const cells = [`${PROMPT_TOKENS}:${DECODED_TOKENS}`, `${FIRST_PROMPT_TOKENS}:1`];
    const { stdout } = await execute(
      native.program,
      [join(modelsFolder(), 'smollm2', file), native.best, '1', '1024', 'f16', ...cells],
      { maxBuffer: 1 << 24 },
    );
    const { cells: results, facts } = JSON.parse(stdout);
    return {
      loadMs: facts.loadMs,
      firstMs: facts.loadMs + results[1].prefillMs,
      prefill: (PROMPT_TOKENS / results[0].prefillMs) * 1e3,
      decode: (DECODED_TOKENS / results[0].decodeMs) * 1e3,
      memory: facts.memory,
    };
  };

  /** @type {Map<Peer, Figures[]>} */
  const figuresOf = new Map(PEERS.map((peer) => [peer, []]));
  try {
    const cachingPeers = PEERS.filter(({ runtime }) => runtime === 'bq4' || runtime === 'wllama');
    for (const peer of cachingPeers) await visitPage(peer, true, 0); // fills the caches
    for (let round = 0; round < rounds; round++)
      for (const peer of PEERS) {
        const figures =
          peer.runtime === 'native'
            ? await visitNative()
            : {
                firstMs: NaN,
                ...(await visitPage(peer, false, 3 + 2 * round)),
                ...(cachingPeers.includes(peer) && (await visitPage(peer, true, 0))),
              };
        figuresOf.get(peer)?.push(/** @type {Figures} */ (figures));
      }
  } finally {
    await browser.close();
    await pages.close();
  }
  const bq4Figures = /** @type {Figures[]} */ (figuresOf.get(PEERS[0]));
  const rows = PEERS.map((peer) => {
    const peerFigures = /** @type {Figures[]} */ (figuresOf.get(peer));
    const cells = COLUMNS.map(([field, , scale]) => {
      const values = peerFigures.map((figures) => scale * figures[field]);
      const ratio = median(bq4Figures.map((figures, i) => figures[field] / peerFigures[i][field]));
      const ratioText = peer === PEERS[0] || !Number.isFinite(ratio) ? '' : `; ${ratio.toFixed(2)}`;
      return formatSummary(summary(values)) + ratioText;
    });
    return `| ${peer.title} | ${cells.join(' | ')} |`;
  });
  const machineInfo = readMachine();
  const text = `## A real model

SmolLM2-135M-Instruct from its GGUF file (Q4_1, 98 MB): a prompt of about ${PROMPT_TOKENS} tokens and ${DECODED_TOKENS} tokens after it, one thread each, ${rounds} alternating
rounds: median (smallest–largest); bq4's figure divided by that of the row, median of the rounds. ${machineInfo.cpu}, the relaxed dot is ${dotInstruction(machineInfo)};
Chromium ${browser.version()}, Node ${machineInfo.node}. \`node_modules/.bin/node tools/bench/smollm2.mjs ${rounds} --write\`. Activations have 8 bits in all runtimes. *Load* is
without a cache; this machine serves the file. *Memory* is the increase of the memory of all processes of the browser (native: the peak of the process, including its
mapped file). The file of native llama.cpp is in the system's cache. LiteRT-LM's CPU backend computes the same weights as int8, its converter's default, which its wasm
build computes faster than 4 bits; its prefill does not include the LM head. transformers.js computes an int8 ONNX file of the same shape with random weights, since no
registry has such a file of this model. Energy cannot be measured on this machine.

| runtime | ${COLUMNS.map(([, title]) => title).join(' | ')} |
|---|${COLUMNS.map(() => '---|').join('')}
${rows.join('\n')}
`;
  console.log(text);
  if (!process.argv.includes('--write')) return;
  writeFileSync(join(ROOT, 'docs/benchmarks/real-model.md'), text);
  const medians = PEERS.map((peer) => {
    const cells = COLUMNS.map(([field, , scale]) => {
      const medianValue = median((figuresOf.get(peer) ?? []).map((figures) => scale * figures[field]));
      return Number.isFinite(medianValue) ? Number(medianValue.toPrecision(3)).toLocaleString('en-US') : '–';
    });
    return `| ${peer.title} | ${cells.join(' | ')} |`;
  });
  const table = `| one thread | ${COLUMNS.map(([, title]) => title).join(' | ')} |
|---|${COLUMNS.map(() => '---|').join('')}
${medians.join('\n')}

${machineInfo.cpu}; ${rounds} alternating rounds, Chromium ${browser.version().split('.')[0]}.`;
  for (const name of ['README.md', 'docs/benchmarks.md']) {
    const path = join(ROOT, name);
    writeFileSync(path, replaceTable(readFileSync(path, 'utf8'), table, 'real model'));
  }
});
