/** Search by meaning in one's own texts, and what a question sounds like while it is typed. */
import { createWorkerEngine, fromBlob } from '../js/index.js';
import { element } from './page/element.js';
import * as format from './page/format.js';
import { keep, keepPassages, kept, keptPassages, nearest, passages, unit } from './search/passages.js';

/** @typedef {import('../js/shared/types.js').Model} Model */

const MODEL = 'bq4-search-model';
/** Passages that are shown, and computed at once. */
const [SHOWN, TOGETHER] = [5, 16];
/** Milliseconds without a key before what is typed is looked at. */
const PAUSE = 150;
const HEADS = [
  new URL('../classifiers/sentiment.json', import.meta.url),
  new URL('../classifiers/intents.json', import.meta.url),
];

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);
const say = (/** @type {string} */ text) => void ($('status').textContent = text);

/** @type {Model | null} */
let model = null;
/** @type {import('./search/passages.js').Passage[]} */
let all = [];
/** @type {any[]} */
let heads = [];

/** @param {unknown} error */
function show(error) {
  const { code = '', message, hint = '' } = /** @type {any} */ (error);
  $('alerts').textContent = [message, hint, code].filter(Boolean).join(' · ');
}

/** One thing at a time; what fails is said. @param {() => Promise<void>} work */
function next(work) {
  queue = queue.then(work).catch(show);
  return queue;
}
let queue = Promise.resolve();

const engine = createWorkerEngine({
  worker: () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }),
  threadUrl: new URL('./thread.js', import.meta.url),
});

/** @param {File} file */
async function open(file) {
  say(`Loading ${file.name}…`);
  const loaded = await (await engine).load(fromBlob(file));
  if (loaded.info.generates) {
    await loaded.close();
    throw new Error('This model writes; one that makes vectors of texts is needed, such as all-MiniLM-L6-v2.');
  }
  await model?.close();
  model = loaded;
  all = await keptPassages(model.info.hidden);
  heads = await Promise.all(HEADS.map(async (url) => (await fetch(url)).json())).catch(() => []);
  $('need').hidden = true;
  $('ask').disabled = $('files').disabled = false;
  drawTexts();
  say('Ready.');
}

/** @param {File} file */
async function add(file) {
  if (!model) throw new Error('First open the model.');
  const texts = passages(await file.text());
  const items = [];
  for (let i = 0; i < texts.length; i += TOGETHER) {
    say(`Reading ${file.name}: ${format.count(i)} of ${format.counted(texts.length, 'passage')}…`);
    const { vectors } = await model.embed(texts.slice(i, i + TOGETHER));
    items.push(...vectors.map((vector, j) => ({ file: file.name, text: texts[i + j], vector: unit(vector) })));
  }
  all = [...all.filter((one) => one.file !== file.name), ...items];
  const stored = await keepPassages(all);
  drawTexts();
  say(`${file.name} is read${stored ? '' : '; this browser keeps it only until the page is closed'}.`);
}

function drawTexts() {
  const names = [...new Set(all.map(({ file }) => file))];
  $('texts').replaceChildren(
    ...names.map((name) => {
      const n = all.filter(({ file }) => file === name).length;
      return element('li', '', `${name}: ${format.counted(n, 'passage')}`);
    }),
  );
  $('forget').hidden = !names.length;
}

async function look() {
  const text = $('ask').value.trim();
  if (!model || !text) {
    $('found').replaceChildren();
    return void ($('label').textContent = '');
  }
  const { vectors } = await model.embed([text]);
  const found = nearest(all, unit(vectors[0]), SHOWN);
  $('found').replaceChildren(
    ...found.map(({ passage, score }) => {
      const item = element('li');
      item.append(element('p', '', passage.text), element('small', '', `${passage.file} · ${score.toFixed(2)}`));
      return item;
    }),
  );
  const messages = [];
  for (const head of heads) {
    const [{ label, score }] = await model.classify([text], { classifier: head });
    messages.push(`${label.replaceAll('_', ' ')} (${Math.round(100 * score)} %)`);
  }
  $('label').textContent = messages.length ? `It sounds like: ${messages.join(', ')}` : '';
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
$('ask').addEventListener('input', () => {
  clearTimeout(timer);
  timer = setTimeout(() => void next(look), PAUSE);
});

/** @param {Iterable<File>} files */
function take(files) {
  $('alerts').textContent = '';
  for (const file of files) {
    if (!/\.(bq4|gguf)$/i.test(file.name)) void next(() => add(file));
    else void next(() => open(file)).then(() => model && keep(MODEL, file));
  }
  void next(look);
}
for (const id of ['model', 'files'])
  $(id).addEventListener('change', (/** @type {any} */ { target }) => {
    take([...target.files]);
    target.value = '';
  });
addEventListener('dragover', (event) => event.preventDefault());
addEventListener('drop', (event) => {
  event.preventDefault();
  take(event.dataTransfer?.files ?? []);
});
$('forget').addEventListener('click', () =>
  next(async () => {
    all = [];
    await keepPassages(all);
    drawTexts();
    await look();
    say('All texts are forgotten.');
  }),
);

/** Such a model in the cache folder of the machine that serves the page; elsewhere the list is empty. @returns {Promise<{ name: string, url: URL, bytes: number } | null>} */
async function embedder() {
  const list = new URL('./local.json?embedders', import.meta.url);
  const [found] = await (await fetch(list)).json();
  return found ? { ...found, url: new URL(found.url, list) } : null;
}

await next(async () => {
  const before = await kept(MODEL);
  if (before?.size) return open(new File([before], 'the model'));
  const here = await embedder().catch(() => null);
  if (here) {
    $('here').textContent = `Use ${here.name} of this machine (${format.bytes(here.bytes)})`;
    $('here').hidden = false;
    $('here').addEventListener('click', () =>
      next(async () => take([new File([await (await fetch(here.url)).blob()], `${here.name}.bq4`)])),
    );
  }
  say('Open the model first.');
});
