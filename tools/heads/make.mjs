#!/usr/bin/env node
// Makes classifiers/*.json, the heads that come with the package, over all-MiniLM-L6-v2 in 8 bits: `node tools/heads/make.mjs MODEL.bq4`.
// Texts to learn from lie beside the project (../shared/data); neutral sentences, which judge nothing, in neutral.txt here.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';
import { split, trainClassifier } from '../../js/api/classifiers/index.js';

const ROOT = new URL('../../', import.meta.url);
const DATA = new URL('../shared/data/', ROOT);
/** Queries for each intent judge nothing: so many of them are neutral. */
const QUERIES = 600;

/** @param {string} path @param {URL} base */
const text = (path, base) => readFileSync(new URL(path, base), 'utf8');

/** @type {{ train: [string, string][], test: [string, string][] }} */
const clinc = JSON.parse(text('intents/clinc.json', DATA));
/** @param {[string, string][]} rows */
const examplesOf = (rows) => rows.map(([message, label]) => ({ text: message, label }));

function sentiment() {
  const judged = text('sentiment/uci/all_labelled.txt', DATA)
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const tab = line.lastIndexOf('\t');
      return tab < 0
        ? []
        : [{ text: line.slice(0, tab).trim(), label: line.slice(tab + 1).trim() === '1' ? 'positive' : 'negative' }];
    });
  const facts = text('tools/heads/neutral.txt', ROOT).split('\n').filter(Boolean);
  const queries = clinc.train
    .filter((_, i) => i % Math.floor(clinc.train.length / QUERIES) === 0)
    .map(([message]) => message);
  return [...judged, ...[...facts, ...queries].map((message) => ({ text: message, label: 'neutral' }))];
}

/** Seconds between lines of progress. */
const EVERY = 10;

/** @param {string} name */
function progress(name) {
  let at = Date.now();
  return (/** @type {any} */ { phase, loaded, total, loss }) => {
    if (Date.now() - at < EVERY * 1000) return;
    at = Date.now();
    console.log(`${name}: ${phase} ${loaded} of ${total}${loss ? `, loss ${loss.toFixed(4)}` : ''}`);
  };
}

const [file] = process.argv.slice(2);
if (!file) throw new Error('usage: node tools/heads/make.mjs MODEL.bq4');
const engine = await createEngine({ threads: 1 });
const model = await engine.load(fromFile(file));
mkdirSync(new URL('classifiers/', ROOT), { recursive: true });
const judged = split(sentiment());
for (const [name, train, test, rest] of /** @type {const} */ ([
  ['sentiment', judged.train, judged.test, { labels: ['negative', 'neutral', 'positive'], penalty: 0.3 }],
  ['intents', examplesOf(clinc.train), examplesOf(clinc.test), { penalty: 0.1, iterations: 40 }],
])) {
  const { file: head, report } = await trainClassifier(model, [...train], {
    name,
    test: [...test],
    ...rest,
    onProgress: progress(name),
  });
  writeFileSync(new URL(`classifiers/${name}.json`, ROOT), `${JSON.stringify(head)}\n`);
  const { right, test: of, baseline } = report;
  console.log(
    `${name}: ${right} of ${of} held out are right (${((100 * right) / of).toFixed(1)} %), by a bag of words ${((100 * baseline) / of).toFixed(1)} %`,
  );
  if (report.each.length < 10)
    for (const one of report.each) console.log(`  ${one.label}: ${one.right} of ${one.test}`);
}
await engine.close();
process.stdout.write(`written to ${fileURLToPath(new URL('classifiers/', ROOT))}\n`);
