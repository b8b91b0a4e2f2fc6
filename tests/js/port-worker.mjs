// Another thread that talks to an engine over a port that it is given.
import { parentPort } from 'node:worker_threads';
import { connectEngine, fromBytes } from '../../js/index.js';
import { tinyModel } from './fixture.mjs';

parentPort?.once('message', async (port) => {
  const engine = await connectEngine(port);
  const model = await engine.load(fromBytes(await tinyModel()));
  const { choices } = await model.complete([{ role: 'user', content: 'Hello' }], { temperature: 0, maxTokens: 8 });
  parentPort?.postMessage(choices);
  await engine.close();
});
