// Random sequences of public calls on every kind of engine, compared with a small model of what sessions hold. Generation is greedy,
// so which tokens follow a timeline is known from a session that computes it anew.
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
/** What a session holds beside keys and values of all layers, by the family that has it. @type {Record<string, object>} */
export const CONFIGS = {
  llama: {},
  lfm2: { conv_size: 3, conv_layers: [0, 2] },
  qwen35: {
    conv_size: 4,
    conv_layers: [0, 1],
    state_key_heads: 2,
    state_value_heads: 4,
    state_key_dim: 8,
    state_value_dim: 8,
    attn_gate: true,
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

/** Each gives an engine, and what ends it. @type {Record<string, () => Promise<{ engine: any, close: () => Promise<void> }>>} */
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

/** Whole numbers below a limit. @param {number} seed */
function numbers(seed) {
  let state = seed >>> 0 || 1;
  return (/** @type {number} */ limit) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % limit;
  };
}

/** What each step does, by the number of times that it is among those to choose from. */
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

/** @param {number} seed @param {number} length @returns {Step[]} */
export function stepsOf(seed, length) {
  const next = numbers(seed);
  for (let i = 0; i < 10; i++) next(2);
  return Array.from({ length }, () => [NAMES[next(NAMES.length)], next(1000), next(1000), next(1000)]);
}

/** What greedy generation gives behind a timeline, computed once for all engines. */
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

  /** @type {Map<string, { ids: number[], texts: string[], reason: string }>} */
  #known = new Map();

  /** @param {number[]} sequence @param {number} maxTokens */
  async after(sequence, maxTokens) {
    const key = `${maxTokens} ${sequence}`;
    let known = this.#known.get(key);
    if (!known) {
      const run = (await this.#model).generate(sequence, { temperature: 0, maxTokens, speculate: false });
      const texts = [];
      for await (const { text } of run) texts.push(text);
      const { tokens: ids, finishReason: reason } = /** @type {any} */ (await run.result);
      this.#known.set(key, (known = { ids, texts, reason }));
    }
    return known;
  }

  async close() {
    await (await this.#engine).close();
  }
}

/** @param {number[]} numbers  of a step */
const tokensOf = ([count, first]) =>
  Array.from({ length: 1 + (count % 12) }, (_, i) => BYTE + 97 + ((first + i * 5) % 20));

/** Does steps on an engine, and compares after each of them. @param {any} engine @param {Oracle} oracle @param {Step[]} steps */
export async function compare(engine, oracle, steps) {
  const model = await engine.load(fromBytes(await oracle.bytes), LOAD);
  /** What is open, the tokens that it should have, and the session that it was forked from, whose room it shares. @type {{ session: Session, tokens: number[], fork: boolean, root: number }[]} */
  const open = [{ session: await model.createSession(), tokens: [], fork: false, root: 0 }];
  let roots = 1;
  /** @type {{ bytes: Uint8Array, tokens: number[] } | null} */
  let saved = null;

  /** A prompt with room behind it, so that a step can be what it is called. @param {number[]} tokens @param {number[]} given */
  const promptOf = (tokens, given) => {
    const more = tokensOf(given);
    const whole = [...tokens, ...more];
    if (!tokens.length) return { prompt: more, sequence: more };
    if (given[0] % 3 === 0 && tokens.length < CONTEXT - 30) return { prompt: null, sequence: tokens };
    return whole.length < CONTEXT - 30 ? { prompt: whole, sequence: whole } : { prompt: more, sequence: more };
  };

  /** Reads a generation as far as it is to be read. @param {any} one @param {number[]} given @param {'generate' | 'leave' | 'abort' | 'both'} how @param {object} [more] */
  const generate = async (one, given, how, more = {}) => {
    const { prompt, sequence } = promptOf(one.tokens, given);
    const maxTokens = 1 + (given[2] % 20);
    const wanted = await oracle.after(sequence, maxTokens);
    const stop = how === 'leave' || how === 'abort' ? 1 + (given[1] % maxTokens) : Infinity;
    const controller = new AbortController();
    const options = { temperature: 0, maxTokens, ...more, ...(how === 'abort' && { signal: controller.signal }) };
    const run = prompt ? one.session.generate(prompt, options) : one.session.continue(options);
    /** @type {any[]} */
    const parts = [];
    const beside = how === 'both' ? run.result : null;
    beside?.catch(() => {}); // the loop fails with the same
    let thrown = null;
    try {
      for await (const part of run) {
        if (parts.push(part) < stop) continue;
        if (how === 'leave') break;
        controller.abort();
      }
    } catch (error) {
      thrown = /** @type {any} */ (error).name;
    }
    const read = Math.min(stop, wanted.ids.length);
    const whole = read === wanted.ids.length;
    const reason = whole ? wanted.reason : 'abort';
    assert.deepEqual(
      parts.map(({ token }) => token),
      wanted.ids.slice(0, read),
      'parts',
    );
    assert.equal(thrown, how === 'abort' && !whole ? 'AbortError' : null, 'what is thrown');
    const result = await run.result;
    assert.deepEqual(
      [result.tokens, result.text, result.finishReason, result.usage.completionTokens],
      [wanted.ids.slice(0, read), wanted.texts.slice(0, read).join(''), reason, read],
      'result',
    );
    if (beside) assert.equal(await beside, result, 'the result beside the loop');
    one.tokens = [...sequence, ...wanted.ids.slice(0, read)];
  };

  const reply = async (/** @type {number[]} */ given, /** @type {object} */ more) => {
    const messages = [{ role: 'user', content: String.fromCharCode(97 + (given[0] % 26), 97 + (given[1] % 26)) }];
    const run = model.generate(messages, { temperature: 0, maxTokens: 1 + (given[2] % 9), ...more });
    const report = { text: '', reasoning: '' };
    /** @type {any} */
    let last = null;
    let count = 0;
    const stop = given[1] % 2 ? Infinity : 1 + (given[0] % 5);
    for await (const part of run) {
      report.text += part.text;
      report.reasoning += part.reasoning ?? '';
      last = part;
      if (++count === stop) break;
    }
    const { tokens: ids, text, reasoning = '', finishReason: reason } = await run.result;
    assert.deepEqual(
      [text, reasoning, ids.at(-1)],
      [report.text, report.reasoning, last.token],
      'the reply that was read',
    );
    return { ids, reason, text, reasoning };
  };

  /** @type {Record<string, (one: (typeof open)[number], given: number[]) => Promise<unknown>>} */
  const acts = {
    generate: (one, given) => generate(one, given, 'generate'),
    leave: (one, given) => generate(one, given, 'leave'),
    abort: (one, given) => generate(one, given, 'abort'),
    both: (one, given) => generate(one, given, 'both'),
    async append(one, given) {
      const more = tokensOf(given);
      if (one.tokens.length + more.length > CONTEXT)
        return void (await assert.rejects(one.session.append(more), { code: 'CONTEXT_FULL' }));
      await one.session.append(more);
      one.tokens = [...one.tokens, ...more];
    },
    async truncate(one, [at]) {
      if (!one.tokens.length) return void (await assert.rejects(one.session.truncate(1), { code: 'ARGUMENT' }));
      one.tokens = one.tokens.slice(0, 1 + (at % one.tokens.length));
      await one.session.truncate(one.tokens.length);
    },
    async fork(one) {
      if (open.filter(({ fork, root }) => fork && root === one.root).length >= LOAD.forks) return;
      open.push({ session: await one.session.fork(), tokens: [...one.tokens], fork: true, root: one.root });
    },
    async save(one) {
      if (one.tokens.length) saved = { bytes: await one.session.save(), tokens: [...one.tokens] };
    },
    async restore(one) {
      if (!saved) return;
      await one.session.restore(saved.bytes.slice());
      one.tokens = [...saved.tokens];
    },
    async tokens(one) {
      assert.equal((await one.session.stats()).tokens, one.tokens.length);
    },
    reply: (_, given) => reply(given, {}),
    think: (_, given) => reply(given, { chatFormat: THINKING }),
    async embed(_, [a, b]) {
      const texts = [`x${a % 7}`, `y${b % 7}`];
      const [one, two] = await Promise.all([model.embed([texts[0]]), model.embed([texts[1]])]);
      assert.deepEqual((await model.embed(texts)).vectors, [...one.vectors, ...two.vectors]);
    },
    async atOnce(one, given) {
      const controller = new AbortController();
      const aborted = model.generate('x', { signal: controller.signal, temperature: 0 }).result;
      const calls = [generate(one, given, 'generate'), reply(given, {}), reply(given, {}), reply(given, {})];
      controller.abort();
      await assert.rejects(aborted, { name: 'AbortError' });
      const [, ...replies] = await Promise.all(calls);
      for (const other of replies) assert.deepEqual(other, replies[0]);
    },
    async throwing(one, given) {
      const { error } = console;
      console.error = () => {};
      const onProgress = () => {
        throw new Error('of the page');
      };
      await generate(one, given, 'generate', { onProgress }).finally(() => (console.error = error));
    },
    async wrong(one) {
      await assert.rejects(one.session.continue({ maxTokens: 1.5 }).result, { code: 'ARGUMENT' });
      await assert.rejects(one.session.truncate(one.tokens.length + 1), { code: 'ARGUMENT' });
    },
    // While a generation is read, the session refuses other work, and goes on unharmed.
    async busy(one, given) {
      const { prompt, sequence } = promptOf(one.tokens, given);
      const { ids } = await oracle.after(sequence, 12);
      const options = { temperature: 0, maxTokens: 12 };
      const run = prompt ? one.session.generate(prompt, options) : one.session.continue(options);
      let count = 0;
      for await (const part of run) {
        assert.equal(part.token, ids[count++]);
        if (count === 2) await assert.rejects(one.session.truncate(1), { code: 'STATE' });
      }
      one.tokens = [...sequence, ...ids];
    },
    async close(one) {
      if (open.length < 2) return;
      open.splice(open.indexOf(one), 1);
      await one.session.close();
      await assert.rejects(one.session.tokens(), { code: 'CLOSED' });
    },
    async open() {
      // One stays for replies.
      if (open.filter(({ fork }) => !fork).length < SESSIONS - 1)
        open.push({ session: await model.createSession(), tokens: [], fork: false, root: roots++ });
    },
  };

  try {
    for (const [at, [name, which, ...given]] of steps.entries()) {
      const one = open[which % open.length];
      try {
        await acts[name](one, [...given, which]);
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
 * A sequence that fails, as short as leaving out steps makes it.
 * @param {(steps: Step[]) => Promise<void>} run @param {Step[]} steps @param {number} [tries]
 */
export async function shrunk(run, steps, tries = 60) {
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
 * Runs sequences on an engine. What fails is told with its seed, which BQ4_SEED takes, and the shortest sequence that fails.
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
        const least = await shrunk((fewer) => compare(engine, oracle, fewer), steps);
        throw new Error(
          `engine "${name}", BQ4_SEED=${seed}: ${/** @type {Error} */ (error).message}\n${JSON.stringify(least)}`,
          { cause: error },
        );
      }
    }
  } finally {
    await close();
  }
}
