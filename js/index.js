/** bq4: language models in the browser, on the CPU. The whole public interface; docs/API.md explains it. */
export { createWorkerEngine } from './client.js';
export { createEngine } from './engine.js';
export { BqError } from './errors.js';
export { fromBlob, fromBytes, fromFile, fromUrl } from './sources/index.js';
