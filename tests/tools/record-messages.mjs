// Records the messages of all BqErrors of a process in build/reports/messages/, as examples for the table of messages
// (tests/js/error-messages.test.mjs):
//
//   NODE_OPTIONS="--import $PWD/tests/tools/record-messages.mjs" node --test tests/js/wrong-inputs.test.mjs
import { appendFileSync, mkdirSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('../../build/reports/messages/', import.meta.url));
mkdirSync(FOLDER, { recursive: true });

/** @type {any} */ (globalThis).recordMessage = (/** @type {string} */ code, /** @type {unknown} */ message) =>
  appendFileSync(`${FOLDER}${process.pid}.jsonl`, `${JSON.stringify([code, String(message).slice(0, 400)])}\n`);

// The types of Node lack registerHooks.
/** @type {any} */ (nodeModule).registerHooks({
  load(/** @type {string} */ url, /** @type {any} */ context, /** @type {any} */ nextLoad) {
    const result = nextLoad(url, context);
    if (!url.endsWith('/js/shared/errors.js')) return result;
    return {
      ...result,
      source: String(result.source).replace('    super(', '    globalThis.recordMessage(code, message);\n    super('),
    };
  },
});
