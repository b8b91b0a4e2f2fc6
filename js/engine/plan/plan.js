/** The load plan of a model: reads the file's header, lets C plan in a small instance, and describes the result. */
import { notAModel } from '../../storage/load/refetch.js';
import { structs, WANT_DATA } from '../../wasm/abi.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { fitPlan } from './memory-fit.js';
import { LIMIT } from './memory-limit.js';
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

/** Bytes of the first read, which hold most headers. */
const FIRST_READ_BYTES = 65536;
/** Spare heap bytes of the planner. */
const SPARE_BYTES = 262144;

/** Pooling by code (docs/FORMAT.md, "CONF keys"). @type {(import('../../shared/types.js').Pooling | null)[]} */
const POOLING = [null, 'mean', 'cls', 'last'];
/** Codes of KV cache types, the widest first. @type {Record<string, number>} */
export const KV_TYPES = { f32: 0, f16: 1, i8: 2, i4: 3, i2: 4 };
/** Codes of activation types. @type {Record<string, number>} */
const ACTIVATIONS = { i8: 0, i16: 1 };
/**
 * Range of weight bytes in which a generating model uses i16 activations by default: so small that 8 bits cause errors (SmolLM2 doesn't
 * know the capital of France then), and still fast enough (docs/log/quality.md, "Twenty chats").
 */
const I16_WEIGHT_BYTES = [50e6, 300e6];

/**
 * @typedef {object} Planned
 * @property {Plan} plan
 * @property {Uint8Array} head  bytes that were read from the beginning of the file
 * @property {Uint8Array} manifest  the description of a file in another format; empty for v2
 * @property {Uint8Array | null} integrity  expected SHA-256 of the loaded bytes
 * @property {Uint8Array | null} expectedHash  expected SHA-256 of the original of a repacked file
 * @property {string | null} url    its address in the cache
 * @property {boolean} cached       the head came from the cache
 * @property {number} prefixBytes
 * @property {number} totalBytes    length of the file, or of the repacked file
 * @property {string | null} fileId  identifies the version in the cache; null: the id in the file's header
 * @property {import('./gguf-plan.js').Repacked | null} repacked  set if the file is loaded repacked
 * @property {number} regionBytes  heap bytes of the instance
 * @property {Record<string, number> | null} paging  `bqw_paging`, when weights are paged
 */

/** Default of `draftTokens`; more draft tokens gain little. */
export const DEFAULT_DRAFT_TOKENS = 7;

/** Default of `kvSinks`: the attention sinks that StreamingLLM found to be enough. */
export const DEFAULT_SINKS = 4;
const EVICTION = { oldest: 0, attention: 1 };

/** @param {import('../../shared/types.js').SessionOptions} options  checked by shared/options.js */
export function sessionRecord({
  contextTokens: context,
  prefillWindow: window,
  prefillBatch: batch,
  kv = 'i8',
  activations = 'i8',
  forks,
  forkTokens,
  draftTokens: drafts = DEFAULT_DRAFT_TOKENS,
  kvWindow,
  kvSinks = kvWindow ? DEFAULT_SINKS : 0,
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
    kv_type: KV_TYPES[kv],
    activations: ACTIVATIONS[activations],
    forks,
    fork_positions: forkTokens,
    drafts,
    kv_window: kvWindow,
    sinks: kvSinks,
    head: quality?.lmHeadFraction,
    evict: EVICTION[kvEvict],
  };
}

/**
 * Plans with C from the first bytes of a file. `need`: C needs this many bytes first.
 * With a budget weights are paged if necessary, so that they and `adapterBytes` keep to it; the numbers are without those.
 * @typedef {(options: LoadOptions, budget?: number) => { need: number }
 *   | { need: 0, numbers: Record<string, number>, paging: Record<string, number> | null }} Planner
 */

/**
 * @param {Compiled} compiled
 * @param {Uint8Array} head
 * @param {Uint8Array} manifest
 * @param {number} fileBytes  0: unknown
 * @param {number} besideCount  buffers outside the heap that paging takes
 * @returns {Promise<Planner>}
 */
