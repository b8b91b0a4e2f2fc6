#!/usr/bin/env node
// `npm run models`: puts two real models into the cache folder, and prints where they are.
import { provideModels, realModel } from './setup/models.mjs';
import { providePython } from './setup/python.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

await command(async () => {
  const { python } = await setUp();
  await provideModels(await providePython(ROOT, python));
  console.log([realModel('smollm2'), realModel('minilm')].join('\n'));
});
