// A page that uses the package, for bundlers. It loads all kinds of files that the package finds by address: a worker, its threads, the
// worker that reads pages of weights, and modules that are imported on demand.
import { createWorkerEngine, fromBlob } from 'bq4';

async function run(options) {
  const engine = await createWorkerEngine({ threads: 2, cache: 'auto', ...options });
  const generate = async (model) =>
    (await (await model.createSession()).generate('Once', { temperature: 0, maxTokens: 8 }).result).tokens;
  const model = await engine.load('chat.bq4', { contextTokens: 64, onProgress() {} });
  const ids = await generate(model);
  await model.close();
  const file = fromBlob(await (await fetch('chat.bq4')).blob());
  const { heapBytes, weightBytes } = await engine.plan(file, { contextTokens: 64 });
  const memoryBudget = heapBytes - Math.floor(weightBytes * 0.4);
  const pagedModel = await engine.load(file, { contextTokens: 64, memoryBudget });
  const result = {
    ids,
    paged: await generate(pagedModel),
    residency: pagedModel.info.residency,
    threads: engine.info.threads,
    worker: engine.info.worker,
    store: engine.store?.backend,
  };
  await engine.close();
  return result;
}

export const show = (options) =>
  void run(options)
    .catch((error) => ({ error: `${error.stack}; ${error.cause?.stack}`, code: error.code, hint: error.hint }))
    .then((result) => Object.assign(window, { result }));
