/** `model.completions.create`: OpenAI's completions, which continue a text without a chat template. */
import { follow } from '../../shared/async.js';
import { checkOptions } from '../../shared/options.js';
import { refuse, rethrowFor } from './check-fields.js';
import { checkBiases, checkGenerates, fieldsOf, generateOptions, MAX_CHOICES, wantsUsage } from './request.js';
import { generateChoices } from './choices.js';
import { ChunkStream } from './stream.js';
import { extensionsOf, finishReasonOf, headOf, namedOf, usageOf } from './usage.js';

/** @import { CreateOptions, Model, Part, Result, TextCompletion, TextCompletionRequest, TextLogprobs } from '../../shared/types.js' */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * A checked request. `echoed`: the text of each prompt, or '' without `echo`; `parallel`: number of choices to generate
 * at the same time.
 * @typedef {{ model: Model, fields: Record<string, any>, prompts: (string | number[])[], echoed: string[],
 *   head: ReturnType<typeof headOf>, usage: boolean, parallel: number }} CheckedRequest
 */

/** Returns the prompts of a request as a list. @param {any} prompt @returns {(string | number[])[]} */
export const listOf = (prompt) => (Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt : [prompt]);

/**
 * Checks a request without running the model. Throws ARGUMENT, UNSUPPORTED.
 * @param {Model} model @param {unknown} body
 */
export function checkTextRequest(model, body) {
  const fields = fieldsOf('completions.create', body);
  checkGenerates(model);
  checkBiases(fields, model);
  if (fields.prompt === undefined || !listOf(fields.prompt).length) throw refuse('prompt', 'the request has no prompt');
  const usage = wantsUsage(fields);
  generateOptions(fields); // throws before the completion starts if an option is invalid
  const prompts = listOf(fields.prompt);
  const { n = 1 } = fields;
  if (prompts.length * n > MAX_CHOICES)
    throw refuse(
      'n',
      `${prompts.length} prompts with n ${n} are ${prompts.length * n} choices; the limit is ${MAX_CHOICES}`,
      'send several requests',
    );
  return { model, fields, prompts, head: headOf('cmpl', model.info, fields.model), usage };
}

/**
 * Returns a completion, or with `stream` its chunks.
 * @param {Model} model @param {TextCompletionRequest} body @param {CreateOptions} [options]
 * @returns {Promise<TextCompletion | ChunkStream<TextCompletion>>}
 */
export async function completions(model, body, options) {
  const { signal, parallel = model.info.sessions } = checkOptions('create', options);
  const checked = checkTextRequest(model, body);
  const { fields, prompts } = checked;
  const echoed = await Promise.all(
    prompts.map((prompt) => (!fields.echo ? '' : typeof prompt === 'string' ? prompt : model.detokenize(prompt))),
  ).catch(rethrowFor('prompt'));
  const request = { ...checked, echoed, parallel };
  const lifetime = follow(signal);
  const stream = new ChunkStream(chunks(request, lifetime), lifetime.controller);
  return fields.stream ? stream : collectCompletion(request, stream);
}

/**
 * Converts log probabilities to the form of this older call.
 * @param {NonNullable<Part['logprobs']>} logprobs
 * @param {number} offset  offset of the token's text, in characters
 */
function textLogprobsOf(logprobs, offset) {
  const { token, logprob } = namedOf(logprobs);
  const top = Object.fromEntries(logprobs.top.map(namedOf).map((entry) => [entry.token, entry.logprob]));
  return { tokens: [token], token_logprobs: [logprob], top_logprobs: [top], text_offset: [offset] };
}

/** Returns the log probabilities of a part, or null if it has no text. @param {Part} part @param {number} offset */
const partLogprobsOf = ({ logprobs }, offset) => (logprobs?.bytes.length ? textLogprobsOf(logprobs, offset) : null);

/**
 * Returns the log probabilities of the tokens of a prompt. Those of the first token are null.
 * @param {Model} model
 * @param {string | number[]} prompt
 * @param {string} text  text of the prompt
 * @param {number} n  number of alternatives to each token
 * @param {AbortSignal} signal
 * @returns {Promise<TextLogprobs>}
 */
