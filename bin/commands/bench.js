/** `bq4 bench`: measures the speed of a model on this machine, and the memory it takes. */
import { stdout } from 'node:process';
import { DECODE, ENGINE, flag, load, numberOf, Usage, value } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'measures how fast a model is on this machine, and the memory it takes',
  operands: 'FILE',
  loadsFile: true,
  options: {
    'prompt-tokens': value('N', 'length of the prompt in tokens (default 256)'),
    tokens: value('N', 'number of tokens to generate (default 64)'),
    runs: value('N', 'number of runs, whose median is reported (default 3)'),
    json: flag('prints one JSON object'),
    ...DECODE,
    ...ENGINE,
  },
  run: benchFile,
};

const TEXT = 'The sun rises over the hills, and the first birds begin to sing in the trees by the river. ';

/** @param {number[]} values */
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/**
 * Returns the value of an option that is an integer of at least 1. Throws Usage.
 * @param {any} options @param {string} name @param {number} defaultValue
 */
function countOf(options, name, defaultValue) {
  const number = numberOf(options, name) ?? defaultValue;
  if (!Number.isInteger(number) || number < 1)
    throw new Usage(`--${name}: expected an integer of at least 1, found "${options[name]}"`);
  return number;
}

/**
 * Returns `length` tokens of a plain text.
 * @param {import('../../js/shared/types.js').Model} model @param {number} length
 */
async function promptOf(model, length) {
  const ids = await model.tokenize(TEXT);
  while (ids.length < length) ids.push(...(await model.tokenize(TEXT, { addSpecial: false })));
  return ids.slice(0, length);
}

/**
 * Measures one reply in a new session, so that nothing of its prompt is cached.
 * @param {import('../../js/shared/types.js').Model} model @param {number[]} ids @param {number} maxTokens
 */
async function measureReply(model, ids, maxTokens) {
  const session = await model.createSession();
  try {
    const {
      usage: { promptTokens, completionTokens: tokens },
      timings: { prefillMs, decodeMs },
    } = await session.generate(ids, { maxTokens, temperature: 0, speculate: false }).result;
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

/**
 * Measures rates in tokens per second: medians of the runs.
 * @param {import('../../js/shared/types.js').Model} model @param {any} options
 */
async function measure(model, options) {
  const [prompt, tokens, runs] = [
    countOf(options, 'prompt-tokens', 256),
    countOf(options, 'tokens', 64),
    countOf(options, 'runs', 3),
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
  if (tokens >= context) throw new Usage(`--tokens: expected less than the context of ${context}, found ${tokens}`);
  const ids = await promptOf(model, Math.min(prompt, context - tokens));
  const replies = [];
  for (let i = 0; i < runs; i++) replies.push(await measureReply(model, ids, tokens));
  return {
    runs,
    promptTokens: ids.length,
    tokens: replies[0].tokens,
    prefill: median(replies.map((reply) => reply.prefill)),
    decode: median(replies.map((reply) => reply.decode)),
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
    const rates = await measure(model, options);
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
        `${JSON.stringify({ file, name, build, buildReason: reason, threads, threadsReason, loadMs, ...rates, memory, plan })}\n`,
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
        `${mib(memory.total)}: weights ${mib(weightBytes)}, KV cache ${mib(kvBytes)} per session; peak ${mib(memory.peak)}`,
      ],
      ['load', `${loadMs.toFixed(0)} ms, including the engine`],
      ...('embed' in rates
        ? [['embed', `${rate(rates.embed ?? 0)}, for a text of ${rates.promptTokens} tokens`]]
        : [
            ['prefill', `${rate(rates.prefill ?? 0)}, for a prompt of ${rates.promptTokens} tokens`],
            ['decode', `${rate(rates.decode ?? 0)}, for a reply of ${rates.tokens} tokens`],
          ]),
    ];
    stdout.write(`${name || file}\n${rows.map(([name, text]) => `  ${name.padEnd(9)}${text}\n`).join('')}`);
  } finally {
    await engine.close();
  }
}
