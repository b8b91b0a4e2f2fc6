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
import { writeAtomically } from '../setup/cache.mjs';
import { providePython } from '../setup/python.mjs';
import { command, ROOT } from '../setup/setup.mjs';
import { findOnPath, say, SetupError } from '../setup/shell.mjs';
import { openReader } from './reader.mjs';

/** Number of tokens after which a new context starts. */
const WINDOW_TOKENS = 1000;
const CONTEXT_TOKENS = 1024;
const FOLDER = join(ROOT, 'build/quality');

/**
 * Sums over positions: equal likeliest tokens, KL divergence, positions, surprisal of the text to the engine and to the reference, and
 * predicted tokens.
 * @typedef {{ agree: number, kl: number, positions: number, surprisal: number, referenceSurprisal: number, predicted: number }} Sums
 */
/**
 * The tokens of a window with the reference's logits, and the `logSum` and the probabilities of each row.
 * @typedef {{ ids: number[], logits: Float32Array[], logSums: number[], probabilities: Float32Array[] }} Window
 */
/** `logits` yields a row for each of the tokens. @typedef {{ logits: (ids: number[]) => AsyncIterable<Float32Array>, close?: () => void }} Engine */

/**
 * Starts a program that reads the tokens of windows and writes logits, such as logits.c. `ask` sends a window; `rows` yields the logits of
 * the next positions.
 * @param {string} program @param {string[]} args @param {number} vocab
 */
