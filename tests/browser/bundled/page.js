// A page that uses the package as its readers do, for bundlers. It takes what is found by address: a worker, its threads, the one that
// reads what is larger than its budget, modules that are imported on demand.
import { createWorkerEngine, fromBlob } from 'bq4';

async function run(options) {
  const engine = await createWorkerEngine({ threads: 2, cache: 'auto', ...options });
  const say = async (model) =>
    (await (await model.createSession()).generate('Once', { temperature: 0, maxTokens: 8 }).result).tokens;
  const model = await engine.load('chat.bq4', { contextTokens: 64, onProgress() {} });
  const ids = await say(model);
  await model.close();
  const file = fromBlob(await (await fetch('chat.bq4')).blob());
  const { heapBytes, weightBytes } = await engine.plan(file, { contextTokens: 64 });
  const paged = await engine.load(file, { contextTokens: 64, memoryBudget: heapBytes - Math.floor(weightBytes * 0.4) });
  const result = {
    ids,
    paged: await say(paged),
    residency: paged.info.residency,
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
