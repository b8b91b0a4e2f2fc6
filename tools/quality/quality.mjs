#!/usr/bin/env node
// Compares logits of bq4 and native llama.cpp with those of reference.py at each position of a text: top-1 agreement, mean KL divergence and
// perplexity. Prints the table "SmolLM2 beside llama.cpp" of docs/log/quality.md:
//   npm run build && node tools/quality/quality.mjs MODEL.gguf TEXT [--tokens 20000] [--only NAME] [--python PROGRAM]
// Windows of 1,000 tokens are computed one after another to limit memory to 1 GB. Figures of each window are stored in
// build/quality/positions-….json: if a run is interrupted, the same command continues it. --only: rows whose name starts with NAME. PROGRAM:
// a Python with the packages of requirements.txt; by default these are installed in the cache folder.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';
import { argmax, logSum } from '../../js/engine/model/probabilities.js';
import { librariesFolder, LLAMA_NAME, providePeers, provideProgram } from '../bench/install.mjs';
import { writeWhole } from '../setup/cache.mjs';
import { providePython } from '../setup/python.mjs';
import { command, ROOT } from '../setup/setup.mjs';
import { findOnPath, say, SetupError } from '../setup/shell.mjs';
import { openReader } from './reader.mjs';

/** Tokens after which the context begins anew. */
const WINDOW = 1000;
const CONTEXT = 1024;
const FOLDER = join(ROOT, 'build/quality');

/** @typedef {{ agree: number, kl: number, positions: number, ours: number, theirs: number, predicted: number }} Sums */
/** A window with the reference's logits, and of each row its `logSum` and probabilities. @typedef {{ ids: number[], logits: Float32Array[], sums: number[], p: Float32Array[] }} Window */
/** `logits`: a row for each of the tokens. @typedef {{ logits: (ids: number[]) => AsyncIterable<Float32Array>, close?: () => void }} Engine */

/** A program that answers windows with logits, as logits.c does. @param {string} program @param {string[]} args @param {number} vocab */
function peer(program, args, vocab) {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const failed = once(child, 'exit').then(([code, signal]) => {
    throw new SetupError(`${program} ended (${signal ?? code})`);
  });
  failed.catch(() => {});
  const { stdin, stdout } = child;
  const chunks = stdout[Symbol.asyncIterator]();
  let rest = new Uint8Array();
  /** @param {Uint8Array} bytes */
  async function fill(bytes) {
    for (let at = 0; at < bytes.length;) {
      if (!rest.length) {
        const { value, done } = await chunks.next();
        if (done) return failed;
        rest = value;
      }
      const part = rest.subarray(0, bytes.length - at);
      bytes.set(part, at);
      at += part.length;
      rest = rest.subarray(part.length);
    }
  }
  const ask = (/** @type {number[]} */ ids) => stdin.write(new Uint8Array(Int32Array.of(ids.length, ...ids).buffer));
  async function* rows(/** @type {number} */ count) {
    for (let i = 0; i < count; i++) {
      const row = new Float32Array(vocab);
      await fill(new Uint8Array(row.buffer));
      yield row;
    }
  }
  return { ask, rows, close: () => child.kill() };
}

/** @param {string} file @param {'f16' | 'i8'} kv @param {'i8' | 'i16'} activations @returns {Engine} */
const bq4 = (file, kv, activations) => ({
  async *logits(ids) {
    const reader = await openReader(fromFile(file), ids, { contextTokens: CONTEXT, kv, activations });
    for (let n = 1; n <= ids.length; n++) yield reader.read(n);
    reader.close();
  },
});

/** @param {string} file @param {'f16' | 'q8_0'} kv @param {number} vocab */
async function llama(file, kv, vocab) {
  const gcc = findOnPath(['gcc', 'clang']);
  if (!gcc) throw new SetupError('gcc or clang is needed for llama.cpp');
  await providePeers();
  const program = await provideProgram(gcc, 'logits');
  const { ask, rows, close } = peer(program, [resolve(file), librariesFolder(), '1', String(CONTEXT), kv], vocab);
  /** @param {number[]} ids */
  function logits(ids) {
    ask(ids);
    return rows(ids.length);
  }
  return { logits, close };
}

/** Every row of the table. @type {[string, (file: string, vocab: number) => Engine | Promise<Engine>][]} */
const ROWS = [
  ['bq4, activations i16 (default), KV i8 (default)', (file) => bq4(file, 'i8', 'i16')],
  ['bq4, activations i16, KV f16', (file) => bq4(file, 'f16', 'i16')],
  ['bq4, activations i8, KV f16', (file) => bq4(file, 'f16', 'i8')],
  ['bq4, activations i8, KV i8', (file) => bq4(file, 'i8', 'i8')],
  [`${LLAMA_NAME}, KV f16 (its default)`, (file, vocab) => llama(file, 'f16', vocab)],
  [`${LLAMA_NAME}, KV q8_0`, (file, vocab) => llama(file, 'q8_0', vocab)],
];

