/**
 * What servers answer, as OpenAI writes it. Many that call themselves compatible leave members out or write them otherwise: calls without an
 * `index`, or all with 0; an `id` on each piece; arguments as an object; contents as lists of parts; null in place of what is not there.
 */

/** @typedef {{ index: number, id: string, name: string, input: string }} Call  what of a call has come so far */

/** The texts of a content. @param {any} content @param {string} type  of its parts @returns {string | null} */
function textOf(content, type) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return null;
  const parts = content.filter((part) => typeof part === 'string' || part?.type === type);
  return parts.map((part) => (typeof part === 'string' ? part : (textOf(part[type], 'text') ?? ''))).join('');
}

/** @param {any} input  the arguments of a call */
const inputOf = (input) => (typeof input === 'string' ? input : input ? JSON.stringify(input) : '');

/** @param {string} text */
function isJson(text) {
  try {
    return typeof JSON.parse(text) === 'object';
  } catch {
    return false;
  }
}

/** The calls of one choice, as their pieces come. */
class Calls {
  /** @type {Call[]} */
  #all = [];
  /** By what the server counts. @type {Map<unknown, Call>} */
  #byIndex = new Map();

  /** The call that a piece goes on with; undefined: it begins one. @param {any} piece @returns {Call | undefined} */
  #known({ id, index, function: called }) {
    const same = id && this.#all.find((call) => call.id === id);
    if (same) return same;
    const last = typeof index === 'number' ? this.#byIndex.get(index) : this.#all.at(-1);
    if (!last || !called?.name) return last;
    // With a name of its own: another call, unless the name comes in pieces or again and again, before the arguments are whole.
    const again = !last.input || (called.name === last.name && !isJson(last.input));
    return (id && id !== last.id) || typeof index !== 'number' || !again ? undefined : last;
  }

  /** @param {any} piece  of a delta, or a whole call @returns {object} */
  read(piece) {
    const { id, index, function: called } = piece;
    const known = this.#known(piece);
    const at = this.#all.length;
    const call = known ?? { index: at, id: id || `call_${at}`, name: '', input: '' };
    if (!known) this.#all.push(call);
    if (typeof index === 'number') this.#byIndex.set(index, call);
    const name = called?.name && called.name !== call.name ? called.name : '';
    const input = inputOf(called?.arguments);
    call.name += name;
    call.input += input;
    return {
      ...piece,
      index: call.index,
      ...(known ? { id: undefined } : { id: call.id, type: 'function' }),
      function: { ...(name && { name }), arguments: input },
    };
  }
}

/** @param {any} said  a delta or a message @param {Calls} calls @param {boolean} whole */
function saidBy(said, calls, whole) {
  const { content, reasoning, reasoning_content: thought = reasoning, tool_calls: list, ...more } = said ?? {};
  const text = textOf(content, 'text');
  const thinking = textOf(thought, 'text') ?? (Array.isArray(content) ? textOf(content, 'thinking') : null);
  const pieces = Array.isArray(list) ? list.filter((piece) => piece && typeof piece === 'object') : [];
  return {
    ...more,
    ...((whole || text !== null) && { content: text }),
    ...(thinking && { reasoning_content: thinking }),
    ...(pieces.length && {
      tool_calls: pieces.map((piece) => {
        const { index, ...call } = /** @type {any} */ (calls.read(piece));
        return whole ? call : { ...call, index };
      }),
    }),
  };
}

/** Reads the chunks of one reply of a chat, in their order. */
export class ChunkReader {
  /** @type {Map<number, Calls>} */
  #calls = new Map();

  /** @param {any} choice @param {number} place @param {'delta' | 'message'} key */
  #choice(choice, place, key) {
    const index = choice.index ?? place;
    const calls = this.#calls.get(index) ?? new Calls();
    this.#calls.set(index, calls);
    return { ...choice, index, [key]: saidBy(choice[key], calls, key === 'message') };
  }

  /** @param {any} chunk @param {'delta' | 'message'} [key]  'message': of a whole answer */
  read(chunk, key = 'delta') {
    const choices = (Array.isArray(chunk.choices) ? chunk.choices : []).filter(Boolean);
    return {
      ...chunk,
      choices: choices.map((/** @type {any} */ choice, /** @type {number} */ i) => this.#choice(choice, i, key)),
    };
  }
}

/** A whole answer as a stream of one chunk: of servers that know no streams. @param {any} answer  as a ChunkReader gives it */
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
