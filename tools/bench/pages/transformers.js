// Opens transformers.js, for pages that compare it with bq4.

/** Folder of transformers.js. */
const PACKAGE_PATH = '/build/bench/peers/node_modules/@huggingface/transformers/';

/**
 * Returns transformers.js for its wasm device with one thread, and the name of the model in a folder of this server.
 * @param {string} folder
 */
export async function importTransformers(folder) {
  const transformers = await import(`${PACKAGE_PATH}dist/transformers.web.js`);
  const slash = folder.lastIndexOf('/');
  Object.assign(transformers.env, {
    allowRemoteModels: false,
    allowLocalModels: true,
    localModelPath: folder.slice(0, slash + 1),
    useBrowserCache: false,
    useWasmCache: false,
  });
  Object.assign(transformers.env.backends.onnx.wasm, {
    wasmPaths: `${PACKAGE_PATH}node_modules/onnxruntime-web/dist/`,
    numThreads: 1,
  });
  return { transformers, name: folder.slice(slash + 1) };
}
