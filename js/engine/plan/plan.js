/** What a model will take, from the first bytes of its file: read, planned by C in a small instance, described. */
import { notAModel } from '../../storage/load/refetch.js';
import { structs, WANT_DATA } from '../../wasm/abi.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { fitted, LIMIT } from './memory-fit.js';
import { ARCHITECTURES } from '../../shared/names.js';
import { isNode } from '../../shared/node.js';
import { isInMemory, isPageable, keyOf } from '../../storage/sources/kinds.js';
import { readFirst, readRange } from '../../storage/sources/read.js';
import { sections, u32 } from '../../shared/sections.js';
import { Wasm } from '../../wasm/wasm.js';
import { hex } from '../../shared/hex.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { Cache, LoadOptions, Plan, Source } from '../../shared/types.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */

/** Bytes of the first read: most plans fit. */
const FIRST = 65536;
/** What the planner's heap needs beside the bytes it is given. */
const ROOM = 262144;

/** By their numbers (docs/FORMAT.md, "CONF keys"). @type {(import('../../shared/types.js').Pooling | null)[]} */
const POOLING = [null, 'mean', 'cls', 'last'];
/** Types of the KV cache, widest first. @type {Record<string, number>} */
export const KV = { f32: 0, f16: 1, i8: 2, i4: 3, i2: 4 };
/** What quantized weights are multiplied with. @type {Record<string, number>} */
const ACTIVATIONS = { i8: 0, i16: 1 };
/**
 * Bytes of weights between which a model that writes text is small enough to err where activations are rounded to 8 bits (SmolLM2 doesn't
 * know the capital of France then), and fast enough all the same (docs/log/quality.md, "Twenty chats").
 */
const FINER = [50e6, 300e6];

/**
 * @typedef {object} Planned
 * @property {Plan} plan
 * @property {Uint8Array} head  bytes of the file that were read for it, from the first on
 * @property {Uint8Array} manifest  what is known of a file that does not describe itself; empty for v2
 * @property {Uint8Array | null} integrity  SHA-256 that the bytes must have that are loaded
 * @property {Uint8Array | null} wanted  SHA-256 that a file must have which is repacked before
 * @property {string | null} url    what the cache knows it by
 * @property {boolean} cached       the head came from the cache
 * @property {number} prefixBytes
 * @property {number} totalBytes    where what is loaded ends: the file, or what it is repacked to
 * @property {string | null} fileId  what the cache tells versions by; null: the id in the file's header
 * @property {import('./gguf-plan.js').Repacked | null} repacked  the file is loaded as if it had been converted
 * @property {number} regionBytes  what the instance needs beside static data and stack
 * @property {Record<string, number> | null} paging  `bqw_paging`, when weights are paged
 */

/** Tokens that a guess of what comes next has at most: what is gained by more is little. */
export const DRAFTS = 7;

/** First positions that a KV window leaves in sight: what StreamingLLM found to be enough. */
export const SINKS = 4;
const EVICT = { oldest: 0, attention: 1 };

/** @param {import('../../shared/types.js').SessionOptions} options  names were checked (shared/options.js) */
export function sessionRecord({
  contextTokens: context,
  prefillWindow: window,
  prefillBatch: batch,
  kv = 'i8',
  activations = 'i8',
  forks,
  forkTokens,
  draftTokens: drafts = DRAFTS,
  kvWindow,
  kvSinks = kvWindow ? SINKS : 0,
  kvEvict = 'oldest',
  quality,
}) {
  for (const [name, value] of Object.entries({ contextTokens: context, prefillWindow: window, prefillBatch: batch }))
    if (value !== undefined && !(Number.isInteger(value) && value > 0 && value < 2 ** 32))
      throw new BqError('ARGUMENT', `${name}: expected a positive integer, found ${value}`);
  return {
    context,
    window,
    batch,
    kv_type: KV[kv],
    activations: ACTIVATIONS[activations],
    forks,
    fork_positions: forkTokens,
    drafts,
    kv_window: kvWindow,
    sinks: kvSinks,
    head: quality?.lmHeadFraction,
    evict: EVICT[kvEvict],
  };
}

/**
 * Plans made by C from the first bytes of a file. `need`: so many of them are wanted first.
 * With a budget: not all weights stay in memory, if need be.
 * @typedef {(options: LoadOptions, budget?: number) => { need: number }
 *   | { need: 0, numbers: Record<string, number>, paging: Record<string, number> | null }} Planner
 */