async function createPlanner(compiled, head, manifest, fileBytes, besideCount) {
  const wasm = await Wasm.create(compiled, head.length + manifest.length + SPARE_BYTES);
  const bytes = wasm.put((n) => wasm.alloc(n), head);
  const manifestBytes = wasm.put((n) => wasm.alloc(n), manifest);
  return (options, budget) =>
    wasm.scope((take) => {
      const session = take(structs.bqw_session_options.size);
      const out = take(structs.bqw_plan.size);
      const pagingRecord = take(structs.bqw_paging.size);
      wasm.write('bqw_session_options', session, { ...sessionRecord(options), threads: compiled.threads });
      wasm.write('bqw_plan', out, {});
      const args = [
        bytes.at,
        bytes.length,
        fileBytes,
        manifestBytes.length && manifestBytes.at,
        manifestBytes.length,
        session,
        options.sessions ?? 1,
      ];
      let status;
      if (budget === undefined) {
        status = wasm.check('bqw_plan_make', ...args, out);
      } else {
        // The heap, with the adapters in it, is whole pages; what is beside it comes on top of the rounding.
        const { adapterBytes = 0 } = options;
        const heap = Math.floor(Math.min(budget, LIMIT) / 65536) * 65536 - (besideCount ? 65535 : 0);
        const region = heap - compiled.heapBase - adapterBytes;
        status = wasm.check('bqw_plan_paging', ...args, Math.max(region, 0), besideCount, pagingRecord, out);
      }
      const numbers = wasm.read('bqw_plan', out);
      if (status === WANT_DATA) return { need: numbers.need };
      const paging = budget === undefined ? null : wasm.read('bqw_paging', pagingRecord);
      return { need: 0, numbers, paging: paging?.paged ? paging : null };
    });
}

/**
 * The first bytes of the file, from the cache or from the source.
 * @param {ByteSource} file
 * @param {string | null} url
 * @param {Cache | null} cache
 * @param {LoadOptions} options
 */
async function readFirstBytes(file, url, cache, { signal, integrity }) {
  // What reads its header is fetched while the cache is searched.
  if (cache && file.name.endsWith('.gguf')) void onDemand(import('./gguf-plan.js')).catch(() => {});
  const cached = url && (await cache?.find(url));
  // A cached GGUF file has the expected hash only if it was checked against the same one.
  const isOtherVersion =
    integrity !== undefined &&
    cached &&
    String.fromCharCode(...cached.prefix.subarray(0, 4)) === 'gguf' &&
    (await onDemand(import('./gguf-plan.js'))).readCachedManifest(cached.prefix).repacked?.integrity !== integrity;
  if (cached && !isOtherVersion)
    return { head: cached.prefix, cached: { bytes: cached.cachedBytes, complete: cached.complete } };
  return { head: await readRange(file, 0, FIRST_READ_BYTES, signal), cached: null };
}

/**
 * Plans a model. NOT_A_MODEL, TRUNCATED, FORMAT, CHECKSUM, UNSUPPORTED, SHAPE, NOMEM, ARGUMENT (options), and errors of sources.
 * @param {Compiled} compiled
 * @param {Source} source
 * @param {ByteSource} file  opened from it
 * @param {LoadOptions & { exact?: boolean }} options  `exact`: see memory-fit.js
 * @param {Cache | null} [cache]
 * @param {boolean} [apply]  reduces sizes that do not fit in the budget
 * @param {boolean} [ignoresCache]  the cached entry of this address is out of date
 * @returns {Promise<Planned>}
 */
