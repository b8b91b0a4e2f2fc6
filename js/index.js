/** bq4: language models in the browser, on the CPU. What a page's own thread loads; docs/API.md explains it. */
export { connectEngine, createWorkerEngine } from './page/client.js';
export { BqError } from './shared/errors.js';
export { fromBlob, fromBytes, fromFile, fromHandle, fromUrl } from './sources/index.js';

/** @typedef {import('./store/types.js').BackendName} BackendName */
/** @typedef {import('./sources/types.js').ByteSource} ByteSource */
/** @typedef {import('./shared/types.js').Cache} Cache */
/** @typedef {import('./shared/types.js').CacheEntry} CacheEntry */
/** @typedef {import('./shared/types.js').Chat} Chat */
/** @typedef {import('./shared/types.js').ChatFormat} ChatFormat */
/** @typedef {import('./shared/types.js').ChatOptions} ChatOptions */
/** @typedef {import('./shared/types.js').Engine} Engine */
/** @typedef {import('./shared/types.js').EngineInfo} EngineInfo */
/** @typedef {import('./shared/types.js').EngineOptions} EngineOptions */
/** @typedef {import('./shared/types.js').EngineStore} EngineStore */
/** @typedef {import('./sources/types.js').FilePart} FilePart */
/** @typedef {import('./shared/types.js').GaveUp} GaveUp */
/** @typedef {import('./shared/types.js').GenerateOptions} GenerateOptions */
/** @typedef {import('./shared/types.js').Generation} Generation */
/** @typedef {import('./store/types.js').Listed} Listed */
/** @typedef {import('./shared/types.js').LoadOptions} LoadOptions */
/** @typedef {import('./shared/types.js').MemoryInfo} MemoryInfo */
/** @typedef {import('./shared/types.js').Message} Message */
/** @typedef {import('./shared/types.js').Model} Model */
/** @typedef {import('./shared/types.js').ModelInfo} ModelInfo */
/** @typedef {import('./shared/types.js').Paging} Paging */
/** @typedef {import('./shared/types.js').Part} Part */
/** @typedef {import('./shared/types.js').Plan} Plan */
/** @typedef {import('./shared/types.js').Progress} Progress */
/** @typedef {import('./shared/types.js').Result} Result */
/** @typedef {import('./shared/types.js').Session} Session */
/** @typedef {import('./shared/types.js').SessionOptions} SessionOptions */
/** @typedef {import('./shared/types.js').SessionStats} SessionStats */
/** @typedef {import('./shared/types.js').Source} Source */
/** @typedef {import('./shared/types.js').SourceLike} SourceLike */
/** @typedef {import('./shared/types.js').SourceOptions} SourceOptions */
/** @typedef {import('./shared/types.js').StageTrace} StageTrace */
/** @typedef {import('./shared/types.js').StoreOptions} StoreOptions */
/** @typedef {import('./shared/types.js').ThreadTiming} ThreadTiming */
/** @typedef {import('./shared/types.js').Timings} Timings */
/** @typedef {import('./shared/types.js').TokenizeOptions} TokenizeOptions */
/** @typedef {import('./shared/types.js').TokenizerInfo} TokenizerInfo */
/** @typedef {import('./shared/types.js').TraceOptions} TraceOptions */
/** @typedef {import('./sources/types.js').UrlOptions} UrlOptions */
/** @typedef {import('./store/types.js').Usage} Usage */
