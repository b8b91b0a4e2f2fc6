// A thread that uses an engine over a port. The port is in its first message.
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
