/**
 * `bq4/connect`: models behind a server with OpenAI's interface, for pages and Node. Reference:
 * docs/reference/connect-and-serve.md.
 */
export { localOrRemote } from './api/connect/prefer-local.js';
export { connect } from './api/connect/index.js';
export { BqError } from './shared/errors.js';

/** @typedef {import('./api/connect/prefer-local.js').Chosen} Chosen */
/** @typedef {import('./api/connect/index.js').ConnectOptions} ConnectOptions */
/** @typedef {import('./api/connect/index.js').ModelList} ModelList */
/** @typedef {import('./api/connect/index.js').RemoteModel} RemoteModel */