/**
 * @param {Compiled} compiled
 * @param {Uint8Array} head
 * @param {Uint8Array} manifest
 * @param {number} fileBytes  0: unknown
 * @param {number} beside  buffers outside the heap that paging takes
 * @returns {Promise<Planner>}
 */
async function createPlanner(compiled, head, manifest, fileBytes, beside) {
  const wasm = await Wasm.create(compiled, head.length + manifest.length + ROOM);
  const bytes = wasm.put((n) => wasm.alloc(n), head);
  const extra = wasm.put((n) => wasm.alloc(n), manifest);
  return (options, budget) =>
    wasm.scope((take) => {
      const session = take(structs.bqw_session_options.size);
      const out = take(structs.bqw_plan.size);
      const room = take(structs.bqw_paging.size);
      wasm.write('bqw_session_options', session, { ...sessionRecord(options), threads: compiled.threads });
      wasm.write('bqw_plan', out, {});
      const args = [
        bytes.at,
        bytes.length,
        fileBytes,
        extra.length && extra.at,
        extra.length,
        session,
        options.sessions ?? 1,
      ];
      let status;
      if (budget === undefined) {
        status = wasm.check('bqw_plan_make', ...args, out);
      } else {
        // The heap is whole pages; what is beside it comes on top of the rounding.
        const region = Math.floor(Math.min(budget, LIMIT) / 65536) * 65536 - compiled.heapBase - (beside ? 65535 : 0);
        status = wasm.check('bqw_plan_paging', ...args, Math.max(region, 0), beside, room, out);
      }
      const numbers = wasm.read('bqw_plan', out);
      if (status === WANT_DATA) return { need: numbers.need };
      const paging = budget === undefined ? null : wasm.read('bqw_paging', room);
      return { need: 0, numbers, paging: paging?.paged ? paging : null };
    });
}

/**
 * The first bytes of the file: from the cache where it is known there, else fetched.
 * @param {ByteSource} file
 * @param {string | null} url
 * @param {Cache | null} cache
 * @param {LoadOptions} options
 */
async function firstBytes(file, url, cache, { signal, integrity }) {
  const found = url && (await cache?.find(url));
  // Of a GGUF file only what was checked when it came is known to have a hash.
  const other =
    integrity !== undefined &&
    found &&
    String.fromCharCode(...found.prefix.subarray(0, 4)) === 'gguf' &&
    (await onDemand(import('./gguf-plan.js'))).keptGguf(found.prefix).repacked?.integrity !== integrity;
  if (found && !other) return { head: found.prefix, cached: { bytes: found.cachedBytes, complete: found.complete } };
  return { head: await readRange(file, 0, FIRST, signal), cached: null };
}

/**
 * NOT_A_MODEL, TRUNCATED, FORMAT, CHECKSUM, UNSUPPORTED, SHAPE, NOMEM, ARGUMENT (options), and what sources throw.
 * @param {Compiled} compiled
 * @param {Source} source
 * @param {ByteSource} file  opened from it
 * @param {LoadOptions & { exact?: boolean }} options  exact: as of fit.js
 * @param {Cache | null} [cache]
 * @param {boolean} [apply]  gives up what does not fit in the budget
 * @param {boolean} [fresh]  what the cache knows of this address is out of date
 * @returns {Promise<Planned>}
 */
