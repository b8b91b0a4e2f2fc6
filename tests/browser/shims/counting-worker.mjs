// js/worker.js with counters in shared memory, as tests/js/counting-worker.mjs, for a page. The first message brings
// the memory: counters = [slices, samples]
onmessage = async ({ data: counters }) => {
  onmessage = null;
  const { Wasm } = await import('../../../js/wasm.js');
  const { call } = Wasm.prototype;
  Wasm.prototype.call = function (name, ...args) {
    const result = call.call(this, name, ...args);
    if (name === 'bqw_session_run') Atomics.add(counters, 0, 1);
    if (name === 'bqw_session_sample') Atomics.add(counters, 1, 1);
    return result;
  };
  await import('../../../js/worker.js');
  postMessage('ready');
};
