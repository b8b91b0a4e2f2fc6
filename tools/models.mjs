#!/usr/bin/env node
// `npm run models`: downloads two real models to the cache folder and prints their paths.
import { provideModels, realModel } from './setup/models.mjs';
import { providePython } from './setup/python.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

await command(async () => {
  const { python } = await setUp();
  await provideModels(await providePython(ROOT, python));
  console.log([realModel('smollm2'), realModel('minilm')].join('\n'));
});
