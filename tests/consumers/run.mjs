// A program for Node, Deno and Bun that uses the package: an engine in its own thread and one in a worker, each with a model in memory and
// with a paged model. The argument is the path of a model; the output is a line of JSON.
import { createWorkerEngine } from 'bq4';
import { createEngine, fromFile } from 'bq4/node';

const result = {};
for (const [name, create] of Object.entries({ own: createEngine, worker: createWorkerEngine })) {
  const engine = await create({ threads: 2 });
  const source = () => fromFile(process.argv[2]);
  const generate = async (model) => (await model.generate('Once', { temperature: 0, maxTokens: 8 }).result).tokens;
  const model = await engine.load(source(), { contextTokens: 64 });
  const ids = await generate(model);
  await model.close();
  const { heapBytes, weightBytes } = await engine.plan(source(), { contextTokens: 64 });
  const pagedModel = await engine.load(source(), {
    contextTokens: 64,
    memoryBudget: heapBytes - Math.floor(weightBytes * 0.4),
  });
  result[name] = {
    ids,
    paged: await generate(pagedModel),
    residency: pagedModel.info.residency,
    threads: engine.info.threads,
  };
  await engine.close();
}
console.log(JSON.stringify(result));
