// Tests of the first code example of README.md with the modules of this checkout. install.long.mjs tests it with the installed package.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { code, modelServer, writeScript } from './readme.mjs';

test(
  'an install, a bare import and an address: SmolLM2 says Paris',
  { skip: realModel('smollm2') ? false : NO_REAL_MODEL },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'bq4-readme-'));
    t.after(() => rmSync(folder, { recursive: true }));
    assert.match(code, /from 'bq4';.*'hf:\S+\.gguf'/s);
    const from = new URL('../../js/index.js', import.meta.url).href;
    const path = writeScript(folder, await modelServer(t), from);
    const log = t.mock.method(console, 'log', () => {});
    const { reply } = await import(pathToFileURL(path).href);
    assert.match(reply, /Paris/);
    assert.deepEqual(log.mock.calls[0].arguments, [reply]);
  },
);
