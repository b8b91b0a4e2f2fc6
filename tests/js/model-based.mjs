// A model-based test: random sequences of public calls on every kind of engine, compared with a small model of the sessions, which has
// their tokens. Generation is greedy, so the expected tokens are those of a session that computes the sequence from the start.
import assert from 'node:assert/strict';
import { createEngine } from '../../js/node.js';
import { connectEngine, createWorkerEngine, fromBytes } from '../../js/index.js';
import { createSharedEngine } from '../../js/remote/tabs/index.js';
import { BYTE, tinyModel } from './fixture.mjs';

/** @typedef {import('../../js/index.js').Session} Session */
/** @typedef {[name: string, ...numbers: number[]]} Step */

const CONTEXT = 96;
const SESSIONS = 3;
const LOAD = {
  contextTokens: CONTEXT,
  sessions: SESSIONS,
  forks: 2,
  forkTokens: CONTEXT,
  prefillWindow: 16,
  prefillBatch: 8,
};
/** Configurations of families whose sessions have different kinds of state. @type {Record<string, object>} */
export const CONFIGS = {
  llama: {},
  lfm2: { conv_size: 3, conv_layers: [0, 2] },
  lfm3: {
    conv_size: 5,
    conv_layers: [0, 2],
    layers: 5,
    window: 6,
    global_layers: [1, 2],
    local_theta: 100,
    norm_place: 'around',
    qk_norm: 'heads',
    attn_gate: 'heads',
  },
  granite_swa: { window: 6, global_every: 2, local_theta: 100, attn_sinks: true, rope_dim: 4, local_rope_dim: 8 },
  qwen35: {
    conv_size: 4,
    conv_layers: [0, 1],
    state_key_heads: 2,
    state_value_heads: 4,
    state_key_dim: 8,
    state_value_dim: 8,
    attn_gate: 'dims',
    qk_norm: 'heads',
  },
  falcon_h1: {
    conv_size: 4,
    conv_layers: [0, 1, 2],
    mamba: 'gate',
    attn_beside: true,
    state_key_heads: 1,
    state_value_heads: 4,
    state_key_dim: 16,
    state_value_dim: 8,
  },
  gemma4: {
    layers: 6,
    window: 5,
    global_every: 2,
    head_dim: 8,
    global_head_dim: 16,
    local_theta: 100,
    shared_kv: 3,
    shared_kv_ffn: 192,
    value_norm: true,
    layer_scale: true,
    layer_embed: 8,
    norm_place: 'around',
    qk_norm: 'heads',
    attn_scale: 1,
    activation: 'gelu',
  },
};
const THINKING = {
  roles: { user: { before: '<|user|>', after: '<|end|>' }, assistant: { before: '<|assistant|>', after: '<|end|>' } },
  think: /** @type {[string, string]} */ (['e', 'a']),
};

/** Creates an engine of each kind; `close` ends all that was created. @type {Record<string, () => Promise<{ engine: any, close: () => Promise<void> }>>} */
export const ENGINES = {
  thread: async () => {
    const engine = await createEngine({ threads: 1 });
    return { engine, close: () => engine.close() };
  },
  worker: async () => {
    const engine = await createWorkerEngine({ threads: 1 });
    return { engine, close: () => engine.close() };
  },
  port: async () => {
    const own = await createEngine({ threads: 1 });
    const engine = await connectEngine(await own.openPort());
    return { engine, close: async () => (await engine.close(), own.close()) };
  },
  'port of a worker': async () => {
    const own = await createWorkerEngine({ threads: 1 });
    const engine = await connectEngine(await own.openPort());
    return { engine, close: async () => (await engine.close(), own.close()) };
  },
  shared: async () => {
    const options = { name: `model-based ${Math.random()}`, threads: /** @type {const} */ (1) };
    const leader = await createSharedEngine(options);
    const engine = await createSharedEngine(options);
    return { engine, close: async () => (await engine.close(), leader.close()) };
  },
};

/** A generator of random integers below a limit. @param {number} seed */
function createRandom(seed) {
  let state = seed >>> 0 || 1;
  return (/** @type {number} */ limit) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % limit;
  };
}

