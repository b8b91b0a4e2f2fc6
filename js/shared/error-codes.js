/** Table of the error codes. A new code needs a row here and one in docs/reference/errors.md. */

/**
 * Area of the cause of an error.
 * @typedef {'arguments' | 'network' | 'storage' | 'format' | 'memory' | 'generation' | 'environment'} ErrorGroup
 */

/**
 * `hint`: default hint, for errors that are created without one. Errors of the C code (c/core/status.h) have their own.
 * @typedef {{ group: ErrorGroup, hint?: string }} ErrorRow
 */

export const ERRORS = /** @satisfies {Record<string, ErrorRow>} */ ({
  ARGUMENT: { group: 'arguments', hint: 'see docs/reference' },
  GRAMMAR: { group: 'arguments', hint: 'see docs/reference/generation.md' },
  NETWORK: {
    group: 'network',
    hint: 'check the connection, and that the server allows this page to read the file (CORS)',
  },
  HTTP_STATUS: { group: 'network', hint: 'check the address of the file' },
  EXPIRED: {
    group: 'network',
    hint: 'get a new address for the file and load it again: cached chunks are not fetched again',
  },
  CHANGED: { group: 'network', hint: 'the file is being replaced: load it again' },
  READ: {
    group: 'storage',
    hint: 'the file was moved or changed, or its permission was withdrawn: choose it again',
  },
  WRITE: { group: 'storage' },
  STORAGE: { group: 'storage', hint: 'the model works without the cache, but is fetched again next time' },
  QUOTA: {
    group: 'storage',
    hint: 'free some storage, delete unused models, or load without a cache',
  },
  IN_USE: { group: 'storage', hint: 'close the model, also in other tabs, and try again' },
  NOT_A_MODEL: {
    group: 'format',
    hint: 'the file is not a .bq4 or .gguf model: convert one with "npx bq4 convert"',
  },
  FORMAT: { group: 'format', hint: 'the file is malformed: fetch it again or convert it again' },
  TRUNCATED: { group: 'format', hint: 'the file ends too early: fetch it again' },
  CHECKSUM: { group: 'format' },
  INTEGRITY: { group: 'format' },
  UNSUPPORTED: { group: 'format' },
  SHAPE: { group: 'format' },
  MISMATCH: { group: 'format' },
  NOMEM: {
    group: 'memory',
    hint: 'plan again with a smaller context, fewer sessions or a smaller model',
  },
  STATE: { group: 'generation', hint: 'wait for the running call to end, or abort it' },
  CLOSED: { group: 'generation', hint: 'the object was closed: create a new one' },
  NO_SESSION: {
    group: 'generation',
    hint: 'close a session, wait for a reply to end, or load the model with more sessions or forks',
  },
  NO_CHAT: { group: 'generation' },
  CONTEXT_FULL: {
    group: 'generation',
    hint: 'start a new chat, or load the model with a larger context',
  },
  NO_TOKEN: { group: 'generation' },
  TEMPLATE: { group: 'generation' },
  TOOL: { group: 'generation' },
  RESTARTED: { group: 'generation' },
  NO_SIMD: {
    group: 'environment',
    hint: 'use a browser with WebAssembly SIMD: Chrome 100, Firefox 114, Safari 16.4, Node 20.16 or newer',
  },
  NO_ENGINE: {
    group: 'environment',
    hint: 'serve build/wasm/*.wasm of the same bq4 version next to its dist/ folder, or pass wasmUrl',
  },
  NO_WORKER: {
    group: 'environment',
    hint: 'serve worker.js from the origin of the page, or pass { worker } (docs/guides/bundlers.md)',
  },
  TRAP: {
    group: 'environment',
    hint: 'the engine has a bug or its memory is damaged: close the model and load it again',
  },
});
