/** Checks that results of calls belong to calls. Templates look for the call of a result, and many pass over a result without one. */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';

/** @param {number} index  of the message @param {string} problem @param {string} [hint] */
const wrongResult = (index, problem, hint = 'results follow the message with their calls, one for each call at most') =>
  new BqError('ARGUMENT', `messages[${index}]: ${problem}`, { details: { param: 'messages', index }, hint });

/** Ids of the calls of a message; a call without one has its place. ARGUMENT: two are the same. @param {any} message @param {number} index */
function idsOf({ tool_calls: calls }, index) {
  const ids = calls.map((/** @type {any} */ call, /** @type {number} */ i) => call.id ?? `${i}`);
  const double = ids.find((/** @type {any} */ id, /** @type {number} */ i) => ids.indexOf(id) < i);
  if (double === undefined) return ids;
  throw wrongResult(index, `two calls have the id ${shown(double)}`, 'give each call of a message an id of its own');
}

/**
 * ARGUMENT: a result without a call, or a second one for a call. A result without an id is that of the call in its place; calls need not have
 * results.
 * @param {readonly any[]} messages
 */
export function checkResults(messages) {
  /** Ids of the calls whose results may come; null: there are none. @type {any[] | null} */
  let ids = null;
  /** Places of calls that have results. @type {Set<number>} */
  let answered = new Set();
  for (const [i, message] of messages.entries()) {
    const { role, tool_call_id: id, tool_calls: calls } = message;
    if (role !== 'tool') {
      ids = calls?.length ? idsOf(message, i) : null;
      answered = new Set();
      continue;
    }
    const what = `the result of a call${id === undefined ? '' : `, whose tool_call_id is ${shown(id)},`}`;
    if (!ids) throw wrongResult(i, `${what} follows no message with calls`);
    const at = id === undefined ? answered.size : ids.indexOf(id);
    if (at < 0) throw wrongResult(i, `${what} names none of the calls before it, which are ${shown(ids)}`);
    if (at >= ids.length) throw wrongResult(i, `${what} is one more than there are calls (${ids.length})`);
    if (answered.has(at)) throw wrongResult(i, `${what} is the second one of its call`);
    answered.add(at);
  }
}
