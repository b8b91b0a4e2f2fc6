/** bq4: language models in the browser, on the CPU. What a page's own thread loads; docs/API.md explains it. */
export { createWorkerEngine } from './page/client.js';
export { BqError } from './shared/errors.js';
export { fromBlob, fromBytes, fromFile, fromHandle, fromUrl } from './sources/index.js';

/** @typedef {import('./shared/types.js').Chat} Chat */
/** @typedef {import('./shared/types.js').ChatFormat} ChatFormat */
/** @typedef {import('./shared/types.js').ChatOptions} ChatOptions */
/** @typedef {import('./shared/types.js').Engine} Engine */
/** @typedef {import('./shared/types.js').EngineInfo} EngineInfo */
/** @typedef {import('./shared/types.js').EngineOptions} EngineOptions */
/** @typedef {import('./shared/types.js').GenerateOptions} GenerateOptions */
/** @typedef {import('./shared/types.js').Generation} Generation */
/** @typedef {import('./shared/types.js').LoadOptions} LoadOptions */
/** @typedef {import('./shared/types.js').Message} Message */
/** @typedef {import('./shared/types.js').Model} Model */
/** @typedef {import('./shared/types.js').ModelInfo} ModelInfo */
/** @typedef {import('./shared/types.js').Part} Part */
/** @typedef {import('./shared/types.js').Plan} Plan */
/** @typedef {import('./shared/types.js').Progress} Progress */
/** @typedef {import('./shared/types.js').Result} Result */
/** @typedef {import('./shared/types.js').Session} Session */
/** @typedef {import('./shared/types.js').Source} Source */