export async function planModel(compiled, source, file, options, cache = null, apply = false, fresh = false) {
  const { signal } = options;
  const integrity =
    options.integrity === undefined
      ? null
      : (await onDemand(import('../../wasm/sha256.js'))).integrityBytes(options.integrity);
  const url = keyOf(source);
  let from = await firstBytes(file, url, fresh ? null : cache, options);
  for (let tries = from.cached ? -1 : 0; ; tries++) {
    try {
      const {
        planner,
        least,
        head,
        version,
        manifest,
        repacked = null,
      } = await readHead(compiled, source, file, from.head, { ...options, plans: !apply });
      const { activations = finest(least) } = options;
      const n = await fitted(
        planner,
        compiled.heapBase,
        { ...options, activations },
        apply,
        notPageable(source, version, repacked, cache),
      );
      const plan = describe(
        n,
        activations,
        sightOf(options, n.contextTokens),
        besideOf(compiled, source),
        version,
        version === 2 ? sections(head) : sections(manifest, 0, manifest.length),
      );
      plan.cached = from.cached ?? plan.cached;
      const { prefix_bytes: prefixBytes, heap_bytes: regionBytes } = n.numbers;
      const planned = {
        plan,
        head,
        manifest,
        integrity,
        wanted: null,
        url,
        cached: !!from.cached,
        prefixBytes,
        totalBytes: plan.fileBytes,
        fileId: null,
        regionBytes,
        paging: n.paging,
        repacked,
      };
      return repacked ? asRepacked(planned, repacked, file) : planned;
    } catch (error) {
      const damaged = error instanceof BqError && error.code === 'CHECKSUM' && file.nextMirror;
      // Damaged on its way or in the cache: again, then from elsewhere.
      if (!damaged || (tries > 0 && !(await file.nextMirror?.(signal)))) throw error;
    }
    from = { head: await readRange(file, 0, FIRST, signal), cached: null };
  }
}

/**
 * Of a file that is loaded repacked: what the cache keeps begins with the manifest, and is kept of what comes from a network or
 * has to be paged.
 * @param {Planned} planned @param {import('./gguf-plan.js').Repacked} repacked @param {ByteSource} file @returns {Planned}
 */
function asRepacked(planned, repacked, file) {
  const { plan, manifest, paging } = planned;
  const id = hex(sections(manifest, 0, manifest.length).FILE);
  const url = planned.url ?? (paging ? `gguf:${id}/${encodeURIComponent(file.name)}` : null);
  // The header is the same where only weights are others.
  const fileId = id + repacked.tag + repacked.integrity;
  // Its source checks the hash: of the file, not of what becomes of it.
  return {
    ...planned,
    url,
    fileId,
    integrity: null,
    wanted: planned.integrity,
    plan: { ...plan, fileBytes: repacked.bytes },
    head: manifest,
    prefixBytes: manifest.length,
  };
}

/**
 * The version of the file (0: another container), the manifest of one that does not describe itself, and what was read of it.
 * @param {Compiled} compiled @param {Source} source @param {ByteSource} file @param {Uint8Array} head @param {LoadOptions & { plans: boolean }} options
 * @returns {Promise<import('./gguf-plan.js').Described & { version: number }>}
 */
async function describedBy(compiled, source, file, head, options) {
  const { signal } = options;
  if (source.manifest) {
    if (!(source.manifest instanceof Uint8Array)) throw new BqError('ARGUMENT', 'the manifest is no Uint8Array');
    return { version: 0, manifest: source.manifest, head };
  }
  const magic = String.fromCharCode(...head.subarray(0, 4));
  if (magic === 'GGUF' || magic === 'gguf') {
    const { describeGguf, keptGguf } = await onDemand(import('./gguf-plan.js'));
    if (magic === 'gguf') return { version: 0, ...keptGguf(head) };
    const repack = file.remote || !!file.parts || options.memoryBudget !== undefined;
    return {
      version: 0,
      ...(await describeGguf(compiled, file, head, { ...options, repack }, signal)),
    };
  }
  if (magic !== 'BQ4F') throw notAModel(file, head);
  if (head.length < 8 || u32(head, 4) !== 1) return { version: 2, manifest: new Uint8Array(), head };
  return {
    version: 1,
    manifest: await (await onDemand(import('../../format/bq4/read-v1.js'))).v1Manifest(source, file, head, signal),
    head,
  };
}

/**
 * All of the file's beginning that a plan needs.
 * @param {Compiled} compiled @param {Source} source @param {ByteSource} file @param {Uint8Array} first @param {LoadOptions & { plans: boolean }} options
 */
async function readHead(compiled, source, file, first, options) {
  const { signal } = options;
  const { version, manifest, head: known, repacked } = await describedBy(compiled, source, file, first, options);
  let head = known;
  for (;;) {
    const planner = await createPlanner(
      compiled,
      manifest.length ? new Uint8Array() : head,
      manifest,
      repacked ? repacked.total : Math.max(file.size, 0),
      besideOf(compiled, source),
    );
    // Sizes don't matter here, and the smallest is never too large.
    const told = planner(
      { ...options, contextTokens: 1, prefillWindow: 1, prefillBatch: 1, sessions: 1 },
      options.memoryBudget === undefined ? undefined : 2 ** 32,
    );
    signal?.throwIfAborted();
    if ('numbers' in told) {
      file.expect?.(repacked?.head ?? head, -1);
      return { planner, least: told.numbers, head, version, manifest, repacked };
    }
    head = await readFirst(file, head, told.need, signal);
  }
}

