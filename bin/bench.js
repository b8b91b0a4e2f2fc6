/** `bq4 bench`: how fast a file is on this machine, and what it takes. */
import { stdout } from 'node:process';
import { load, numberOf, Usage } from './options.js';

const TEXT = 'The sun rises over the hills, and the first birds begin to sing in the trees by the river. ';

/** The middle one. @param {number[]} values */
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** @param {any} options @param {string} name @param {number} usual */
function count(options, name, usual) {
  const number = numberOf(options, name) ?? usual;
  if (!Number.isInteger(number) || number < 1)
    throw new Usage(`--${name} is "${options[name]}", not a whole number of at least 1`);
  return number;
}

/** Ids of a plain text, so many. @param {import('../js/shared/types.js').Model} model @param {number} length */
async function promptOf(model, length) {
  const ids = await model.tokenize(TEXT);
  while (ids.length < length) ids.push(...(await model.tokenize(TEXT, { addSpecial: false })));
  return ids.slice(0, length);
}

/** One reply in a session of its own, so that nothing is known of its prompt. @param {import('../js/shared/types.js').Model} model @param {number[]} ids @param {number} maxTokens */
async function once(model, ids, maxTokens) {
  const session = await model.createSession();
  try {
    const {
      timings: { promptTokens, tokens, prefillMs, decodeMs },
    } = await session.generate(ids, { maxTokens, temperature: 0, speculate: false });
    return {
      promptTokens,
      tokens,
      prefill: (1000 * promptTokens) / prefillMs,
      decode: tokens > 1 ? (1000 * (tokens - 1)) / decodeMs : 0,
    };
  } finally {
    await session.close();
  }
}

/** Rates in tokens per second, the median of some runs. @param {import('../js/shared/types.js').Model} model @param {any} options */
async function measure(model, options) {
  const [prompt, tokens, runs] = [
    count(options, 'prompt-tokens', 256),
    count(options, 'tokens', 64),
    count(options, 'runs', 3),
  ];
  const { contextTokens: context, generates, embedding } = model.info;
  if (!generates) {
    const ids = await promptOf(model, Math.min(prompt, embedding.tokens));
    const rates = [];
    for (let i = 0; i < runs; i++) {
      const start = performance.now();
      await model.embed([ids]);
      rates.push((1000 * ids.length) / (performance.now() - start));
    }
    return { runs, promptTokens: ids.length, embed: median(rates) };
  }
  if (tokens >= context) throw new Usage(`--tokens is ${tokens}, the context ${context}`);
  const ids = await promptOf(model, Math.min(prompt, context - tokens));
  const all = [];
  for (let i = 0; i < runs; i++) all.push(await once(model, ids, tokens));
  return {
    runs,
    promptTokens: ids.length,
    tokens: all[0].tokens,
    prefill: median(all.map((one) => one.prefill)),
    decode: median(all.map((one) => one.decode)),
  };
}

/** @param {string[]} files @param {any} options */
export async function benchFile([file], options) {
  const start = performance.now();
  const { engine, model } = await load(file, options);
  try {
    const loadMs = performance.now() - start;
    const {
      name,
      fileBytes,
      weightBytes,
      heapBytes,
      kvBytes,
      contextTokens: context,
      sessions,
      kv,
      residency,
      gaveUp,
    } = model.info;
    const found = await measure(model, options);
    const memory = await model.memory();
    const { build, reason, threads, threadsReason } = engine.info;
    const plan = {
      contextTokens: context,
      sessions,
      kv,
      residency,
      gaveUp,
      fileBytes,
      weightBytes,
      kvBytes,
      heapBytes,
    };
    if (options.json)
      return void stdout.write(
        `${JSON.stringify({ file, name, build, buildReason: reason, threads, threadsReason, loadMs, ...found, memory, plan })}\n`,
      );
    const [mib, rate] = [
      (/** @type {number} */ n) => `${(n / 2 ** 20).toFixed(1)} MiB`,
      (/** @type {number} */ n) => `${n.toFixed(1)} tokens/s`,
    ];
    const rows = [
      ['engine', `${build}, ${threads} thread${threads > 1 ? 's' : ''} (${threadsReason || reason})`],
      [
        'plan',
        `context ${context}, sessions ${sessions}, kv ${kv}, ${residency}${gaveUp.map(({ what, from, to }) => `, ${what} ${to} instead of ${from}`).join('')}`,
      ],
      [
        'memory',
        `${mib(memory.total)}: weights ${mib(weightBytes)}, KV cache ${mib(kvBytes)} per session; at most ${mib(memory.peak)} were in use`,
      ],
      ['load', `${loadMs.toFixed(0)} ms, engine included`],
      ...('embed' in found
        ? [['embed', `${rate(found.embed ?? 0)}, of a text of ${found.promptTokens}`]]
        : [
            ['prefill', `${rate(found.prefill ?? 0)}, of a prompt of ${found.promptTokens}`],
            ['decode', `${rate(found.decode ?? 0)}, ${found.tokens} of them`],
          ]),
    ];
    stdout.write(`${name || file}\n${rows.map(([what, text]) => `  ${what.padEnd(9)}${text}\n`).join('')}`);
  } finally {
    await engine.close();
  }
}