function startPeer(program, args, vocab) {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const failed = once(child, 'exit').then(([code, signal]) => {
    throw new SetupError(`${program} ended with ${signal ?? code} before it had written all logits`);
  });
  failed.catch(() => {});
  const { stdin, stdout } = child;
  const chunks = stdout[Symbol.asyncIterator]();
  let unread = new Uint8Array();
  /** Reads as many bytes as the array has. @param {Uint8Array} bytes */
  async function fill(bytes) {
    for (let filled = 0; filled < bytes.length;) {
      if (!unread.length) {
        const { value, done } = await chunks.next();
        if (done) return failed;
        unread = value;
      }
      const part = unread.subarray(0, bytes.length - filled);
      bytes.set(part, filled);
      filled += part.length;
      unread = unread.subarray(part.length);
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

/** Returns an engine that computes with bq4. @param {string} file @param {'f16' | 'i8'} kv @param {'i8' | 'i16'} activations @returns {Engine} */
const bq4 = (file, kv, activations) => ({
  async *logits(ids) {
    const reader = await openReader(fromFile(file), ids, { contextTokens: CONTEXT_TOKENS, kv, activations });
    for (let n = 1; n <= ids.length; n++) yield reader.read(n);
    reader.close();
  },
});

/** Returns an engine that computes with llama.cpp. @param {string} file @param {'f16' | 'q8_0'} kv @param {number} vocab */
async function llama(file, kv, vocab) {
  const gcc = findOnPath(['gcc', 'clang']);
  if (!gcc) throw new SetupError('expected gcc or clang on PATH to compile a program for llama.cpp, found neither');
  await providePeers();
  const program = await provideProgram(gcc, 'logits');
  const { ask, rows, close } = startPeer(
    program,
    [resolve(file), librariesFolder(), '1', String(CONTEXT_TOKENS), kv],
    vocab,
  );
  /** @param {number[]} ids */
  function logits(ids) {
    ask(ids);
    return rows(ids.length);
  }
  return { logits, close };
}

/** Rows of the table, each with a function that opens its engine. @type {[string, (file: string, vocab: number) => Engine | Promise<Engine>][]} */
const ROWS = [
  ['bq4, activations i16 (default), KV i8 (default)', (file) => bq4(file, 'i8', 'i16')],
  ['bq4, activations i16, KV f16', (file) => bq4(file, 'f16', 'i16')],
  ['bq4, activations i8, KV f16', (file) => bq4(file, 'f16', 'i8')],
  ['bq4, activations i8, KV i8', (file) => bq4(file, 'i8', 'i8')],
  [`${LLAMA_NAME}, KV f16 (its default)`, (file, vocab) => llama(file, 'f16', vocab)],
  [`${LLAMA_NAME}, KV q8_0`, (file, vocab) => llama(file, 'q8_0', vocab)],
];

/** Compares an engine with the reference. @param {Engine} engine @param {Window} window @returns {Promise<Sums>} */
async function compareLogits(engine, window) {
  const { ids, logits, logSums, probabilities } = window;
  const sums = { agree: 0, kl: 0, positions: 0, surprisal: 0, referenceSurprisal: 0, predicted: 0 };
  let i = 0;
  for await (const engineRow of engine.logits(ids)) {
    const [referenceRow, referenceProbabilities, engineLogSum] = [logits[i], probabilities[i], logSum(engineRow)];
    sums.positions++;
    sums.agree += Number(argmax(referenceRow) === argmax(engineRow));
    // The differences of logits are small, so probabilities in f32 are precise enough.
    let kl = engineLogSum - logSums[i];
    for (let token = 0; token < engineRow.length; token++)
      kl += referenceProbabilities[token] * (referenceRow[token] - engineRow[token]);
    sums.kl += kl;
    const next = ids[++i];
    if (next === undefined) continue;
    sums.predicted++;
    sums.surprisal += engineLogSum - engineRow[next];
    sums.referenceSurprisal += logSums[i - 1] - referenceRow[next];
  }
  if (i !== ids.length) throw new Error(`expected ${ids.length} rows of logits, found ${i}`);
  return sums;
}

/** Returns the first tokens of a text and the vocabulary size. @param {string} model @param {string} text  path @param {number} count */
async function tokensOf(model, text, count) {
  const engine = await createEngine();
  const loaded = await engine.load(fromFile(model), { contextTokens: 64 });
  const ids = (await loaded.tokenize(readFileSync(text, 'utf8'))).slice(0, count);
  const { vocabSize: vocab } = loaded.info;
  await engine.close();
  return { ids: [...ids], vocab };
}

/** Returns a row of the table. @param {string} name @param {Sums[]} windows */
function formatRow(name, windows) {
  const sum = (/** @type {keyof Sums} */ key) => windows.reduce((total, window) => total + window[key], 0);
  const positions = sum('positions');
  const [perplexity, referencePerplexity] = [sum('surprisal'), sum('referenceSurprisal')].map((total) =>
    Math.exp(total / sum('predicted')),
  );
  const addedPercent = 100 * (perplexity / referencePerplexity - 1);
  return `| ${[name, positions.toLocaleString('en'), `${((100 * sum('agree')) / positions).toFixed(2)} %`, (sum('kl') / positions).toFixed(5), `${addedPercent < 0 ? '−' : '+'}${Math.abs(addedPercent).toFixed(2)} %`].join(' | ')} |`;
}

/** Starts reference.py. @param {string} model @param {string | undefined} program  Python with the reference's packages @param {number} vocab */
async function openReference(model, program, vocab) {
  const systemPython = program ?? findOnPath(['python3', 'python']);
  if (!systemPython) throw new SetupError('expected python3 on PATH for the reference, found none');
  const python = program ?? (await providePython(ROOT, systemPython, 'tools/quality/requirements.txt'));
  return startPeer(python, [join(ROOT, 'tools/quality/reference.py'), model], vocab);
}

await command(async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { tokens: { type: 'string', default: '20000' }, only: { type: 'string' }, python: { type: 'string' } },
  });
  if (positionals.length !== 2)
    throw new SetupError(
      `expected MODEL.gguf and TEXT, found ${positionals.length} arguments: see the comment at the top of tools/quality/quality.mjs`,
    );
  const [model, text] = positionals;
  const { ids, vocab } = await tokensOf(model, text, Number(values.tokens));
  const key = createHash('sha256').update(JSON.stringify([statSync(model).size, ids]));
  const resultsPath = join(FOLDER, `positions-${key.digest('hex').slice(0, 8)}.json`);
  mkdirSync(FOLDER, { recursive: true });
  /** Results by row and window. @type {Record<string, Sums[]>} */
  const results = existsSync(resultsPath) ? JSON.parse(readFileSync(resultsPath, 'utf8')) : {};
  const rows = ROWS.filter(([name]) => name.startsWith(values.only ?? ''));
  const windows = Array.from({ length: Math.ceil(ids.length / WINDOW_TOKENS) }, (_, at) => ({
    at,
    ids: ids.slice(at * WINDOW_TOKENS, (at + 1) * WINDOW_TOKENS),
    missing: rows.filter(([name]) => !results[name]?.[at]),
  })).filter(({ missing }) => missing.length);
  if (windows.length) {
    /** @type {Map<string, Engine>} */
    const engines = new Map();
    const reference = await openReference(model, values.python, vocab);
    try {
      // All windows are sent at once, so that the reference computes the next window while this one is compared.
      for (const window of windows) reference.ask(window.ids);
      for (const { at, ids, missing } of windows) {
        const logits = [];
        for await (const row of reference.rows(ids.length)) logits.push(row);
        const logSums = logits.map(logSum);
        const probabilities = logits.map((row, i) => row.map((logit) => Math.exp(logit - logSums[i])));
        const window = { ids, logits, logSums, probabilities };
        for (const [name, open] of missing) {
          const engine = engines.get(name) ?? (await open(model, vocab));
          engines.set(name, engine);
          (results[name] ??= [])[at] = await compareLogits(engine, window);
          writeAtomically(resultsPath, JSON.stringify(results));
          say(formatRow(name, results[name]));
        }
      }
    } finally {
      for (const engine of [reference, ...engines.values()]) engine.close?.();
    }
  }
  console.log(['| | positions | top-1 | mean KL | perplexity |', '|---|---|---|---|---|'].join('\n'));
  for (const [name] of rows) console.log(formatRow(name, results[name]));
});
