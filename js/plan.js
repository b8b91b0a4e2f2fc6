/** What a model will take, from the first bytes of its file: read, planned by C in a small instance, described. */
import { structs, WANT_DATA } from './border.js';
import { BqError } from './errors.js';
import { isNode } from './sources/node.js';
import { readRange } from './sources/read.js';
import { sections, u32 } from './sections.js';
import { Wasm } from './wasm.js';

/** @import { ByteSource } from './sources/types.js' */
/** @import { LoadOptions, Plan, Source } from './types.js' */
/** @import { Compiled } from './wasm.js' */

/** Bytes of the first read: most plans fit. */
const FIRST = 65536;
/** What the planner's heap needs beside the bytes it is given. */
const ROOM = 262144;

const ARCHS = ['', 'llama', 'bullet'];
const KV = { f32: 0, f16: 1 };

/**
 * @typedef {object} Planned
 * @property {Plan} plan
 * @property {Uint8Array} head  bytes of the file that were read for it, from the first on
 * @property {Uint8Array} companion  v2 sections of a v1 file's companion; empty for v2
 * @property {number} prefixBytes
 * @property {number} regionBytes  what the instance needs beside static data and stack
 * @property {Record<string, number> | null} paging  `bqw_paging`, when weights are paged
 */

/** @param {Pick<LoadOptions, 'context' | 'window' | 'batch' | 'kv'>} options */
export function sessionRecord({ context, window, batch, kv = 'f32' }) {
  for (const [name, value] of Object.entries({ context, window, batch }))
    if (value !== undefined && !(Number.isInteger(value) && value > 0 && value < 2 ** 32))
      throw new BqError('ARGUMENT', `${name} is ${value}, not a positive integer`);
  if (!(kv in KV)) throw new BqError('ARGUMENT', `kv is "${kv}", not one of ${Object.keys(KV).join(', ')}`);
  return { context, window, batch, kv_type: KV[kv] };
}

/**
 * @param {ByteSource} file
 * @param {Uint8Array} head
 */
function checkMagic(file, head) {
  const text = String.fromCharCode(...head.subarray(0, 256));
  if (text.startsWith('BQ4F')) return;
  if (!head.length) throw new BqError('TRUNCATED', `${file.name} is empty`);
  const page = /^\s*</.test(text) || file.type.startsWith('text/html');
  const what = page ? 'is a web page' : text.startsWith('GGUF') ? 'is a GGUF file' : 'does not begin like a .bq4 file';
  throw new BqError('NOT_A_MODEL', `${file.name} ${what}`, {
    offset: 0,
    ...(page && { hint: 'the address leads to a page about the file, an error page or a login: use the address of the file itself' }),
  });
}

/**
 * One try at a plan. `need`: so many bytes of the file's start are wanted first.
 * @param {Compiled} compiled
 * @param {Uint8Array} head
 * @param {Uint8Array} companion
 * @param {number} fileBytes  0: unknown
 * @param {LoadOptions} options
 * @param {number} beside  buffers outside the heap that paging takes
 * @returns {Promise<{ need: number } | { need: 0, numbers: Record<string, number>, paging: Record<string, number> | null }>}
 */
async function makePlan(compiled, head, companion, fileBytes, options, beside) {
  const wasm = await Wasm.create(compiled, head.length + companion.length + ROOM);
  return wasm.scope((take) => {
    const bytes = wasm.put(take, head);
    const extra = wasm.put(take, companion);
    const session = take(structs.bqw_session_options.size);
    const out = take(128);
    wasm.write('bqw_session_options', session, { ...sessionRecord(options), threads: compiled.threads });
    wasm.write('bqw_plan', out, {});
    /** @type {number[]} */
    const args = [bytes.at, bytes.length, fileBytes, extra.length && extra.at, extra.length, session, options.sessions ?? 1];
    let paging = null;
    let status;
    if (options.budget === undefined) {
      status = wasm.check('bqw_plan_make', ...args, out);
    } else {
      const room = take(structs.bqw_paging.size);
      // The heap is whole pages; what is beside it comes on top of the rounding.
      const region = Math.min(Math.floor(options.budget / 65536), 65535) * 65536 - compiled.heapBase - (beside ? 65535 : 0);
      status = wasm.check('bqw_plan_paging', ...args, Math.max(region, 0), beside, room, out);
      if (status !== WANT_DATA) paging = wasm.read('bqw_paging', room);
    }
    const numbers = wasm.read('bqw_plan', out);
    return status === WANT_DATA ? { need: numbers.need } : { need: 0, numbers, paging: paging?.paged ? paging : null };
  });
}

