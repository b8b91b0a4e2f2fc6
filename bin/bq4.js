#!/usr/bin/env node
// bq4 on the command line: convert, inspect, run, chat. The engine is the one that browsers load.
import { stderr, stdout } from 'node:process';
import { parseArgs } from 'node:util';
import { BqError } from '../js/shared/errors.js';
import { nearest } from '../js/shared/options.js';
import { adapterOf, draftOf, flag, load, numberOf, readText, sourceOf, Usage, value, values } from './options.js';

const HELP = `bq4: language models in the browser, on the CPU

  bq4 convert IN OUT [options]                                      converts a model: OUT is .bq4, .bullet or .qsf
  bq4 quantize IN OUT --calibrate TEXT [options]                    a model in fewer bits, rounded by what a text needs
  bq4 inspect FILE [--json]                                         a card of a model: .bq4, .gguf, safetensors or a folder, …
  bq4 run FILE [PROMPT] [options]                                   continues a text (or --prompt TEXT)
  bq4 chat FILE [--system TEXT] [options]                           a conversation; Ctrl-C stops a reply, Ctrl-D ends
  bq4 embed FILE TEXT... [options]                                  a vector for each text, as a line of JSON
  bq4 bench FILE [options]                                          how fast it is here, and what it takes; --json
  bq4 perplexity FILE TEXT [--against FILE] [options]               how well it predicts a text, and as another one does
  bq4 serve FILE... [options]                                       a server with OpenAI's interface, on this machine
  bq4 replay RECEIPT.json FILE [options]                            computes it again: equal, or where it differs
  bq4 prompt-state FILE OUT (--system TEXT | --messages FILE.json)  what conversations begin with, computed beforehand
  bq4 bundle FILE PAGE.html [--title TEXT]                          one page with the engine and a small model in it
  bq4 train-head FILE DATA.tsv HEAD.json [options]                  a classifier over the vectors of FILE; DATA: text, tab, label
  bq4 classify FILE HEAD.json TEXT... [--json]                      what each text is, and how sure that is

FILE is a path or an address: a .bq4 or .gguf file. Options of run and chat:

  --max-tokens N       at most so many tokens (default: run 256, chat until the context is full)
  --temperature T      0: always the likeliest token (default 0.7)
  --top-k K  --top-p P  --min-p P  --repeat-penalty R  --seed N  --stop TEXT (may be repeated)
  --schema FILE        holds the text to a JSON Schema; --grammar FILE to one in GBNF, --regex PATTERN to an expression
  --adapter FILE       computes with an adapter (LoRA): adapter_model.safetensors of PEFT, or a .gguf
  --draft FILE         a smaller model of the same vocabulary, which guesses what comes next: the same text in fewer steps
  --context N          tokens of context (default: the model's own, at most 4096)
  --kv f32|f16|i8|i4|i2  type of the KV cache (default i8, f16 where keys have a bias; f32 is the reference)
  --kv-window N        positions that a token sees, besides the first ones (--kv-sinks N, default 4): the context may then be longer than
                       the model was made for, in the same memory
  --kv-evict attention what got the least attention leaves a window of a multiple of 256, not the oldest (H2O)
  --skip-layers LIST   layers that are left out, as 3,14: faster, and worse
  --exit-layer LAYER   leaves out this layer and all after it
  --head-share SHARE   the share of the head that is computed, as 0.3: faster, and a little worse
  --activations i8|i16 what quantized weights are multiplied with: i16 is finer and slower (default: i16 for models of 50 to 300 MB,
                       else i8)
  --companion FILE     tells architecture and tokenizer of a v1 file (default: NAME.json beside it)
  --build NAME         relaxed, relaxed16 or simd128 (default: the fastest on this machine)

Options of convert; IN is a Hugging Face folder, a .safetensors file or PyTorch checkpoint (.bin, .pt, .pth, .pkl; no code in it is
executed) with config.json beside it, a checkpoint of llama2.c or nanoGPT (.pt), a llama2.c .bin, a .bullet, a .qsf, or a
.gguf (or its address), of which all weights are kept as they are without --quant, --embed or --row-scales:

  hf:owner/name is a model on the hub: --revision NAME, --endpoint URL (or HF_ENDPOINT), --token TOKEN (or HF_TOKEN)
  --tokenizer FILE     default: what usually lies beside such a model; a .txt has a token per line
  --quant TYPE         type of the matrices: bq4a (default), bq4, bq4_16, bq4_64, bq4h, bq3a, bq2a, bq2, bqt, bq8, f16, bf16, f32
  --embed TYPE         type of embedding and head (default: bq8, or the type of the matrices when they are no blocks)
  --calibrate TEXT     rounds by what a text needs, as quantize does
  --hash KIND          of chunks: xxh64 (default) shows damage, sha256 with an integrity also forgery
  --compress KIND      layers of a .qsf: none (default), lz4 or zstd; its types are q4a (default), q3a, q2a, q2s, tern, f16
  --row-scales         rows of matrices are divided by a factor that the file has beside them: for weights that f16 can't scale
  --activation-steps FILE  steps of activations for other engines, as JSON: { "h.0.attn.q": 0.0123, ... }
  --v1                 a v1.0 file and its companion OUT.json
  --name TEXT  --license TEXT  --card FILE  --chat FILE   what the file says of itself; FILE: chat format as JSON
  --json               the report, error of each tensor included, as one JSON object

Options of quantize; IN is a .bq4 file, or what convert takes:

  --calibrate FILE     a text: weights are rounded so that products of it err least; without one as convert rounds them
  --tokens N           of the text that count (default 16384)
  --quant TYPE         bq4a (default), bq4h, bq4, bq4_16, bq4_64, bq3a, bq2a or bqt; others are rounded as by convert
  --embed TYPE         of embedding and head (default: bq8)
  --target-size SIZE   of the file, as 80MB: bq4h, bq4a or bq8 (bq3a, bq2a if need be) for each matrix, by what rounding it costs the model's predictions
  --target-ppl PERCENT  of perplexity that may be added, as 3%, measured on the end of the text: types are chosen as for --target-size
  --method KIND        gptaq (default): errors are made good by later weights and, one layer after the other, by later matrices; gptq: by later weights
                       of the same matrix alone, which reads the text once; search: only scales are searched
  --smooth NUMBER      0 to 1 (default 0): inputs that are large are made smaller, and the weights that they meet larger, folded into norms
  --plot FILE.svg      a chart: the error of each matrix by its kind, over the layers, and its bits where they differ
  --threads N          that read and round (default: as many as there are cores, up to 8, and memory for); the file doesn't depend on it
  --budget SIZE        of the instance in which the model reads the text, as 2GB (default: 4GB); of a larger model layers are read from the disk
  --tokenizer FILE  --hash KIND  --json   as of convert

Options of embed, besides context, kv, activations, companion and build as above:

  --pooling KIND       mean, cls or last (default: as the file says)
  --no-normalize       vectors as they are, not of length 1
  --json               one JSON object: vectors, tokens, truncated, build

Options of bench, besides context, kv, sessions, threads, budget, companion and build: --prompt-tokens N (256), --tokens N (64), --runs N (3).

Options of perplexity, besides context (512), kv, activations, threads, companion and build; TEXT is a file, FILE may be a Hugging Face
folder too, whose weights are then taken as f32:

  --against FILE       another model of the same tokenizer: mean KL divergence from it, how often the likeliest token is the same
  --stride N           tokens from one window of --context tokens to the next (default: half of it); each token counts once
  --tokens N           the first so many of the text alone
  --json

Options of serve, besides context, kv, companion and build as above; it prints its address when it is ready:

  --port N  --host NAME   to listen at (default: 8080, 127.0.0.1: this machine alone; port 0: any that is free)
  --token TEXT         that clients must send (or BQ4_TOKEN)
  --allow-origin URL   pages of this origin may ask (may be repeated; '*': all); --allow-host NAME: the server's name
  --sessions N         replies at once, and conversations kept in memory (default 1); --threads N; --budget BYTES
  --max-body BYTES     of a request (default 4 MiB); --max-waiting N requests for a model (default 32)

Options of train-head:

  --test FILE          what to judge by; default: every fifth text of each label, which is then not learned from
  --labels A,B,C       their order (default: sorted)
  --type bq4|f32       of the head's weights (default bq4)
  --penalty P          on large weights (default 1)
  --name TEXT  --json

Of run alone:

  --chat               wraps the prompt as a turn of the model's chat format
  --receipt OUT.json   writes what it takes to compute the same again (not with --adapter)
  --json               one JSON object: ids, text, reason, seed, timings, build

  --help, --version

Exit codes: 0 done, 1 failed, 2 wrong usage.
`;