async function echoOf(model, prompt, text, n, signal) {
  const ids = typeof prompt === 'string' ? await model.tokenize(prompt) : prompt;
  const { promptLogprobs = [] } = await model.generate(ids, { maxTokens: 0, promptLogprobs: n, signal }).result;
  const first = await model.detokenize(ids.slice(0, 1));
  /** @type {TextLogprobs} */
  const echo = { tokens: [first], token_logprobs: [null], top_logprobs: [null], text_offset: [0] };
  const bytes = encoder.encode(text);
  // A beginning token, and a space that the tokenizer adds, do not count in offsets of the text.
  let at = text.startsWith(first) ? encoder.encode(first).length : 0;
  for (const logprobs of promptLogprobs) {
    const entry = textLogprobsOf(logprobs, decoder.decode(bytes.subarray(0, at)).length);
    for (const [name, list] of Object.entries(entry)) /** @type {any} */ (echo)[name].push(...list);
    at += logprobs.bytes.length - (at === 0 && logprobs.bytes[0] === 32 && bytes[0] !== 32 ? 1 : 0);
  }
  return echo;
}

/**
 * @param {CheckedRequest} request
 * @param {ReturnType<typeof follow>} lifetime
 * @returns {AsyncGenerator<TextCompletion, void>}
 */
async function* chunks(request, lifetime) {
  const { fields, prompts, head, usage, parallel } = request;
  const { n = 1 } = fields;
  const chunk = (/** @type {TextCompletion['choices']} */ choices) =>
    /** @type {TextCompletion} */ ({ ...head, object: 'text_completion', choices });
  const pieces = generateChoices(
    prompts.length * n,
    parallel,
    (index) => choice(request, index, lifetime.signal),
    () => lifetime.controller.abort(),
  );
  try {
    let step = await pieces.next();
    for (; !step.done; step = await pieces.next())
      yield chunk([/** @type {[number, TextCompletion['choices'][0]]} */ (step.value)[1]]);
    const results = step.value;
    const byPrompt = prompts.map((_, at) => results.slice(at * n, (at + 1) * n));
    if (usage || !fields.stream)
      yield {
        ...chunk([]),
        usage: usageOf(...byPrompt.map((promptResults) => [promptResults])),
        ...extensionsOf(results),
      };
  } catch (error) {
    rethrowFor('prompt')(error);
  } finally {
    await pieces.return([]);
    lifetime.release();
  }
}

/**
 * Yields the choices of the chunks of one choice.
 * @param {CheckedRequest} request
 * @param {number} index  index among the choices of all prompts
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<TextCompletion['choices'][0], Result>}
 */
async function* choice({ model, fields, prompts, echoed }, index, signal) {
  const { n = 1, logprobs } = fields;
  const at = Math.floor(index / n);
  const { [at]: text } = echoed;
  if (fields.echo) {
    const logprobsOfEcho = logprobs === undefined ? null : await echoOf(model, prompts[at], text, logprobs, signal);
    if (text || logprobsOfEcho) yield { index, text, logprobs: logprobsOfEcho, finish_reason: null };
  }
  const generation = model.generate(prompts[at], { ...generateOptions(fields, index % n), logprobs, signal });
  let offset = text.length;
  for await (const part of generation) {
    const entry = partLogprobsOf(part, offset);
    if (part.text || entry) yield { index, text: part.text, logprobs: entry, finish_reason: null };
    offset += part.text.length;
  }
  const result = await generation.result;
  yield { index, text: '', logprobs: null, finish_reason: finishReasonOf(result) };
  return result;
}

/**
 * Joins the chunks of a completion.
 * @param {CheckedRequest} request
 * @param {AsyncIterable<TextCompletion>} stream
 * @returns {Promise<TextCompletion>}
 */
async function collectCompletion({ head }, stream) {
  /** @type {TextCompletion} */
  const completion = { ...head, object: 'text_completion', choices: [] };
  for await (const { choices, usage, bq4 } of stream) {
    if (usage) completion.usage = usage;
    if (bq4) completion.bq4 = bq4;
    for (const { index, text, logprobs, finish_reason } of choices) {
      const choice = (completion.choices[index] ??= { index, text: '', logprobs: null, finish_reason: null });
      choice.text += text;
      choice.finish_reason = finish_reason;
      if (!logprobs) continue;
      const lists = (choice.logprobs ??= { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] });
      for (const [name, list] of Object.entries(logprobs)) /** @type {any} */ (lists)[name].push(...list);
    }
  }
  return completion;
}
