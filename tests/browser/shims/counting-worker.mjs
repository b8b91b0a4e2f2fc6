// js/worker.js with the counters of count-calls.mjs, for a page. The first message brings their memory.
onmessage = async ({ data: counters }) => {
  onmessage = null;
  const { countCalls } = await import('../../js/count-calls.mjs');
  countCalls(counters);
  const source = '../../../js/worker.js?source'; // not as it is shipped: the modules that are counted
  await import(source);
  postMessage('ready');
};
