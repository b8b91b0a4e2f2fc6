// Tests of a folder in Hugging Face's layout that is selected in a page: its conversion in the page gives the same replies as in Node.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { chromiumFirst, oneSite } from './every.mjs';

const TINY = fileURLToPath(new URL('../golden/tiny', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'bq4-chosen-'));
after(() => rmSync(folder, { recursive: true }));

async function wanted() {
  const to = join(folder, 'tiny.bq4');
  await convert(TINY, to);
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromFile(to));
  const { tokens: ids } = await (await model.createSession()).generate('He said', { temperature: 0, maxTokens: 16 })
    .result;
  await engine.close();
  return ids;
}

await chromiumFirst((name) => {
  const here = oneSite(name);
  test('files of a list that the worker converts give the tokens of the converted folder', async () => {
    const page = await here.open();
    const seen = await page.evaluate(async () => {
      const js = '/js/index.js';
      const { createWorkerEngine } = await import(js);
      const list = new DataTransfer();
      for (const file of ['config.json', 'model.safetensors', 'tokenizer.json']) {
        const bytes = await (await fetch(`/tests/golden/tiny/${file}`)).arrayBuffer();
        list.items.add(new File([bytes], file));
      }
      const engine = await createWorkerEngine({ cache: false });
      const phases = new Set();
      const model = await engine.load(list.files, {
        onProgress: (/** @type {any} */ { phase }) => phases.add(phase),
      });
      const session = await model.createSession();
      const { tokens: ids } = await session.generate('He said', { temperature: 0, maxTokens: 16 }).result;
      await engine.close();
      return { ids, phases: [...phases] };
    });
    assert.deepEqual(seen.ids, await wanted());
    assert.ok(seen.phases.includes('convert'));
    assert.deepEqual(await page.trouble(), []);
  });
});