/**
 * NOT_A_MODEL, TRUNCATED, FORMAT, CHECKSUM, UNSUPPORTED, SHAPE, ARGUMENT (options), and what sources throw.
 * @param {Compiled} compiled
 * @param {Source} source
 * @param {ByteSource} file  opened from it
 * @param {LoadOptions} options
 * @returns {Promise<Planned>}
 */
export async function planModel(compiled, source, file, options) {
  const { signal, sessions = 1, budget } = options;
  if (budget !== undefined && !(budget > 0)) throw new BqError('ARGUMENT', `budget is ${budget}, not a number of bytes`);
  if (!(Number.isInteger(sessions) && sessions > 0 && sessions < 64)) throw new BqError('ARGUMENT', `sessions is ${sessions}, not 1 to 63`);
  let head = await readRange(file, 0, FIRST, signal);
  checkMagic(file, head);
  const companion = head.length >= 8 && u32(head, 4) === 1 ? await (await import('./companion.js')).readCompanion(source, signal) : new Uint8Array();
  for (;;) {
    const size = Math.max(file.size, 0);
    const made = await makePlan(compiled, head, companion, size, options, besideOf(compiled, source));
    signal?.throwIfAborted();
    if ('numbers' in made) return describe(made.numbers, made.paging, besideOf(compiled, source), head, companion, compiled.heapBase, options);
    const more = made.need > head.length ? await readRange(file, head.length, made.need, signal) : new Uint8Array();
    if (head.length + more.length < made.need)
      throw new BqError('TRUNCATED', `${file.name} ends after ${head.length + more.length} bytes, in the middle of its header`, { offset: head.length + more.length });
    const longer = new Uint8Array(made.need);
    longer.set(head);
    longer.set(more, head.length);
    head = longer;
  }
}

/** Buffers outside the heap, as large as a slot, that paging from this source takes. @param {Compiled} compiled @param {Source} source */
const besideOf = ({ shared }, source) => (shared || isNode || source.kind === 'bytes' ? 0 : 2);

/**
 * @param {Record<string, number>} n
 * @param {Record<string, number> | null} paging
 * @param {number} beside
 * @param {Uint8Array} head
 * @param {Uint8Array} companion
 * @param {number} heapBase
 * @param {LoadOptions} options
 * @returns {Planned}
 */
function describe(n, paging, beside, head, companion, heapBase, { context, sessions = 1 }) {
  const found = n.version === 1 ? sections(companion, 0, companion.length) : sections(head);
  const text = (/** @type {string} */ tag) => new TextDecoder().decode(found[tag] ?? new Uint8Array());
  const plan = {
    version: n.version,
    name: text('NAME'),
    license: text('LICE'),
    arch: ARCHS[n.arch] ?? '',
    layers: n.layers,
    hidden: n.hidden,
    heads: n.heads,
    kvHeads: n.kv_heads,
    headDim: n.head_dim,
    ffn: n.ffn,
    vocab: n.vocab,
    tokens: n.tokens,
    trainedContext: n.context,
    tied: n.tied !== 0,
    context: context ?? n.context,
    sessions,
    fileBytes: n.file_bytes,
    weightBytes: n.weight_bytes,
    sessionBytes: n.session_bytes,
    kvBytes: n.kv_bytes,
    heapBytes: Math.ceil((heapBase + n.heap_bytes) / 65536) * 65536,
    residency: paging && {
      layers: paging.layers,
      head: paging.head !== 0,
      streamedBytes: paging.streamed_bytes,
      slotBytes: paging.slot_bytes,
      besideBytes: beside * paging.slot_bytes,
    },
  };
  return { plan, head, companion, prefixBytes: n.prefix_bytes, regionBytes: n.heap_bytes, paging };
}
