// js/worker.js with the counters of count-calls.mjs, for a page. The first message contains their shared memory.
onmessage = async ({ data: counters }) => {
  onmessage = null;
  const { countCalls } = await import('../../js/count-calls.mjs');
  countCalls(counters);
  await import('../../../js/worker.js');
  postMessage('ready');
};