/** Relative frequency of each step. */
const WEIGHTS = {
  generate: 4,
  leave: 6,
  abort: 3,
  both: 2,
  append: 2,
  truncate: 3,
  fork: 2,
  save: 2,
  restore: 2,
  tokens: 1,
  reply: 2,
  think: 2,
  embed: 1,
  atOnce: 1,
  throwing: 1,
  wrong: 1,
  busy: 1,
  close: 1,
  open: 1,
};
const NAMES = Object.entries(WEIGHTS).flatMap(([name, times]) => Array(times).fill(name));

/** The steps of a seed. @param {number} seed @param {number} length @returns {Step[]} */
export function stepsOf(seed, length) {
  const next = createRandom(seed);
  for (let i = 0; i < 10; i++) next(2);
  return Array.from({ length }, () => [NAMES[next(NAMES.length)], next(1000), next(1000), next(1000)]);
}

/** The expected tokens: greedy generations after a sequence, computed once for all engines. */
export class Oracle {
  #engine = createEngine({ threads: 1 });
  #model;

  /** @param {object} [config]  of CONFIGS */
  constructor(config = {}) {
    this.bytes = tinyModel({ config });
    this.#model = this.#engine.then(async (engine) =>
      engine.load(fromBytes(await this.bytes), { ...LOAD, sessions: 1, forks: 0 }),
    );
  }

  /** Results by sequence and maxTokens. @type {Map<string, { ids: number[], texts: string[], reason: string }>} */
  #results = new Map();

  /** The generation after a sequence. @param {number[]} sequence @param {number} maxTokens */
  async after(sequence, maxTokens) {
    const key = `${maxTokens} ${sequence}`;
    let result = this.#results.get(key);
    if (!result) {
      const run = (await this.#model).generate(sequence, { temperature: 0, maxTokens, speculate: false });
      const texts = [];
      for await (const { text } of run) texts.push(text);
      const { tokens: ids, finishReason: reason } = /** @type {any} */ (await run.result);
      this.#results.set(key, (result = { ids, texts, reason }));
    }
    return result;
  }

  async close() {
    await (await this.#engine).close();
  }
}

/** Random tokens. @param {number[]} numbers  of a step */
const tokensOf = ([count, first]) =>
  Array.from({ length: 1 + (count % 12) }, (_, i) => BYTE + 97 + ((first + i * 5) % 20));

/** Runs steps on an engine, and compares it with the model after each step. @param {any} engine @param {Oracle} oracle @param {Step[]} steps */
export async function compare(engine, oracle, steps) {
  const model = await engine.load(fromBytes(await oracle.bytes), LOAD);
  /** The open sessions with their expected tokens. `root`: number of the session from which it was forked, with which it shares memory. @type {{ session: Session, tokens: number[], fork: boolean, root: number }[]} */
  const open = [{ session: await model.createSession(), tokens: [], fork: false, root: 0 }];
  let roots = 1;
  /** @type {{ bytes: Uint8Array, tokens: number[] } | null} */
  let savedSession = null;

  /** A prompt that leaves at least 30 positions free; null continues the session. @param {number[]} tokens  of the session @param {number[]} numbers  of the step */
  const promptOf = (tokens, numbers) => {
    const more = tokensOf(numbers);
    const longer = [...tokens, ...more];
    if (!tokens.length) return { prompt: more, sequence: more };
    if (numbers[0] % 3 === 0 && tokens.length < CONTEXT - 30) return { prompt: null, sequence: tokens };
    return longer.length < CONTEXT - 30 ? { prompt: longer, sequence: longer } : { prompt: more, sequence: more };
  };

  /** Runs a generation, completely or until it is left or aborted, and compares its parts and its result. @param {any} entry  of `open` @param {number[]} numbers  of the step @param {'generate' | 'leave' | 'abort' | 'both'} mode @param {object} [more]  options */
  const generate = async (entry, numbers, mode, more = {}) => {
    const { prompt, sequence } = promptOf(entry.tokens, numbers);
    const maxTokens = 1 + (numbers[2] % 20);
    const expected = await oracle.after(sequence, maxTokens);
    const stop = mode === 'leave' || mode === 'abort' ? 1 + (numbers[1] % maxTokens) : Infinity;
    const controller = new AbortController();
    const options = { temperature: 0, maxTokens, ...more, ...(mode === 'abort' && { signal: controller.signal }) };
    const run = prompt ? entry.session.generate(prompt, options) : entry.session.continue(options);
    /** @type {any[]} */
    const parts = [];
    const earlyResult = mode === 'both' ? run.result : null;
    earlyResult?.catch(() => {}); // The loop below throws the same error.
    let errorName = null;
    try {
      for await (const part of run) {
        if (parts.push(part) < stop) continue;
        if (mode === 'leave') break;
        controller.abort();
      }
    } catch (error) {
      errorName = /** @type {any} */ (error).name;
    }
    const count = Math.min(stop, expected.ids.length);
    const complete = count === expected.ids.length;
    const reason = complete ? expected.reason : 'abort';
    assert.deepEqual(
      parts.map(({ token }) => token),
      expected.ids.slice(0, count),
      'parts',
    );
    assert.equal(errorName, mode === 'abort' && !complete ? 'AbortError' : null, 'name of the error');
    const result = await run.result;
    assert.deepEqual(
      [result.tokens, result.text, result.finishReason, result.usage.completionTokens],
      [expected.ids.slice(0, count), expected.texts.slice(0, count).join(''), reason, count],
      'result',
    );
    if (earlyResult) assert.equal(await earlyResult, result, '`result` read before the loop');
    entry.tokens = [...sequence, ...expected.ids.slice(0, count)];
  };

  /** Generates a reply, completely or in part, and compares its parts with its result. */
  const reply = async (/** @type {number[]} */ numbers, /** @type {object} */ more) => {
    const messages = [{ role: 'user', content: String.fromCharCode(97 + (numbers[0] % 26), 97 + (numbers[1] % 26)) }];
    const run = model.generate(messages, { temperature: 0, maxTokens: 1 + (numbers[2] % 9), ...more });
    const stream = { text: '', reasoning: '' };
    /** @type {any} */
    let last = null;
    let count = 0;
    const stop = numbers[1] % 2 ? Infinity : 1 + (numbers[0] % 5);
    for await (const part of run) {
      stream.text += part.text;
      stream.reasoning += part.reasoning ?? '';
      last = part;
      if (++count === stop) break;
    }
    const { tokens: ids, text, reasoning = '', finishReason: reason } = await run.result;
    assert.deepEqual([text, reasoning, ids.at(-1)], [stream.text, stream.reasoning, last.token], 'parts of the reply');
    return { ids, reason, text, reasoning };
  };

  /** The steps by name. @type {Record<string, (entry: (typeof open)[number], numbers: number[]) => Promise<unknown>>} */
  const actions = {
    generate: (entry, numbers) => generate(entry, numbers, 'generate'),
    leave: (entry, numbers) => generate(entry, numbers, 'leave'),
    abort: (entry, numbers) => generate(entry, numbers, 'abort'),
    both: (entry, numbers) => generate(entry, numbers, 'both'),
    async append(entry, numbers) {
      const more = tokensOf(numbers);
      if (entry.tokens.length + more.length > CONTEXT)
        return void (await assert.rejects(entry.session.append(more), { code: 'CONTEXT_FULL' }));
      await entry.session.append(more);
      entry.tokens = [...entry.tokens, ...more];
    },
    async truncate(entry, [at]) {
      if (!entry.tokens.length) return void (await assert.rejects(entry.session.truncate(1), { code: 'ARGUMENT' }));
      entry.tokens = entry.tokens.slice(0, 1 + (at % entry.tokens.length));
      await entry.session.truncate(entry.tokens.length);
    },
    async fork(entry) {
      if (open.filter(({ fork, root }) => fork && root === entry.root).length >= LOAD.forks) return;
      open.push({ session: await entry.session.fork(), tokens: [...entry.tokens], fork: true, root: entry.root });
    },
    async save(entry) {
      if (entry.tokens.length) savedSession = { bytes: await entry.session.save(), tokens: [...entry.tokens] };
    },
    async restore(entry) {
      if (!savedSession) return;
      await entry.session.restore(savedSession.bytes.slice());
      entry.tokens = [...savedSession.tokens];
    },
    async tokens(entry) {
      assert.equal((await entry.session.stats()).tokens, entry.tokens.length);
    },
    reply: (_, numbers) => reply(numbers, {}),
    think: (_, numbers) => reply(numbers, { chatFormat: THINKING }),
    async embed(_, [a, b]) {
      const texts = [`x${a % 7}`, `y${b % 7}`];
      const [first, second] = await Promise.all([model.embed([texts[0]]), model.embed([texts[1]])]);
      assert.deepEqual((await model.embed(texts)).vectors, [...first.vectors, ...second.vectors]);
    },
    async atOnce(entry, numbers) {
      const controller = new AbortController();
      const aborted = model.generate('x', { signal: controller.signal, temperature: 0 }).result;
      const calls = [generate(entry, numbers, 'generate'), reply(numbers, {}), reply(numbers, {}), reply(numbers, {})];
      controller.abort();
      await assert.rejects(aborted, { name: 'AbortError' });
      const [, ...replies] = await Promise.all(calls);
      for (const other of replies) assert.deepEqual(other, replies[0]);
    },
    async throwing(entry, numbers) {
      const { error } = console;
      console.error = () => {};
      const onProgress = () => {
        throw new Error('of the page');
      };
      await generate(entry, numbers, 'generate', { onProgress }).finally(() => (console.error = error));
    },
    async wrong(entry) {
      await assert.rejects(entry.session.continue({ maxTokens: 1.5 }).result, { code: 'ARGUMENT' });
      await assert.rejects(entry.session.truncate(entry.tokens.length + 1), { code: 'ARGUMENT' });
    },
    // While a generation is read, the session refuses other calls, and the generation continues.
    async busy(entry, numbers) {
      const { prompt, sequence } = promptOf(entry.tokens, numbers);
      const { ids } = await oracle.after(sequence, 12);
      const options = { temperature: 0, maxTokens: 12 };
      const run = prompt ? entry.session.generate(prompt, options) : entry.session.continue(options);
      let count = 0;
      for await (const part of run) {
        assert.equal(part.token, ids[count++]);
        if (count === 2) await assert.rejects(entry.session.truncate(1), { code: 'STATE' });
      }
      entry.tokens = [...sequence, ...ids];
    },
    async close(entry) {
      if (open.length < 2) return;
      open.splice(open.indexOf(entry), 1);
      await entry.session.close();
      await assert.rejects(entry.session.tokens(), { code: 'CLOSED' });
    },
    async open() {
      // One session stays free for replies.
      if (open.filter(({ fork }) => !fork).length < SESSIONS - 1)
        open.push({ session: await model.createSession(), tokens: [], fork: false, root: roots++ });
    },
  };

  try {
    for (const [at, [name, index, ...numbers]] of steps.entries()) {
      const entry = open[index % open.length];
      try {
        await actions[name](entry, [...numbers, index]);
        for (const { session, tokens } of open) assert.deepEqual(await session.tokens(), tokens, 'tokens of a session');
      } catch (error) {
        throw new Error(`step ${at}, ${name}: ${/** @type {Error} */ (error).message}`, { cause: error });
      }
    }
  } finally {
    await model.close();
  }
}

/**
 * Shortens a failing sequence by leaving out steps, as long as it still fails.
 * @param {(steps: Step[]) => Promise<void>} run @param {Step[]} steps @param {number} [tries]  maximum number of runs
 */
export async function shrink(run, steps, tries = 60) {
  for (let size = steps.length >> 1; size > 0; size >>= 1)
    for (let at = 0; at < steps.length && tries > 0; tries--) {
      const fewer = [...steps.slice(0, at), ...steps.slice(at + size)];
      const fails = await run(fewer).then(
        () => false,
        () => true,
      );
      if (fails) steps = fewer;
      else at += size;
    }
  return steps;
}

/**
 * Runs sequences on an engine. The error of a failing one has its seed, for BQ4_SEED, and the shortest sequence that fails.
 * @param {string} name  of the engine @param {number[]} seeds @param {number} length @param {Oracle} oracle
 */
export async function runSequences(name, seeds, length, oracle) {
  const { engine, close } = await ENGINES[name]();
  try {
    for (const seed of seeds) {
      const steps = stepsOf(seed, length);
      try {
        await compare(engine, oracle, steps);
      } catch (error) {
        const shortest = await shrink((fewer) => compare(engine, oracle, fewer), steps);
        throw new Error(
          `engine "${name}", BQ4_SEED=${seed}: ${/** @type {Error} */ (error).message}\n${JSON.stringify(shortest)}`,
          { cause: error },
        );
      }
    }
  } finally {
    await close();
  }
}
