// Times one start of two threads, from nothing to the end of the first region that both took part in.
const turn = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(undefined);
    port2.postMessage(0);
  });

/** @type {Record<string, () => Promise<any>>} */
const WAYS = {
  async bare() {
    const [{ compile, Wasm }, { Threads }] = await Promise.all([
      import('../../js/wasm/wasm.js'),
      import('../../js/wasm/threads.js'),
    ]);
    const compiled = await compile({ build: 'relaxed' }, true);
    const wasm = await Wasm.create(compiled, 8 << 20);
    const failure = await new Threads().attach(wasm, compiled, 2);
    if (failure) throw new Error(failure);
    return (/** @type {string} */ name, /** @type {number[]} */ ...args) => wasm.call(name, ...args);
  },
  pthreads: () => emscripten('pthreads'),
  'wasm-workers': () => emscripten('wasm-workers'),
};

/** @param {string} name */
async function emscripten(name) {
  const module = await (await import(`../../build/bench-threads/${name}.mjs`)).default();
  module._bench_start();
  while (!module._bench_entered()) await turn();
  module._bqw_threads(2, 20000);
  return (/** @type {string} */ f, /** @type {number[]} */ ...args) => module[`_${f}`](...args);
}

onmessage = async ({ data: { way: mode, regions } }) => {
  try {
    const since = performance.now();
    const call = await WAYS[mode]();
    if (call('bqw_measure_empty', 1, 0) !== 2) throw new Error('a slice was not run');
    const start = performance.now() - since;
    /** @type {Record<string, number>} */
    const out = { start };
    if (regions) Object.assign(out, rates(call, regions));
    postMessage(out);
  } catch (error) {
    postMessage({ error: String(/** @type {Error} */ (error).stack) });
  }
};

/** Microseconds of a region, of a barrier in one, and of a region whose threads are asleep. @param {any} call @param {number} regions */
function rates(call, regions) {
  const each = (/** @type {number} */ n, /** @type {() => void} */ work) => {
    const since = performance.now();
    work();
    return ((performance.now() - since) / n) * 1e3;
  };
  call('bqw_measure_empty', regions, 0);
  const region = each(regions, () => call('bqw_measure_empty', regions, 0));
  const barrier = each(regions, () => call('bqw_measure_empty', 1, regions));
  const asleep = Array.from({ length: 200 }, () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    return each(1, () => call('bqw_measure_empty', 1, 0));
  }).sort((a, b) => a - b);
  return { region, barrier, asleep: asleep[100] };
}
