/** `model.completions.create`: OpenAI's completions, of a text as it is. */
import { follow } from '../../shared/async.js';
import { checkOptions } from '../../shared/options.js';
import { refuse } from './check-fields.js';
import { checkGenerates, fieldsOf, generateOptions, MOST_CHOICES, wantsUsage } from './request.js';
import { several } from './choices.js';
import { ChunkStream } from './stream.js';
import { extensionsOf, finished, headOf, namedOf, usageOf } from './usage.js';

/** @import { CreateOptions, Model, Part, Result, TextCompletion, TextCompletionRequest, TextLogprobs } from '../../shared/types.js' */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** @typedef {{ model: Model, fields: Record<string, any>, prompts: (string | number[])[], echoed: string[], head: ReturnType<typeof headOf>, usage: boolean, most: number }} Asked */

/** Prompts of a request: one, or several. @param {any} prompt @returns {(string | number[])[]} */
export const listOf = (prompt) => (Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt : [prompt]);

/**
 * A completion, or with `stream` its chunks.
 * @param {Model} model @param {TextCompletionRequest} body @param {CreateOptions} [options]
 * @returns {Promise<TextCompletion | ChunkStream<TextCompletion>>}
 */
export async function completions(model, body, options) {
  const { signal, parallel: most = model.info.sessions } = checkOptions('create', options);
  const fields = fieldsOf('completions.create', body);
  checkGenerates(model);
  if (fields.prompt === undefined || !listOf(fields.prompt).length) throw refuse('prompt', 'the request has no prompt');
  const usage = wantsUsage(fields);
  generateOptions(fields); // what is wrong with it is told at once
  const prompts = listOf(fields.prompt);
  const { n = 1 } = fields;
  if (prompts.length * n > MOST_CHOICES)
    throw refuse(
      'n',
      `${prompts.length} prompts with n ${n} are ${prompts.length * n} choices, at most ${MOST_CHOICES}`,
      'send several requests',
    );
  const echoed = await Promise.all(
    prompts.map((prompt) => (!fields.echo ? '' : typeof prompt === 'string' ? prompt : model.detokenize(prompt))),
  );
  const asked = { model, fields, prompts, echoed, head: headOf('cmpl', model.info, fields.model), usage, most };
  const life = follow(signal);
  const made = new ChunkStream(chunks(asked, life), life.controller);
  return fields.stream ? made : whole(asked, made);
}

/** Likelihoods as this call has always had them. @param {NonNullable<Part['logprobs']>} logprobs @param {number} offset  of its text */
function legacyOf(logprobs, offset) {
  const { token, logprob } = namedOf(logprobs);
  const top = Object.fromEntries(logprobs.top.map(namedOf).map((one) => [one.token, one.logprob]));
  return { tokens: [token], token_logprobs: [logprob], top_logprobs: [top], text_offset: [offset] };
}

/** Of a part; one that has no text has none. @param {Part} part @param {number} offset */
const legacy = ({ logprobs }, offset) => (logprobs?.bytes.length ? legacyOf(logprobs, offset) : null);

/**
 * Likelihoods of a prompt's tokens; the first has none.
 * @param {Model} model @param {string | number[]} prompt @param {string} text  that is echoed @param {number} n  others of each @param {AbortSignal} signal
 * @returns {Promise<TextLogprobs>}
 */
async function echoOf(model, prompt, text, n, signal) {
  const ids = typeof prompt === 'string' ? await model.tokenize(prompt) : prompt;
  const { promptLogprobs = [] } = await model.generate(ids, { maxTokens: 0, promptLogprobs: n, signal }).result;
  const first = await model.detokenize(ids.slice(0, 1));
  /** @type {TextLogprobs} */
  const all = { tokens: [first], token_logprobs: [null], top_logprobs: [null], text_offset: [0] };
  const bytes = encoder.encode(text);
  // A token in front that is not of the text, and a space that a tokenizer puts there, take no place in it.
  let at = text.startsWith(first) ? encoder.encode(first).length : 0;
  for (const one of promptLogprobs) {
    const told = legacyOf(one, decoder.decode(bytes.subarray(0, at)).length);
    for (const [name, list] of Object.entries(told)) /** @type {any} */ (all)[name].push(...list);
    at += one.bytes.length - (at === 0 && one.bytes[0] === 32 && bytes[0] !== 32 ? 1 : 0);
  }
  return all;
}

/** @param {Asked} asked @param {ReturnType<typeof follow>} life @returns {AsyncGenerator<TextCompletion, void>} */
async function* chunks(asked, life) {
  const { fields, prompts, head, usage, most } = asked;
  const { n = 1 } = fields;
  const chunk = (/** @type {TextCompletion['choices']} */ choices) =>
    /** @type {TextCompletion} */ ({ ...head, object: 'text_completion', choices });
  const pieces = several(
    prompts.length * n,
    most,
    (index) => choice(asked, index, life.signal),
    () => life.controller.abort(),
  );
  try {
    let step = await pieces.next();
    for (; !step.done; step = await pieces.next())
      yield chunk([/** @type {[number, TextCompletion['choices'][0]]} */ (step.value)[1]]);
    const results = step.value;
    const byPrompt = prompts.map((_, at) => results.slice(at * n, (at + 1) * n));
    if (usage || !fields.stream)
      yield { ...chunk([]), usage: usageOf(...byPrompt.map((all) => [all])), ...extensionsOf(results) };
  } finally {
    await pieces.return([]);
    life.release();
  }
}

/**
 * What comes of one choice.
 * @param {Asked} asked @param {number} index  of all choices of all prompts @param {AbortSignal} signal
 * @returns {AsyncGenerator<TextCompletion['choices'][0], Result>}
 */
async function* choice({ model, fields, prompts, echoed }, index, signal) {
  const { n = 1, logprobs } = fields;
  const at = Math.floor(index / n);
  const { [at]: text } = echoed;
  if (fields.echo) {
    const told = logprobs === undefined ? null : await echoOf(model, prompts[at], text, logprobs, signal);
    if (text || told) yield { index, text, logprobs: told, finish_reason: null };
  }
  const run = model.generate(prompts[at], { ...generateOptions(fields, index % n), logprobs, signal });
  let offset = text.length;
  for await (const part of run) {
    const told = legacy(part, offset);
    if (part.text || told) yield { index, text: part.text, logprobs: told, finish_reason: null };
    offset += part.text.length;
  }
  const result = await run.result;
  yield { index, text: '', logprobs: null, finish_reason: finished(result) };
  return result;
}

/** Its chunks put together. @param {Asked} asked @param {AsyncIterable<TextCompletion>} made @returns {Promise<TextCompletion>} */
async function whole({ head }, made) {
  /** @type {TextCompletion} */
  const all = { ...head, object: 'text_completion', choices: [] };
  for await (const { choices, usage, bq4 } of made) {
    if (usage) all.usage = usage;
    if (bq4) all.bq4 = bq4;
    for (const { index, text, logprobs, finish_reason } of choices) {
      const choice = (all.choices[index] ??= { index, text: '', logprobs: null, finish_reason: null });
      choice.text += text;
      choice.finish_reason = finish_reason;
      if (!logprobs) continue;
      const known = (choice.logprobs ??= { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] });
      for (const [name, list] of Object.entries(logprobs)) /** @type {any} */ (known)[name].push(...list);
    }
  }
  return all;
}
