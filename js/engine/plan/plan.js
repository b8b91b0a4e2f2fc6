/**
 * The load plan of a model: reads the header of the file, plans with C in a small instance, and describes the result.
 */
import { notAModel } from '../../storage/load/refetch.js';
import { structs, WANT_DATA } from '../../wasm/abi.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { fitPlan } from './memory-fit.js';
import { LIMIT } from './memory-limit.js';
import { ARCHITECTURES, KV_TYPES } from '../../shared/names.js';
import { isNode } from '../../shared/node.js';
import { isInMemory, isPageable, keyOf } from '../../storage/sources/kinds.js';
import { readFirst, readRange } from '../../storage/sources/read.js';
import { sections, u32 } from '../../shared/sections.js';
import { Wasm } from '../../wasm/wasm.js';
import { hex } from '../../shared/hex.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { Cache, LoadOptions, Plan, Source } from '../../shared/types.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */

/** Bytes of the first read. Most headers are shorter. */
const FIRST_READ_BYTES = 65536;
/** Spare heap bytes of the planner instance. */
const SPARE_BYTES = 262144;

/** Pooling by code (docs/FORMAT.md, "CONF keys"). @type {(import('../../shared/types.js').Pooling | null)[]} */
const POOLING = [null, 'mean', 'cls', 'last'];
/** Codes of activation types. @type {Record<string, number>} */
const ACTIVATIONS = { i8: 0, i16: 1 };
/**
 * Range of weight bytes in which a generating model uses i16 activations by default. Models of this size make errors
 * with 8 bits (SmolLM2 gets the capital of France wrong), and are still fast enough with 16 bits (docs/log/quality.md,
 * "Twenty chats").
 */
const I16_WEIGHT_BYTES = [50e6, 300e6];

/**
 * @typedef {object} Planned
 * @property {Plan} plan
 * @property {Uint8Array} head  bytes that were read from the beginning of the file
 * @property {Uint8Array} manifest  the description of a file in another format; empty for v2
 * @property {Uint8Array | null} integrity  expected SHA-256 of the loaded bytes
 * @property {Uint8Array | null} expectedHash  expected SHA-256 of the original of a repacked file
 * @property {string | null} url    address of the file in the cache; null: it is not cached
 * @property {boolean} cached       whether the head was read from the cache
 * @property {number} prefixBytes   bytes before the data of the file, or of the repacked file
 * @property {number} totalBytes    length of the file, or of the repacked file
 * @property {string | null} fileId  identifier of the version in the cache; null: the id in the file's header
 * @property {import('./gguf-plan.js').Repacked | null} repacked  set if the file is repacked while it loads
 * @property {number} regionBytes  heap bytes of the instance
 * @property {Record<string, number> | null} paging  a `bqw_paging` record if weights are paged
 */

/** Default of `draftTokens`; more draft tokens gain little. */
export const DEFAULT_DRAFT_TOKENS = 7;

/** Default of `kvSinks`: the number of attention sinks that the StreamingLLM paper found to be enough. */
export const DEFAULT_SINKS = 4;
const EVICTION = { oldest: 0, attention: 1 };

/**
 * Returns the fields of a bqw_session_options record. Throws ARGUMENT.
 * @param {import('../../shared/types.js').SessionOptions} options  checked by shared/options.js
 */
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
    kv_type: KV_TYPES.indexOf(kv),
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
 * Plans with C from the first bytes of a file. If `need` is not 0, C first needs this many bytes of the file.
 * With a budget, weights are paged if necessary, so that the heap with `adapterBytes` does not exceed the budget. The
 * returned numbers do not include `adapterBytes`.
 * @typedef {(options: LoadOptions, budget?: number) => { need: number }
 *   | { need: 0, numbers: Record<string, number>, paging: Record<string, number> | null }} Planner
 */

/**
 * @param {Compiled} compiled
 * @param {Uint8Array} head
 * @param {Uint8Array} manifest
 * @param {number} fileBytes  0: unknown
 * @param {number} outsideBuffers  number of slot-sized buffers outside the heap that paging needs
 * @returns {Promise<Planner>}
 */
async function createPlanner(compiled, head, manifest, fileBytes, outsideBuffers) {
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
        // The memory has a whole number of pages. Buffers outside it are added after rounding, so up to a page is
        // reserved.
        const { adapterBytes = 0 } = options;
        const memoryBytes = Math.floor(Math.min(budget, LIMIT) / 65536) * 65536 - (outsideBuffers ? 65535 : 0);
        const heapBytes = memoryBytes - compiled.heapBase - adapterBytes;
        status = wasm.check('bqw_plan_paging', ...args, Math.max(heapBytes, 0), outsideBuffers, pagingRecord, out);
      }
      const numbers = wasm.read('bqw_plan', out);
      if (status === WANT_DATA) return { need: numbers.need };
      const paging = budget === undefined ? null : wasm.read('bqw_paging', pagingRecord);
      return { need: 0, numbers, paging: paging?.paged ? paging : null };
    });
}