export async function planModel(compiled, source, file, options, cache = null, apply = false, ignoresCache = false) {
  const { signal } = options;
  const integrity =
    options.integrity === undefined
      ? null
      : (await onDemand(import('../../wasm/sha256.js'))).integrityBytes(options.integrity);
  const url = keyOf(source);
  let start = await readFirstBytes(file, url, ignoresCache ? null : cache, options);
  for (let tries = start.cached ? -1 : 0; ; tries++) {
    try {
      const {
        planner,
        least: smallestNumbers,
        head,
        version,
        manifest,
        repacked = null,
      } = await readHeader(compiled, source, file, start.head, { ...options, plans: !apply });
      const { activations = defaultActivations(smallestNumbers) } = options;
      const fit = await fitPlan(
        planner,
        compiled.heapBase,
        { ...options, activations },
        apply,
        notPageable(source, version, repacked, cache),
        readsRows(source) || (!!cache?.pages && (version === 2 || !!repacked)),
      );
      const plan = describe(
        fit,
        activations,
        windowOptions(options, fit.contextTokens),
        besideCountFor(compiled, source),
        version,
        version === 2 ? sections(head) : sections(manifest, 0, manifest.length),
      );
      plan.cached = start.cached ?? plan.cached;
      const { prefix_bytes: prefixBytes, heap_bytes: regionBytes } = fit.numbers;
      const result = {
        plan,
        head,
        manifest,
        integrity,
        expectedHash: null,
        url,
        cached: !!start.cached,
        prefixBytes,
        totalBytes: plan.fileBytes,
        fileId: null,
        regionBytes,
        paging: fit.paging,
        repacked,
      };
      return repacked
        ? planRepacked(result, repacked, file, options.memoryBudget === undefined && readsRows(source))
        : result;
    } catch (error) {
      const damaged = error instanceof BqError && error.code === 'CHECKSUM' && file.nextMirror;
      // Bytes were damaged in transit or in the cache: read them again, then from a mirror.
      if (!damaged || (tries > 0 && !(await file.nextMirror?.(signal)))) throw error;
    }
    start = { head: await readRange(file, 0, FIRST_READ_BYTES, signal), cached: null };
  }
}

/**
 * The plan of a file that is loaded repacked. The cached file begins with the manifest; files from a network are cached,
 * and files that must be paged. A single table of this machine's file is read and repacked row by row.
 * @param {Planned} result @param {import('./gguf-plan.js').Repacked} repacked @param {ByteSource} file @param {boolean} rowsOnly  paged is a table at most @returns {Planned}
 */
function planRepacked(result, repacked, file, rowsOnly) {
  const { plan, manifest, paging } = result;
  const id = hex(sections(manifest, 0, manifest.length).FILE);
  const ownCopy = paging && !rowsOnly ? `gguf:${id}/${encodeURIComponent(file.name)}` : null;
  const url = paging && rowsOnly ? null : (result.url ?? ownCopy);
  // The id of the header alone is not enough: versions may differ in weights only.
  const fileId = id + repacked.tag + repacked.integrity;
  // The source checks the hash of the original file.
  return {
    ...result,
    url,
    fileId,
    integrity: null,
    expectedHash: result.integrity,
    plan: { ...plan, fileBytes: repacked.bytes },
    head: manifest,
    prefixBytes: manifest.length,
  };
}

/**
 * The version of the file (0: another format), the manifest for other formats, and the bytes read so far.
 * @param {Compiled} compiled @param {Source} source @param {ByteSource} file @param {Uint8Array} head @param {LoadOptions & { plans: boolean }} options
 * @returns {Promise<import('./gguf-plan.js').Described & { version: number }>}
 */
