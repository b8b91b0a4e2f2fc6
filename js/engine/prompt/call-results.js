/**
 * Checks that each result belongs to a call. Templates search the call of a result, and many ignore a result without a
 * call.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';

/** @param {number} index  of the message @param {string} problem @param {string} [hint] */
const wrongResult = (
  index,
  problem,
  hint = 'put results after the message with their calls, at most one for each call',
) => new BqError('ARGUMENT', `messages[${index}]: ${problem}`, { details: { param: 'messages', index }, hint });

/**
 * Returns the ids of the calls of a message; the index for a call without an id. Throws ARGUMENT if two ids are equal.
 * @param {any} message @param {number} index
 */
function idsOf({ tool_calls: calls }, index) {
  const ids = calls.map((/** @type {any} */ call, /** @type {number} */ i) => call.id ?? `${i}`);
  const duplicate = ids.find((/** @type {any} */ id, /** @type {number} */ i) => ids.indexOf(id) < i);
  if (duplicate === undefined) return ids;
  throw wrongResult(
    index,
    `two calls have the id ${shown(duplicate)}`,
    'use a different id for each call of a message',
  );
}

/**
 * Throws ARGUMENT for calls of another role than the assistant, for a result without a call, and for the second result
 * of a call. A result without an id belongs to the call at its position. Calls without results are allowed.
 * @param {readonly any[]} messages
 */
export function checkResults(messages) {
  /** Ids of the calls whose results may follow; null: no calls precede. @type {any[] | null} */
  let ids = null;
  /** Indices of calls that have results. @type {Set<number>} */
  let answered = new Set();
  for (const [i, message] of messages.entries()) {
    const { role, tool_call_id: id, tool_calls: calls } = message;
    if (role !== 'tool') {
      if (calls?.length && role !== 'assistant')
        throw wrongResult(i, `only the assistant can have tool_calls, found the role ${shown(role)}`, 'omit them');
      ids = calls?.length ? idsOf(message, i) : null;
      answered = new Set();
      continue;
    }
    const subject = `the tool result${id === undefined ? '' : ` with the tool_call_id ${shown(id)}`}`;
    if (!ids) throw wrongResult(i, `${subject} does not follow a message with calls`);
    const at = id === undefined ? answered.size : ids.indexOf(id);
    if (at < 0) throw wrongResult(i, `${subject} has no call; the calls before it are ${shown(ids)}`);
    if (at >= ids.length)
      throw wrongResult(i, `${subject} has no call; the number of calls before it is ${ids.length}`);
    if (answered.has(at)) throw wrongResult(i, `${subject} is the second result of its call`);
    answered.add(at);
  }
}