/**
 * Reads the first bytes of the file, from the cache or from the source.
 * @param {ByteSource} file
 * @param {string | null} url
 * @param {Cache | null} cache
 * @param {LoadOptions} options
 */
async function readFirstBytes(file, url, cache, { signal, integrity }) {
  // The module that reads a GGUF header is loaded while the cache is searched.
  if (cache && file.name.endsWith('.gguf')) void onDemand(import('./gguf-plan.js')).catch(() => {});
  const cached = url && (await cache?.find(url));
  // A cached GGUF file has the expected hash only if it was loaded with the same `integrity`.
  const isOtherVersion =
    integrity !== undefined &&
    cached &&
    String.fromCharCode(...cached.prefix.subarray(0, 4)) === 'gguf' &&
    (await onDemand(import('./gguf-plan.js'))).readCachedManifest(cached.prefix).repacked?.integrity !== integrity;
  if (cached && !isOtherVersion)
    return { head: cached.prefix, cached: { bytes: cached.cachedBytes, complete: cached.complete } };
  return { head: await readRange(file, 0, FIRST_READ_BYTES, signal), cached: null };
}

/** Returns the SHA-256 in an `integrity` value. Throws ARGUMENT. @param {string | null | undefined} integrity */
const hashBytes = async (integrity) =>
  integrity == null ? null : (await onDemand(import('../../wasm/sha256.js'))).integrityBytes(integrity);

/**
 * Plans a model. Throws NOT_A_MODEL, TRUNCATED, FORMAT, CHECKSUM, UNSUPPORTED, SHAPE, NOMEM, ARGUMENT (for options),
 * and errors of sources.
 * @param {Compiled} compiled
 * @param {Source} source
 * @param {ByteSource} file  the opened source
 * @param {LoadOptions & { exact?: boolean }} loadOptions  `exact`: see memory-fit.js
 * @param {Cache | null} [cache]
 * @param {boolean} [apply]  whether to reduce sizes that do not fit in the budget
 * @param {boolean} [ignoresCache]  true if the cached entry of this address is out of date
 * @returns {Promise<Planned>}
 */