async function describeContainer(compiled, source, file, head, options) {
  const { signal } = options;
  if (source.manifest) {
    if (!(source.manifest instanceof Uint8Array))
      throw new BqError('ARGUMENT', 'manifest: expected a Uint8Array, found another value');
    return { version: 0, manifest: source.manifest, head };
  }
  const magic = String.fromCharCode(...head.subarray(0, 4));
  if (magic === 'GGUF' || magic === 'gguf') {
    const { describeGguf, readCachedManifest: keptGguf } = await onDemand(import('./gguf-plan.js'));
    if (magic === 'gguf') return { version: 0, ...keptGguf(head) };
    const { memoryBudget = Infinity } = options;
    const repack = file.remote || !!file.parts || memoryBudget < Infinity;
    const repackTable = options.memoryBudget === undefined && readsRows(source);
    return {
      version: 0,
      ...(await describeGguf(compiled, file, head, { ...options, repack, repackTable }, signal)),
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
 * Reads as much of the file's beginning as a plan needs.
 * @param {Compiled} compiled @param {Source} source @param {ByteSource} file @param {Uint8Array} first @param {LoadOptions & { plans: boolean }} options
 */
async function readHeader(compiled, source, file, first, options) {
  const { signal } = options;
  const {
    version,
    manifest,
    head: knownHead,
    repacked,
  } = await describeContainer(compiled, source, file, first, options);
  let head = knownHead;
  for (;;) {
    const planner = await createPlanner(
      compiled,
      manifest.length ? new Uint8Array() : head,
      manifest,
      repacked ? repacked.total : Math.max(file.size, 0),
      besideCountFor(compiled, source),
    );
    // The smallest sizes never exceed the memory, and the number of bytes does not depend on sizes.
    const result = planner(
      { ...options, contextTokens: 1, prefillWindow: 1, prefillBatch: 1, sessions: 1, adapterBytes: 0 },
      options.memoryBudget === undefined ? undefined : 2 ** 32,
    );
    signal?.throwIfAborted();
    if ('numbers' in result) {
      file.expect?.(repacked?.head ?? head, -1);
      return { planner, least: result.numbers, head, version, manifest, repacked };
    }
    head = await readFirst(file, head, result.need, signal);
  }
}

/**
 * A hint how to make paging possible; '': it is possible, since any part can be read at any time, if necessary from a cache.
 * @param {Source} source @param {number} version @param {unknown} repacked @param {Cache | null} cache
 */
function notPageable(source, version, repacked, cache) {
  if (repacked)
    return cache?.pages
      ? ''
      : 'a GGUF file is paged from a repacked copy: create the engine with a cache, or choose a smaller model';
  if (isPageable(source) || (cache?.pages && version === 2)) return '';
  return 'load the file from this machine (fromHandle, fromBlob, fromFile), where weights can be read for every token, or choose a smaller model';
}

/** Whether single rows of a table can be read at any time without a copy of the file. @param {Source} source */
const readsRows = (source) => isPageable(source) && !isInMemory(source);

/** The default type of activations. @param {Record<string, number>} numbers @returns {'i8' | 'i16'} */
const defaultActivations = ({ weight_bytes: bytes, no_head: encodes, tokens }) =>
  tokens && !encodes && bytes >= I16_WEIGHT_BYTES[0] && bytes <= I16_WEIGHT_BYTES[1] ? 'i16' : 'i8';

/** Number of slot-sized buffers outside the heap that paging from this source needs. @param {Compiled} compiled @param {Source} source */
const besideCountFor = ({ shared }, source) => (shared || isNode || isInMemory(source) ? 0 : 2);

/** The KV window of sessions of this context (zeros: none), and their quality options. @param {LoadOptions} options @param {number} context */
function windowOptions({ kvWindow = 0, kvSinks = DEFAULT_SINKS, kvEvict = 'oldest', quality }, context) {
  const window = kvWindow < context ? kvWindow : 0;
  return {
    kvWindow: window,
    kvSinks: window && kvSinks,
    kvEvict: window ? kvEvict : 'oldest',
    quality: quality ?? null,
  };
}

/**
 * @param {import('./memory-fit.js').Fitted} fitted
 * @param {'i8' | 'i16'} activations
 * @param {Pick<Plan, 'kvWindow' | 'kvSinks' | 'kvEvict' | 'quality'>} windowInfo
 * @param {number} besideCount
 * @param {number} version
 * @param {Record<string, Uint8Array>} sectionsByTag  sections by tag
 * @returns {Plan}
 */
function describe(
  { numbers: n, sessions, contextTokens, kv, heapBytes, paging, ...fit },
  activations,
  windowInfo,
  besideCount,
  version,
  sectionsByTag,
) {
  const text = (/** @type {string} */ tag) => new TextDecoder().decode(sectionsByTag[tag] ?? new Uint8Array());
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
    stateWidth: n.state_cols,
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
    sessions,
    kv,
    ...windowInfo,
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
      besideBytes: besideCount * paging.slot_bytes,
    },
    ...fit,
    cached: { bytes: 0, complete: false },
    tokensPerSecond: null,
  };
}
