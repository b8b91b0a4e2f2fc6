// What a program of Node, Deno or Bun does with the package: an engine in its own thread, one in a worker, the larger part of a model read in pages.
import { createWorkerEngine } from 'bq4';
import { createEngine, fromFile } from 'bq4/node';

const result = {};
for (const [name, create] of Object.entries({ own: createEngine, worker: createWorkerEngine })) {
  const engine = await create({ threads: 2 });
  const source = () => fromFile(process.argv[2]);
  const say = async (model) => (await model.generate('Once', { temperature: 0, maxTokens: 8 }).result).tokens;
  const model = await engine.load(source(), { contextTokens: 64 });
  const ids = await say(model);
  await model.close();
  const { heapBytes, weightBytes } = await engine.plan(source(), { contextTokens: 64 });
  const paged = await engine.load(source(), {
    contextTokens: 64,
    memoryBudget: heapBytes - Math.floor(weightBytes * 0.4),
  });
  result[name] = { ids, paged: await say(paged), residency: paged.info.residency, threads: engine.info.threads };
  await engine.close();
}
console.log(JSON.stringify(result));