const loading = {
  context: value,
  kv: value,
  'kv-window': value,
  'kv-sinks': value,
  'kv-evict': value,
  'skip-layers': value,
  'exit-layer': value,
  'head-share': value,
  activations: value,
  sessions: value,
  budget: value,
  threads: value,
  companion: value,
  build: value,
};
const generation = {
  'max-tokens': value,
  temperature: value,
  'top-k': value,
  'top-p': value,
  'min-p': value,
  'repeat-penalty': value,
  seed: value,
  stop: values,
  schema: value,
  grammar: value,
  regex: value,
  adapter: value,
  draft: value,
  context: value,
  kv: value,
  'kv-window': value,
  'kv-sinks': value,
  'kv-evict': value,
  'skip-layers': value,
  'exit-layer': value,
  'head-share': value,
  activations: value,
  companion: value,
  build: value,
  system: value,
};

/** @typedef {import('./options.js').Option} Option */

/** @type {Record<string, { files: number, more?: number, options: Record<string, Option>, start: (files: string[], options: any) => Promise<void> }>} */
const COMMANDS = {
  convert: {
    files: 2,
    options: {
      tokenizer: value,
      quant: value,
      embed: value,
      calibrate: value,
      compress: value,
      hash: value,
      v1: flag,
      'row-scales': flag,
      'activation-steps': value,
      name: value,
      license: value,
      card: value,
      chat: value,
      json: flag,
      revision: value,
      endpoint: value,
      token: value,
    },
    start: convertFile,
  },
  quantize: {
    files: 2,
    options: {
      quant: value,
      embed: value,
      calibrate: value,
      tokenizer: value,
      tokens: value,
      method: value,
      'target-size': value,
      'target-ppl': value,
      smooth: value,
      plot: value,
      threads: value,
      budget: value,
      hash: value,
      json: flag,
    },
    start: async (files, options) => (await import('./quantize.js')).quantizeFile(files, options),
  },
  inspect: { files: 1, options: { json: flag, companion: value }, start: inspectFile },
  run: {
    files: 1,
    more: 1,
    options: { ...generation, prompt: value, chat: flag, json: flag, receipt: value },
    start: runPrompt,
  },
  chat: { files: 1, options: generation, start: chatLoop },
  replay: {
    files: 2,
    options: { companion: value, build: value, threads: value, json: flag },
    start: async (files, options) => (await import('./replay.js')).replayReceipt(files, options),
  },
  'prompt-state': {
    files: 2,
    options: { ...loading, system: value, messages: value },
    start: async (files, options) => (await import('./prompt-state.js')).writePromptState(files, options),
  },
  bundle: {
    files: 2,
    options: { title: value },
    start: async ([file, page], options) => (await import('./bundle.js')).bundle(file, page, options),
  },
  'train-head': {
    files: 3,
    options: {
      context: value,
      companion: value,
      build: value,
      test: value,
      labels: value,
      type: value,
      penalty: value,
      name: value,
      json: flag,
    },
    start: trainHead,
  },
  classify: {
    files: 3,
    more: Infinity,
    options: { context: value, companion: value, build: value, json: flag },
    start: classifyTexts,
  },
  embed: {
    files: 2,
    more: Infinity,
    options: {
      context: value,
      kv: value,
      activations: value,
      companion: value,
      build: value,
      pooling: value,
      'no-normalize': flag,
      json: flag,
    },
    start: embedTexts,
  },
  bench: {
    files: 1,
    options: { ...loading, 'prompt-tokens': value, tokens: value, runs: value, json: flag },
    start: benchFile,
  },
  perplexity: {
    files: 2,
    options: {
      context: value,
      kv: value,
      activations: value,
      threads: value,
      companion: value,
      build: value,
      against: value,
      stride: value,
      tokens: value,
      json: flag,
    },
    start: async (files, options) => (await import('./perplexity.js')).measurePerplexity(files, options),
  },
  serve: {
    files: 1,
    more: Infinity,
    options: {
      ...loading,
      port: value,
      host: value,
      token: value,
      'allow-origin': values,
      'allow-host': values,
      'max-body': value,
      'max-waiting': value,
    },
    start: serveFiles,
  },
};

