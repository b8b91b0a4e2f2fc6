/** bq4: language models in the browser, on the CPU. The whole public interface; docs/API.md explains it. */
export { createWorkerEngine } from './client.js';
export { createEngine } from './engine.js';
export { BqError } from './errors.js';
export { fromBlob, fromBytes, fromFile, fromHandle, fromUrl } from './sources/index.js';

/** @typedef {import('./types.js').Chat} Chat */
/** @typedef {import('./types.js').ChatFormat} ChatFormat */
/** @typedef {import('./types.js').ChatOptions} ChatOptions */
/** @typedef {import('./types.js').Engine} Engine */
/** @typedef {import('./types.js').EngineInfo} EngineInfo */
/** @typedef {import('./types.js').EngineOptions} EngineOptions */
/** @typedef {import('./types.js').GenerateOptions} GenerateOptions */
/** @typedef {import('./types.js').Generation} Generation */
/** @typedef {import('./types.js').LoadOptions} LoadOptions */
/** @typedef {import('./types.js').Message} Message */
/** @typedef {import('./types.js').Model} Model */
/** @typedef {import('./types.js').ModelInfo} ModelInfo */
/** @typedef {import('./types.js').Part} Part */
/** @typedef {import('./types.js').Plan} Plan */
/** @typedef {import('./types.js').Progress} Progress */
/** @typedef {import('./types.js').Result} Result */
/** @typedef {import('./types.js').Session} Session */
/** @typedef {import('./types.js').Source} Source */
