/** `bq4/node`: an engine in the calling thread, for Node and for the application's own workers. */
export { createEngine, load } from './engine/create.js';
export { BqError } from './shared/errors.js';
export { listSupported } from './list-supported.js';
export { fromBlob, fromBytes, fromFile, fromHandle, fromUrl } from './storage/sources/index.js';