/** @type {Record<string, string>} */
const NEEDS = {
  convert: 'IN and OUT',
  quantize: 'IN and OUT',
  bundle: 'a model and the page to write',
  replay: 'a receipt and its model',
  'prompt-state': 'a model and the file to write',
  embed: 'a file and a text',
  perplexity: 'a model and a file with a text',
  serve: 'at least one file',
  'train-head': 'a model, examples and the head to write',
  classify: 'a model, a head and a text',
};

/** What the text is held to. @param {any} options @returns {Promise<import('../js/shared/types.js').ResponseFormat | undefined>} */
async function formatOf({ schema, grammar, regex }) {
  if ([schema, grammar, regex].filter((one) => one !== undefined).length > 1)
    throw new Usage('only one of --schema, --grammar and --regex can be');
  if (regex !== undefined) return { type: 'regex', pattern: regex };
  if (grammar !== undefined) return { type: 'grammar', grammar: await readText(grammar) };
  if (schema === undefined) return undefined;
  const text = await readText(schema);
  try {
    return { type: 'json_schema', schema: JSON.parse(text) };
  } catch (cause) {
    throw new BqError('GRAMMAR', `${schema} is no JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/** @param {any} options @param {number} [maxTokens]  default */
async function generateOptions(options, maxTokens) {
  return {
    maxTokens: numberOf(options, 'max-tokens') ?? maxTokens,
    temperature: numberOf(options, 'temperature'),
    topK: numberOf(options, 'top-k'),
    topP: numberOf(options, 'top-p'),
    minP: numberOf(options, 'min-p'),
    repeatPenalty: numberOf(options, 'repeat-penalty'),
    seed: numberOf(options, 'seed'),
    stop: options.stop,
    responseFormat: await formatOf(options),
  };
}

/** @param {string[]} files @param {any} options */
async function runPrompt([file, words], options) {
  const prompt = options.prompt ?? words;
  if (prompt === undefined || (options.prompt !== undefined && words !== undefined))
    throw new Usage('run needs one prompt: behind FILE, or as --prompt TEXT');
  if (options.receipt !== undefined && options.adapter !== undefined)
    throw new Usage('there are no receipts of what an adapter changed: run with --receipt or with --adapter');
  const chosen = await generateOptions(options, 256);
  const { engine, model } = await load(file, options);
  Object.assign(chosen, await adapterOf(model, options), await draftOf(engine, options));
  const session = options.chat ? null : await model.createSession();
  const run = session
    ? session.generate(prompt, chosen)
    : (await model.createChat({ system: options.system })).send(prompt, {
        ...chosen,
        receipt: options.receipt !== undefined,
      });
  for await (const part of run) if (!options.json) stdout.write(part.text);
  const result = await run.done();
  const { ids, text, reason, seed, timings, warnings } = result;
  if (options.receipt) {
    const [{ receiptOf, receiptOfReply }, { writeFile }] = await Promise.all([
      import('../js/api/receipts/index.js'),
      import('node:fs/promises'),
    ]);
    const receipt = session ? receiptOf(model, session, result, chosen) : receiptOfReply(model, result, chosen);
    await writeFile(options.receipt, `${JSON.stringify(await receipt)}\n`);
  }
  const { build, reason: buildReason } = engine.info;
  if (options.json)
    stdout.write(`${JSON.stringify({ ids, text, reason, seed, timings, warnings, build, buildReason })}\n`);
  else stdout.write('\n');
  for (const warning of warnings ?? []) stderr.write(`bq4: ${warning}\n`);
  await engine.close();
}

/** @param {string[]} files @param {any} options */
async function chatLoop([file], options) {
  const { createInterface } = await import('node:readline');
  const chosen = await generateOptions(options);
  const { engine, model } = await load(file, options);
  Object.assign(chosen, await adapterOf(model, options), await draftOf(engine, options));
  let chat = await model.createChat({ system: options.system });
  const lines = createInterface({
    input: process.stdin,
    output: stdout,
    terminal: process.stdin.isTTY && stdout.isTTY,
    prompt: '> ',
  });
  /** @type {AbortController | null} */
  let running = null;
  const interrupt = () => (running ? running.abort() : lines.close());
  lines.on('SIGINT', interrupt);
  process.on('SIGINT', interrupt);
  const { info } = engine;
  stderr.write(
    `${model.info.name || file}: ${info.build} kernels, context ${model.info.contextTokens}. /new begins anew, /again asks for another reply, Ctrl-D ends.\n`,
  );
  let open = true;
  lines.on('close', () => (open = false));
  lines.prompt();
  for await (const line of lines) {
    const text = line.trim();
    if (text === '/new') {
      await chat.close();
      chat = await model.createChat({ system: options.system });
    } else if (text) {
      running = new AbortController();
      const withSignal = { ...chosen, signal: running.signal };
      const run = text === '/again' ? chat.regenerate(withSignal) : chat.send(text, withSignal);
      try {
        for await (const part of run) stdout.write(part.text);
      } catch (error) {
        if (!running.signal.aborted) stderr.write(explain(error));
      }
      running = null;
      if (run.result) stdout.write('\n');
      if (run.result?.reason === 'context') stderr.write('The context is full: /new begins anew.\n');
    }
    if (open) lines.prompt();
  }
  process.off('SIGINT', interrupt);
  await engine.close();
}

/** @param {string[]} files  the model, then texts @param {any} options */
async function embedTexts([file, ...texts], options) {
  const { pooling } = options;
  if (![undefined, 'mean', 'cls', 'last'].includes(pooling))
    throw new Usage(`--pooling is "${pooling}", not mean, cls or last`);
  const { engine, model } = await load(file, options);
  const found = await model.embed(texts, { pooling, normalize: options['no-normalize'] ? false : undefined });
  const vectors = found.vectors.map((vector) => Array.from(vector));
  for (const i of found.truncated)
    stderr.write(`bq4: text ${i + 1} is too long: its first ${found.tokens[i]} tokens count\n`);
  const { build, reason: buildReason } = engine.info;
  if (options.json) stdout.write(`${JSON.stringify({ ...found, vectors, build, buildReason })}\n`);
  else for (const vector of vectors) stdout.write(`${JSON.stringify(vector)}\n`);
  await engine.close();
}

/** @param {string[]} files @param {any} options */
async function serveFiles(files, options) {
  const serve = await import('./serve.js');
  await serve.serveFiles(files, options);
}

/** @param {string[]} files  the model, examples, the head to write @param {any} options */
async function trainHead([file, data, out], options) {
  const { type } = options;
  if (![undefined, 'bq4', 'f32'].includes(type)) throw new Usage(`--type is "${type}", not bq4 or f32`);
  const { train } = await import('./heads.js');
  const { engine, model } = await load(file, options);
  await train(model, data, out, { ...options, penalty: numberOf(options, 'penalty') });
  await engine.close();
}

/** @param {string[]} files  the model, the head, texts @param {any} options */
async function classifyTexts([file, head, ...texts], options) {
  const { classify } = await import('./heads.js');
  const { engine, model } = await load(file, options);
  await classify(model, head, texts, options.json);
  await engine.close();
}

/** @param {string[]} files @param {any} options */
async function benchFile(files, options) {
  const bench = await import('./bench.js');
  await bench.benchFile(files, options);
}

/** What is in a file, whatever it is of those that are read. @param {string[]} files @param {any} options */
async function inspectFile([file], options) {
  const { report } = await import('./inspect.js');
  const { describe } = await import('./describe.js');
  const found = await report(
    file,
    /^(https?|file):/.test(file) || !(await isFolder(file)) ? await sourceOf(file, options) : null,
  );
  stdout.write(options.json ? `${JSON.stringify(found, null, 2)}\n` : describe(found));
  const { hashes } = found;
  if (hashes && (hashes.damaged.length || [hashes.header, hashes.plan, hashes.prefix].includes('damaged')))
    process.exitCode = 1;
}

/** @param {string} path */
async function isFolder(path) {
  const { stat } = await import('node:fs/promises');
  return (await stat(path).catch(() => null))?.isDirectory() ?? false;
}

/**
 * One thing of a GGUF file, at a path or an address, another of all others.
 * @template T @param {string} name @param {(file: import('../js/storage/sources/types.js').ByteSource) => Promise<T>} gguf @param {() => Promise<T>} other
 */
async function ggufOr(name, gguf, other) {
  if (!/^https?:/.test(name) && !name.endsWith('.gguf')) return other();
  const { openSource } = await import('../js/storage/sources/index.js');
  const { readRange } = await import('../js/storage/sources/read.js');
  const file = await openSource(await sourceOf(name));
  try {
    return String.fromCharCode(...(await readRange(file, 0, 4))) === 'GGUF' ? await gguf(file) : await other();
  } finally {
    await file.close();
  }
}

/** What the engine refuses becomes no file. FORMAT, SHAPE, UNSUPPORTED, TRUNCATED. @param {string} file */
async function mayRun(file) {
  const { createEngine } = await import('../js/node.js');
  const engine = await createEngine({ threads: 1 });
  try {
    await engine.plan(await sourceOf(file));
  } catch (error) {
    // What is too large for a heap here can be converted all the same.
    if (!(error instanceof BqError) || error.code !== 'NOMEM') throw error;
  } finally {
    await engine.close();
  }
}

/** @param {string[]} files @param {any} options */
async function convertFile([from, to], options) {
  if (options.calibrate !== undefined) {
    const other = Object.keys(options).find((name) => !(name in COMMANDS.quantize.options));
    if (other) throw new Usage(`--${other} and --calibrate don't go together: convert first, then quantize`);
    return (await import('./quantize.js')).quantizeFile([from, to], options);
  }
  const { convert } = await import('../js/convert/index.js');
  const { convertGguf } = await import('./convert-gguf.js');
  const { formatReport } = await import('../js/format/conversion-report.js');
  const { json, 'row-scales': rowScales, 'activation-steps': activationSteps, ...rest } = options;
  const chosen = { ...rest, rowScales, activationSteps };
  let shown = 0;
  const onProgress = (/** @type {number} */ done, /** @type {number} */ total) => {
    if (!stderr.isTTY || (Date.now() - shown < 100 && done < total)) return;
    shown = Date.now();
    stderr.write(`\r${Math.floor((100 * done) / total)} %${done < total ? '' : '\n'}`);
  };
  const { HF_ENDPOINT: endpoint, HF_TOKEN: token } = process.env;
  const hub = { endpoint: endpoint || undefined, token: token || undefined };
  const convertOthers = () => convert(from, to, { ...hub, ...chosen, onProgress });
  const report = from.startsWith('hf:')
    ? await convertOthers()
    : await ggufOr(from, (file) => convertGguf(file, to, { ...chosen, onProgress }, () => mayRun(from)), convertOthers);
  stdout.write(`${json ? JSON.stringify(report, null, 2) : formatReport(report)}\n`);
}

/** Commands whose second file is made of the first. */
const REPLACES = new Set(['convert', 'quantize']);

/** Commands that take no model from the hub. */
const RUNS = new Set(['inspect', 'run', 'chat', 'embed', 'bench', 'serve']);

/** Whether both are the same file. @param {string[]} files */
async function isOneFile(files) {
  const { stat } = await import('node:fs/promises');
  const [a, b] = await Promise.all(files.map((file) => stat(file, { bigint: true }).catch(() => null)));
  return a && b && a.dev === b.dev && a.ino === b.ino;
}

/** What HELP says of one command: its line, and the options under headings that name it. @param {string | undefined} name */
function helpOf(name) {
  if (!name || !Object.hasOwn(COMMANDS, name)) return '';
  const [usage, ...sections] = HELP.split(/\n\n(?=\S)/);
  const lines = usage.split('\n').filter((line) => line.startsWith(`  bq4 ${name} `));
  const named = new RegExp(`\\b${name}\\b`);
  const own = sections.filter((section) => named.test(/Options of ([^;,:]+)/.exec(section)?.[1] ?? ''));
  return `${[...lines, ...own].join('\n\n').trimEnd()}\n`;
}

/** @param {unknown} error */
function explain(error) {
  if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')
    return `bq4: ${error.message}: the port is in use\n     choose another with --port N, or 0 for any that is free\n`;
  if (error instanceof Error && 'syscall' in error)
    return `bq4: ${error.message}\n     check the path, its permissions and the free space\n`;
  if (!(error instanceof BqError)) return `bq4: ${error instanceof Error ? error.stack : error}\n`;
  const where = error.offset === null ? '' : ` (byte ${error.offset})`;
  return `bq4: ${error.code}: ${error.message}${where}\n${error.hint ? `     ${error.hint}\n` : ''}`;
}

/** @param {string[]} args */
async function main([name, ...args]) {
  if (name === '--help' || name === '-h' || name === 'help') return void stdout.write(helpOf(args[0]) || HELP);
  if (args.includes('--help') || args.includes('-h')) return void stdout.write(helpOf(name) || HELP);
  if (name === '--version') {
    const { readFile } = await import('node:fs/promises');
    return void stdout.write(
      `${JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8')).version}\n`,
    );
  }
  const command = Object.hasOwn(COMMANDS, name ?? '') ? COMMANDS[name] : null;
  if (!command) throw new Usage(name ? `"${name}" is no command` : 'which command?');
  let parsed;
  try {
    parsed = parseArgs({ args, options: command.options, allowPositionals: true });
  } catch (error) {
    const unknown = /'--([\w-]+)/.exec(/** @type {Error} */ (error).message)?.[1];
    if (!unknown || Object.hasOwn(command.options, unknown)) throw new Usage(/** @type {Error} */ (error).message);
    throw new Usage(`${name} knows no --${unknown}: did you mean --${nearest(unknown, Object.keys(command.options))}?`);
  }
  const { length } = parsed.positionals;
  if (length < command.files || length > command.files + (command.more ?? 0))
    throw new Usage(`${name} needs ${NEEDS[name] ?? 'one file'}, not ${length}`);
  if (REPLACES.has(name) && (await isOneFile(parsed.positionals)))
    throw new Usage(`${name} would replace the file that it reads: OUT must be another one`);
  if (RUNS.has(name) && parsed.positionals[0].startsWith('hf:'))
    throw new Usage(`${name} needs a file: first bq4 convert ${parsed.positionals[0]} OUT.bq4`);
  await command.start(parsed.positionals, parsed.values);
}

// Who read what came has enough of it (`bq4 run … | head`).
stdout.on('error', (/** @type {NodeJS.ErrnoException} */ error) => process.exit(error.code === 'EPIPE' ? 0 : 1));
try {
  await main(process.argv.slice(2));
} catch (error) {
  stderr.write(error instanceof Usage ? `bq4: ${error.message}\n     see bq4 --help\n` : explain(error));
  process.exitCode = error instanceof Usage ? 2 : 1;
}
