/**
 * Normalizes answers of servers to OpenAI's form. Many compatible servers omit members or use other forms: calls
 * without an `index`, or all with 0; an `id` in each piece of a call; arguments as an object; contents as lists of
 * parts; null for missing members.
 */

/** The received part of a tool call. @typedef {{ index: number, id: string, name: string, input: string }} Call */

/**
 * Joins the texts of a message's content.
 * @param {any} content
 * @param {string} type  type of the parts
 * @returns {string | null}
 */
function textOf(content, type) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return null;
  const parts = content.filter((part) => typeof part === 'string' || part?.type === type);
  return parts.map((part) => (typeof part === 'string' ? part : (textOf(part[type], 'text') ?? ''))).join('');
}

/** Returns the arguments of a call as a string. @param {any} input */
const inputOf = (input) => (typeof input === 'string' ? input : input ? JSON.stringify(input) : '');

/** @param {string} text */
function isJson(text) {
  try {
    return typeof JSON.parse(text) === 'object';
  } catch {
    return false;
  }
}

/** Assembles the tool calls of one choice from their pieces. */
class Calls {
  /** @type {Call[]} */
  #calls = [];
  /** Calls by the server's `index`. @type {Map<unknown, Call>} */
  #byIndex = new Map();

  /**
   * Returns the call that a piece continues, or undefined if it begins another call.
   * @param {any} piece
   * @returns {Call | undefined}
   */
  #findCall({ id, index, function: callFunction }) {
    const sameId = id && this.#calls.find((call) => call.id === id);
    if (sameId) return sameId;
    const last = typeof index === 'number' ? this.#byIndex.get(index) : this.#calls.at(-1);
    if (!last || !callFunction?.name) return last;
    // A piece with a name begins another call. Exceptions are servers that repeat the name, or send it in pieces,
    // before the arguments are complete.
    const isRepeated = !last.input || (callFunction.name === last.name && !isJson(last.input));
    return (id && id !== last.id) || typeof index !== 'number' || !isRepeated ? undefined : last;
  }

  /** Normalizes a piece of a call. @param {any} piece  a piece from a delta, or a complete call @returns {object} */
  read(piece) {
    const { id, index, function: callFunction } = piece;
    const existing = this.#findCall(piece);
    const at = this.#calls.length;
    const call = existing ?? { index: at, id: id || `call_${at}`, name: '', input: '' };
    if (!existing) this.#calls.push(call);
    if (typeof index === 'number') this.#byIndex.set(index, call);
    const name = callFunction?.name && callFunction.name !== call.name ? callFunction.name : '';
    const input = inputOf(callFunction?.arguments);
    call.name += name;
    call.input += input;
    return {
      ...piece,
      index: call.index,
      ...(existing ? { id: undefined } : { id: call.id, type: 'function' }),
      function: { ...(name && { name }), arguments: input },
    };
  }
}

/** @param {any} message  a delta or a message @param {Calls} calls @param {boolean} isComplete */
function normalizeMessage(message, calls, isComplete) {
  const { content, reasoning, reasoning_content = reasoning, tool_calls: list, ...fields } = message ?? {};
  const text = textOf(content, 'text');
  const reasoningText =
    textOf(reasoning_content, 'text') ?? (Array.isArray(content) ? textOf(content, 'thinking') : null);
  const pieces = Array.isArray(list) ? list.filter((piece) => piece && typeof piece === 'object') : [];
  return {
    ...fields,
    ...((isComplete || text !== null) && { content: text }),
    ...(reasoningText && { reasoning_content: reasoningText }),
    ...(pieces.length && {
      tool_calls: pieces.map((piece) => {
        const { index, ...call } = /** @type {any} */ (calls.read(piece));
        return isComplete ? call : { ...call, index };
      }),
    }),
  };
}

/** Normalizes the chunks of one chat completion, in their order. */
export class ChunkReader {
  /** @type {Map<number, Calls>} */
  #calls = new Map();

  /** @param {any} choice @param {number} position  position in the list of choices @param {'delta' | 'message'} key */
  #choice(choice, position, key) {
    const index = choice.index ?? position;
    const calls = this.#calls.get(index) ?? new Calls();
    this.#calls.set(index, calls);
    return { ...choice, index, [key]: normalizeMessage(choice[key], calls, key === 'message') };
  }

  /** Normalizes a chunk. @param {any} chunk @param {'delta' | 'message'} [key]  'message' for a complete answer */
  read(chunk, key = 'delta') {
    const choices = (Array.isArray(chunk.choices) ? chunk.choices : []).filter(Boolean);
    return {
      ...chunk,
      choices: choices.map((/** @type {any} */ choice, /** @type {number} */ i) => this.#choice(choice, i, key)),
    };
  }
}

/**
 * Converts a complete answer to one chunk, for servers without streaming.
 * @param {any} answer  normalized by a ChunkReader
 */
export const chunkOfAnswer = ({ choices, ...answer }) => ({
  ...answer,
  object: 'chat.completion.chunk',
  choices: choices.map((/** @type {any} */ { message, ...choice }) => ({
    ...choice,
    delta: {
      ...message,
      tool_calls: message.tool_calls?.map((/** @type {any} */ call, /** @type {number} */ index) => ({
        index,
        ...call,
      })),
    },
  })),
});