/**
 * What to do so that any part of it can be read at any time, from a cache if need be; '': nothing.
 * @param {Source} source @param {number} version @param {unknown} repacked @param {Cache | null} cache
 */
function notPageable(source, version, repacked, cache) {
  if (repacked)
    return cache?.pages
      ? ''
      : 'a GGUF file is paged from a repacked copy: give the engine a cache; or take a smaller model';
  if (isPageable(source) || (cache?.pages && version === 2)) return '';
  return 'load the file from this machine (fromHandle, fromBlob, fromFile), where weights can be read for every token; or take a smaller model';
}

/** What quantized weights are multiplied with where nothing is asked for. @param {Record<string, number>} numbers @returns {'i8' | 'i16'} */
const finest = ({ weight_bytes: bytes, no_head: encodes, tokens }) =>
  tokens && !encodes && bytes >= FINER[0] && bytes <= FINER[1] ? 'i16' : 'i8';

/** Buffers outside the heap, as large as a slot, that paging from this source takes. @param {Compiled} compiled @param {Source} source */
const besideOf = ({ shared }, source) => (shared || isNode || isInMemory(source) ? 0 : 2);

/** What sessions of this context keep in sight (zeros: all), and leave out. @param {LoadOptions} options @param {number} context */
function sightOf({ kvWindow = 0, kvSinks = SINKS, kvEvict = 'oldest', quality }, context) {
  const seen = kvWindow < context ? kvWindow : 0;
  return { kvWindow: seen, kvSinks: seen && kvSinks, kvEvict: seen ? kvEvict : 'oldest', quality: quality ?? null };
}

/**
 * @param {import('./memory-fit.js').Fitted} fitted
 * @param {'i8' | 'i16'} activations
 * @param {Pick<Plan, 'kvWindow' | 'kvSinks' | 'kvEvict' | 'quality'>} sight
 * @param {number} beside
 * @param {number} version
 * @param {Record<string, Uint8Array>} found  sections by tag
 * @returns {Plan}
 */
function describe(
  { numbers: n, sessions: opened, contextTokens, kv, heapBytes, paging, ...fit },
  activations,
  sight,
  beside,
  version,
  found,
) {
  const text = (/** @type {string} */ tag) => new TextDecoder().decode(found[tag] ?? new Uint8Array());
  return {
    version,
    name: text('NAME'),
    license: text('LICE'),
    arch: ARCHITECTURES[n.arch] ?? '',
    layers: n.layers,
    hidden: n.hidden,
    heads: n.heads,
    kvHeads: n.kv_heads,
    headDim: n.head_dim,
    ffn: n.ffn,
    vocabSize: n.vocab,
    tokenizerSize: n.tokens,
    trainedContext: n.context,
    tied: n.tied !== 0,
    generates: n.no_head === 0,
    embedding: {
      pooling: POOLING[n.pooling],
      normalize: n.normalize !== 0,
      tokens: Math.min(n.text_tokens || n.context, contextTokens),
      width: n.labels ? n.hidden : n.vector_cols,
    },
    labelCount: n.labels ? n.vector_cols : 0,
    contextTokens,
    sessions: opened,
    kv,
    ...sight,
    activations,
    fileBytes: n.file_bytes,
    weightBytes: n.weight_bytes,
    tokenWeights: n.token_weights,
    rareTypes: n.lacks_kernels !== 0,
    sessionBytes: n.session_bytes,
    kvBytes: n.kv_bytes,
    kvBytesPer1000: Math.round((1000 * n.kv_bytes) / contextTokens),
    heapBytes,
    residency: paging ? 'paged' : 'resident',
    paging: paging && {
      layers: paging.layers,
      head: paging.head !== 0,
      streamedBytes: paging.streamed_bytes,
      slotBytes: paging.slot_bytes,
      besideBytes: beside * paging.slot_bytes,
    },
    ...fit,
    cached: { bytes: 0, complete: false },
    tokensPerSecond: null,
  };
}
