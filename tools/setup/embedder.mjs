// all-MiniLM-L6-v2 as a browser loads it, of the folder that `npm run models` has fetched: for the demo's search page.
import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { convert } from '../../js/convert/index.js';
import { EMBEDDER } from '../serve.mjs';
import { modelsFolder, realModel } from './models.mjs';
import { step } from './shell.mjs';

/** Makes the file where there is none yet, in a second: it is there whole or not at all. Without the model it does nothing. */
export async function provideEmbedder() {
  const model = realModel('minilm');
  const path = join(modelsFolder(), 'minilm-bq8', `${EMBEDDER}.bq4`);
  if (!model || existsSync(path)) return;
  mkdirSync(dirname(path), { recursive: true });
  await step(`converting ${EMBEDDER}`, () => convert(model, path, { quant: 'bq8' }));
}