export async function planModel(
  compiled,
  source,
  file,
  loadOptions,
  cache = null,
  apply = false,
  ignoresCache = false,
) {
  const { signal, integrity: expected = source.integrity } = loadOptions;
  const options = { ...loadOptions, integrity: expected };
  await hashBytes(expected); // throws before the first request
  const url = keyOf(source);
  let start = await readFirstBytes(file, url, ignoresCache ? null : cache, options);
  for (let tries = start.cached ? -1 : 0; ; tries++) {
    try {
      const {
        planner,
        smallestNumbers,
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
        pagingHint(source, version, repacked, cache),
        readsRows(source) || (!!cache?.pages && (version === 2 || !!repacked)),
      );
      const plan = describe(
        fit,
        activations,
        windowOptions(options, fit.contextTokens),
        outsideBuffersFor(compiled, source),
        version,
        version === 2 ? sections(head) : sections(manifest, 0, manifest.length),
      );
      plan.cached = start.cached ?? plan.cached;
      plan.integrity = expected ?? (repacked?.integrity || null);
      const { prefix_bytes: prefixBytes, heap_bytes: regionBytes } = fit.numbers;
      const result = {
        plan,
        head,
        manifest,
        integrity: await hashBytes(plan.integrity),
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
      const canRetry = error instanceof BqError && error.code === 'CHECKSUM' && file.nextMirror;
      // Bytes were damaged in transit or in the cache: read them again, then from a mirror.
      if (!canRetry || (tries > 0 && !(await file.nextMirror?.(signal)))) throw error;
    }
    start = { head: await readRange(file, 0, FIRST_READ_BYTES, signal), cached: null };
  }
}

/**
 * Returns the plan of a file that is repacked while it loads. Files from a network and files that must be paged are
 * cached repacked; the cached file begins with the manifest. If only a table of a local file is paged, its rows are
 * read from the file and repacked one by one.
 * @param {Planned} result @param {import('./gguf-plan.js').Repacked} repacked @param {ByteSource} file
 * @param {boolean} rowsOnly  whether at most a table is paged, from a local file
 * @returns {Planned}
 */
function planRepacked(result, repacked, file, rowsOnly) {
  const { plan, manifest, paging } = result;
  const id = hex(sections(manifest, 0, manifest.length).FILE);
  const localCopyUrl = paging && !rowsOnly ? `gguf:${id}/${encodeURIComponent(file.name)}` : null;
  const url = paging && rowsOnly ? null : (result.url ?? localCopyUrl);
  // The id of the header is not sufficient: versions may differ only in their weights.
  const fileId = id + repacked.tag + repacked.integrity;
  // The hash is that of the original file, so the source checks it (expectedHash).
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
 * Returns the version of the file (0: another format), the manifest for other formats, and the bytes read so far.
 * Throws ARGUMENT, NOT_A_MODEL.
 * @param {Compiled} compiled @param {Source} source @param {ByteSource} file @param {Uint8Array} head
 * @param {LoadOptions & { plans: boolean }} options  `plans`: a load may follow this plan
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
  const isFirstVersion = magic === 'BQ4F' && head.length > 7 && u32(head, 4) === 1;
  if (source.companion && !isFirstVersion)
    throw new BqError('ARGUMENT', `${file.name}: only files of version 1 have a companion`);
  if (magic === 'GGUF' || magic === 'gguf') {
    const { describeGguf, readCachedManifest } = await onDemand(import('./gguf-plan.js'));
    if (magic === 'gguf') return { version: 0, ...readCachedManifest(head) };
    const { memoryBudget = Infinity } = options;
    const repack = file.remote || !!file.parts || memoryBudget < Infinity;
    const repackTable = options.memoryBudget === undefined && readsRows(source);
    return {
      version: 0,
      ...(await describeGguf(compiled, file, head, { ...options, repack, repackTable }, signal)),
    };
  }
  if (magic !== 'BQ4F') throw notAModel(file, head);
  if (!isFirstVersion) return { version: 2, manifest: new Uint8Array(), head };
  return {
    version: 1,
    manifest: await (await onDemand(import('../../format/bq4/read-v1.js'))).v1Manifest(source, file, head, signal),
    head,
  };
}

/**
 * Reads as much of the file's beginning as a plan needs.
 * @param {Compiled} compiled @param {Source} source @param {ByteSource} file @param {Uint8Array} firstBytes
 * @param {LoadOptions & { plans: boolean }} options
 */
async function readHeader(compiled, source, file, firstBytes, options) {
  const { signal } = options;
  const {
    version,
    manifest,
    head: knownHead,
    repacked,
  } = await describeContainer(compiled, source, file, firstBytes, options);
  let head = knownHead;
  for (;;) {
    const planner = await createPlanner(
      compiled,
      manifest.length ? new Uint8Array() : head,
      manifest,
      repacked ? repacked.total : Math.max(file.size, 0),
      outsideBuffersFor(compiled, source),
    );
    // The smallest sizes, because the number of header bytes does not depend on sizes and these never exceed the
    // memory.
    const result = planner(
      { ...options, contextTokens: 1, prefillWindow: 1, prefillBatch: 1, sessions: 1, adapterBytes: 0 },
      options.memoryBudget === undefined ? undefined : 2 ** 32,
    );
    signal?.throwIfAborted();
    if ('numbers' in result) {
      file.expect?.(repacked?.head ?? head, -1);
      return { planner, smallestNumbers: result.numbers, head, version, manifest, repacked };
    }
    head = await readFirst(file, head, result.need, signal);
  }
}

/**
 * Returns a hint how to make paging possible; '' if it is possible. Paging requires that any part of the file can be
 * read at any time, from the source or from the cache.
 * @param {Source} source @param {number} version @param {unknown} repacked @param {Cache | null} cache
 */
function pagingHint(source, version, repacked, cache) {
  if (repacked)
    return cache?.pages
      ? ''
      : 'a GGUF file is paged from a repacked copy: create the engine with a cache, or choose a smaller model';
  if (isPageable(source) || (cache?.pages && version === 2)) return '';
  return 'load the file from this machine (fromHandle, fromBlob, fromFile), where weights can be read for every token, or choose a smaller model';
}

/** Returns whether single rows of a table can be read at any time without a copy of the file. @param {Source} source */
const readsRows = (source) => isPageable(source) && !isInMemory(source);

/**
 * Returns the default type of activations.
 * @param {Record<string, number>} numbers  numbers of a plan
 * @returns {'i8' | 'i16'}
 */
const defaultActivations = ({ weight_bytes: bytes, no_head: encodes, tokens }) =>
  tokens && !encodes && bytes >= I16_WEIGHT_BYTES[0] && bytes <= I16_WEIGHT_BYTES[1] ? 'i16' : 'i8';

/**
 * Returns the number of slot-sized buffers outside the heap that paging from this source needs.
 * @param {Compiled} compiled @param {Source} source
 */
const outsideBuffersFor = ({ shared }, source) => (shared || isNode || isInMemory(source) ? 0 : 2);

/**
 * Returns the KV window for a context size (0: none), and the quality options.
 * @param {LoadOptions} options @param {number} context
 */
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
 * Returns the public plan from the numbers of C.
 * @param {import('./memory-fit.js').Fitted} fitted
 * @param {'i8' | 'i16'} activations
 * @param {Pick<Plan, 'kvWindow' | 'kvSinks' | 'kvEvict' | 'quality'>} windowInfo
 * @param {number} outsideBuffers
 * @param {number} version
 * @param {Record<string, Uint8Array>} sectionsByTag
 * @returns {Plan}
 */
function describe(
  { numbers: n, sessions, contextTokens, kv, heapBytes, paging, ...fit },
  activations,
  windowInfo,
  outsideBuffers,
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
      besideBytes: outsideBuffers * paging.slot_bytes,
    },
    ...fit,
    cached: { bytes: 0, complete: false },
    integrity: null,
    tokensPerSecond: null,
  };
}