/** @param {Engine} engine @param {Window} window @returns {Promise<Sums>} */
async function compared(engine, window) {
  const { ids, logits, sums, p } = window;
  const found = { agree: 0, kl: 0, positions: 0, ours: 0, theirs: 0, predicted: 0 };
  let i = 0;
  for await (const got of engine.logits(ids)) {
    const [wanted, likely, sum] = [logits[i], p[i], logSum(got)];
    found.positions++;
    found.agree += Number(argmax(wanted) === argmax(got));
    // Differences of logits, which are small: f32 is enough for probabilities.
    let kl = sum - sums[i];
    for (let token = 0; token < got.length; token++) kl += likely[token] * (wanted[token] - got[token]);
    found.kl += kl;
    const next = ids[++i];
    if (next === undefined) continue;
    found.predicted++;
    found.ours += sum - got[next];
    found.theirs += sums[i - 1] - wanted[next];
  }
  if (i !== ids.length) throw new Error(`${i} rows of ${ids.length}`);
  return found;
}

/** @param {string} model @param {string} text @param {number} count */
async function tokensOf(model, text, count) {
  const engine = await createEngine();
  const loaded = await engine.load(fromFile(model), { contextTokens: 64 });
  const ids = (await loaded.tokenize(readFileSync(text, 'utf8'))).slice(0, count);
  const { vocabSize: vocab } = loaded.info;
  await engine.close();
  return { ids: [...ids], vocab };
}

/** @param {string} name @param {Sums[]} windows */
function report(name, windows) {
  const sum = (/** @type {keyof Sums} */ what) => windows.reduce((all, each) => all + each[what], 0);
  const positions = sum('positions');
  const [ours, theirs] = [sum('ours'), sum('theirs')].map((all) => Math.exp(all / sum('predicted')));
  const added = 100 * (ours / theirs - 1);
  return `| ${[name, positions.toLocaleString('en'), `${((100 * sum('agree')) / positions).toFixed(2)} %`, (sum('kl') / positions).toFixed(5), `${added < 0 ? '−' : '+'}${Math.abs(added).toFixed(2)} %`].join(' | ')} |`;
}

/** @param {string} model @param {string | undefined} program  Python with the reference's packages @param {number} vocab */
async function openReference(model, program, vocab) {
  const python = program ?? findOnPath(['python3', 'python']);
  if (!python) throw new SetupError('Python is needed for the reference');
  const own = program ?? (await providePython(ROOT, python, 'tools/quality/requirements.txt'));
  return peer(own, [join(ROOT, 'tools/quality/reference.py'), model], vocab);
}

await command(async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { tokens: { type: 'string', default: '20000' }, only: { type: 'string' }, python: { type: 'string' } },
  });
  if (positionals.length !== 2) throw new SetupError('MODEL.gguf TEXT: see the head of tools/quality/quality.mjs');
  const [model, text] = positionals;
  const { ids, vocab } = await tokensOf(model, text, Number(values.tokens));
  const key = createHash('sha256').update(JSON.stringify([statSync(model).size, ids]));
  const kept = join(FOLDER, `positions-${key.digest('hex').slice(0, 8)}.json`);
  mkdirSync(FOLDER, { recursive: true });
  /** Of each row, figures by window. @type {Record<string, Sums[]>} */
  const known = existsSync(kept) ? JSON.parse(readFileSync(kept, 'utf8')) : {};
  const rows = ROWS.filter(([name]) => name.startsWith(values.only ?? ''));
  const windows = Array.from({ length: Math.ceil(ids.length / WINDOW) }, (_, at) => ({
    at,
    ids: ids.slice(at * WINDOW, (at + 1) * WINDOW),
    missing: rows.filter(([name]) => !known[name]?.[at]),
  })).filter(({ missing }) => missing.length);
  if (windows.length) {
    /** @type {Map<string, Engine>} */
    const engines = new Map();
    const reference = await openReference(model, values.python, vocab);
    try {
      // All at once: it computes the next window while this one is compared.
      for (const window of windows) reference.ask(window.ids);
      for (const { at, ids, missing } of windows) {
        const logits = [];
        for await (const row of reference.rows(ids.length)) logits.push(row);
        const sums = logits.map(logSum);
        const p = logits.map((row, i) => row.map((logit) => Math.exp(logit - sums[i])));
        const window = { ids, logits, sums, p };
        for (const [name, open] of missing) {
          const engine = engines.get(name) ?? (await open(model, vocab));
          engines.set(name, engine);
          (known[name] ??= [])[at] = await compared(engine, window);
          writeWhole(kept, JSON.stringify(known));
          say(report(name, known[name]));
        }
      }
    } finally {
      for (const engine of [reference, ...engines.values()]) engine.close?.();
    }
  }
  console.log(['| | positions | top-1 | mean KL | perplexity |', '|---|---|---|---|---|'].join('\n'));
  for (const [name] of rows) console.log(report(name, known[name]));
});
