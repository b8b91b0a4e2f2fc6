/** One choice of a chat completion as it is generated: text, and calls of tools, whose arguments are held to their schema. */
import { generateOptions } from './request.js';
import { callsOf, plainly, schemaOf, styleOf, toolsOf, withArguments } from './tools.js';

/** @import { CompleteOptions, FinishReason, GenerateOptions, Model, Part, Result, ToolCall } from '../shared/types.js' */
/** @import { Style } from './tools.js' */

/** What of an answer is there. @typedef {{ part?: Part, calls?: ToolCall[] }} Piece */
/** How it ended: the results of what was generated, the first one's prompt being the whole answer's. @typedef {{ results: Result[], finish: FinishReason }} End */

/** @param {Result} result @returns {'stop' | 'length'} */
const finished = ({ reason }) => (reason === 'stop' ? 'stop' : 'length');

/**
 * @param {Model} model @param {Record<string, any>} fields @param {any[]} messages @param {number} index @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<Piece, End>}
 */
export async function* answer(model, fields, messages, index, signal) {
  const { logprobs, top_logprobs = 0, chat_template_kwargs: variables, tools } = fields;
  const may = toolsOf(fields);
  const style = styleOf(model.info);
  const all = withArguments(messages);
  const given = style.known ? all : plainly(all, may ? tools : []);
  /** @type {CompleteOptions} */
  const options = {
    ...generateOptions(fields, index),
    logprobs: logprobs ? top_logprobs : undefined,
    tools: may && style.known ? tools : undefined,
    variables,
    signal,
  };
  if (!may) {
    const run = model.reply(given, options);
    for await (const part of run) yield { part };
    const result = await run.done();
    return { results: [result], finish: finished(result) };
  }
  return yield* withCalls(model, given, options, {
    ...may,
    style,
    one: may.must || fields.parallel_tool_calls === false,
  });
}

/**
 * Text up to a call, the call, and so on.
 * @param {Model} model @param {any[]} messages @param {CompleteOptions} options
 * @param {{ tools: any[], must: boolean, style: Style, one: boolean }} how  `one`: nothing comes behind a call
 * @returns {AsyncGenerator<Piece, End>}
 */
async function* withCalls(model, messages, options, { tools, must, style, one }) {
  const { trigger, open, close } = style;
  const special = trigger ? await model.tokenId(trigger) : null;
  const format = /** @type {const} */ ({ type: 'json_schema', schema: schemaOf(tools, style) });
  /** @type {Result[]} */
  const results = [];
  let prefix = '';
  let called = false;
  const left = () =>
    options.maxTokens === undefined
      ? undefined
      : options.maxTokens - results.reduce((sum, { ids }) => sum + ids.length, 0);
  for (;;) {
    if (!must || called) {
      const stop = [options.stop ?? [], trigger].flat().filter(Boolean);
      const run = model.reply(messages, {
        ...options,
        prefix,
        stop,
        stopTokens: special === null ? [] : [special],
        maxTokens: left(),
      });
      let text = '';
      let begins = false;
      for await (const part of run) {
        text += part.text;
        begins = !trigger && /^\s*\{/.test(text);
        if (begins) break;
        // White space between calls is nobody's answer.
        if (!called || text.trim()) yield { part };
      }
      const result = await run.done();
      results.push(result);
      if (!begins && result.stop !== trigger && (special === null || result.stop !== special))
        return { results, finish: called ? 'tool_calls' : finished(result) };
      if (!begins) prefix += text;
    }
    const run = model.reply(messages, {
      ...options,
      prefix: prefix + open,
      responseFormat: format,
      logprobs: undefined,
      stop: undefined,
      maxTokens: left(),
    });
    const result = await run.done();
    results.push(result);
    const calls = callsOf(result.text, style);
    if (!calls) return { results, finish: 'length' };
    yield { calls };
    called = true;
    if (one || style.list || !trigger) return { results, finish: 'tool_calls' };
    prefix += open + result.text + close;
  }
}
