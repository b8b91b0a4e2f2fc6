// Another thread that talks to an engine over a port that it is given.
import { parentPort } from 'node:worker_threads';
import { connectEngine, fromBytes } from '../../js/index.js';
import { tinyModel } from './fixture.mjs';

parentPort?.once('message', async (port) => {
  const engine = await connectEngine(port);
  const model = await engine.load(fromBytes(await tinyModel()));
  const { choices } = await model.chat.completions.create({
    messages: [{ role: 'user', content: 'Hello' }],
    temperature: 0,
    max_tokens: 8,
  });
  parentPort?.postMessage(choices);
  await engine.close();
});
