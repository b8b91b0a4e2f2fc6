// Converts all-MiniLM-L6-v2, which `npm run models` downloads, to a file that the demo's search page loads.
import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { convert } from '../../js/convert/index.js';
import { EMBEDDER } from '../serve.mjs';
import { modelsFolder, realModel } from './models.mjs';
import { step } from './shell.mjs';

/** Converts the model if the file does not exist yet; takes about a second. Does nothing if the model was not downloaded. */
export async function provideEmbedder() {
  const model = realModel('minilm');
  const path = join(modelsFolder(), 'minilm-bq8', `${EMBEDDER}.bq4`);
  if (!model || existsSync(path)) return;
  mkdirSync(dirname(path), { recursive: true });
  await step(`converting ${EMBEDDER}`, () => convert(model, path, { quant: 'bq8' }));
}
