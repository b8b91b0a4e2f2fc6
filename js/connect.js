/** `bq4/connect`: models behind a server with OpenAI's interface, in pages and in Node; docs/API.md explains it. */
export { localOrRemote } from './connect/choose.js';
export { connect } from './connect/index.js';
export { BqError } from './shared/errors.js';

/** @typedef {import('./connect/choose.js').Chosen} Chosen */
/** @typedef {import('./connect/index.js').ConnectOptions} ConnectOptions */
/** @typedef {import('./connect/index.js').ModelList} ModelList */
/** @typedef {import('./connect/index.js').RemoteModel} RemoteModel */
