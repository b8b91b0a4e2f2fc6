#!/usr/bin/env node
// Trains the classifiers of the package, classifiers/*.json, on embeddings of all-MiniLM-L6-v2 in 8 bits:
// `node tools/heads/make.mjs MODEL.bq4`. The data sets are next to the project (../shared/data). Neutral sentences, which express no
// opinion, are in neutral.txt in this folder.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';
import { split, trainClassifier } from '../../js/api/classifiers/index.js';

const ROOT = new URL('../../', import.meta.url);
const DATA = new URL('../shared/data/', ROOT);
/** Number of queries of the data set of intents that are examples of neutral sentences. */
const QUERY_COUNT = 600;

/** Reads a text file. @param {string} path @param {URL} base */
const readText = (path, base) => readFileSync(new URL(path, base), 'utf8');

/** Queries with their intents. @type {{ train: [string, string][], test: [string, string][] }} */
const intents = JSON.parse(readText('intents/clinc.json', DATA));
/** @param {[string, string][]} rows */
const examplesOf = (rows) => rows.map(([message, label]) => ({ text: message, label }));

/** Returns labelled sentences of reviews, and neutral sentences. */
function sentimentExamples() {
  const reviews = readText('sentiment/uci/all_labelled.txt', DATA)
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const tab = line.lastIndexOf('\t');
      return tab < 0
        ? []
        : [{ text: line.slice(0, tab).trim(), label: line.slice(tab + 1).trim() === '1' ? 'positive' : 'negative' }];
    });
  const facts = readText('tools/heads/neutral.txt', ROOT).split('\n').filter(Boolean);
  const queries = intents.train
    .filter((_, i) => i % Math.floor(intents.train.length / QUERY_COUNT) === 0)
    .map(([message]) => message);
  return [...reviews, ...[...facts, ...queries].map((message) => ({ text: message, label: 'neutral' }))];
}

/** Seconds between two lines of progress. */
const PROGRESS_SECONDS = 10;

/** Returns a function that prints the progress of a training. @param {string} name  of the classifier */
function progressPrinter(name) {
  let lastTime = Date.now();
  return (/** @type {any} */ { phase, loaded, total, loss }) => {
    if (Date.now() - lastTime < PROGRESS_SECONDS * 1000) return;
    lastTime = Date.now();
    console.log(`${name}: ${phase} ${loaded} of ${total}${loss ? `, loss ${loss.toFixed(4)}` : ''}`);
  };
}

const [path] = process.argv.slice(2);
if (!path) throw new Error('expected the path of a model: node tools/heads/make.mjs MODEL.bq4');
const engine = await createEngine({ threads: 1 });
const model = await engine.load(fromFile(path));
mkdirSync(new URL('classifiers/', ROOT), { recursive: true });
const splitReviews = split(sentimentExamples());
for (const [name, train, test, rest] of /** @type {const} */ ([
  ['sentiment', splitReviews.train, splitReviews.test, { labels: ['negative', 'neutral', 'positive'], penalty: 0.3 }],
  ['intents', examplesOf(intents.train), examplesOf(intents.test), { penalty: 0.1, iterations: 40 }],
])) {
  const { file: head, report } = await trainClassifier(model, [...train], {
    name,
    test: [...test],
    ...rest,
    onProgress: progressPrinter(name),
  });
  writeFileSync(new URL(`classifiers/${name}.json`, ROOT), `${JSON.stringify(head)}\n`);
  const { right: rightCount, test: testCount, baseline } = report;
  console.log(
    `${name}: ${rightCount} of ${testCount} test texts are labelled correctly (${((100 * rightCount) / testCount).toFixed(1)} %), by a bag of words ${((100 * baseline) / testCount).toFixed(1)} %`,
  );
  if (report.each.length < 10)
    for (const row of report.each) console.log(`  ${row.label}: ${row.right} of ${row.test}`);
}
await engine.close();
process.stdout.write(`wrote ${fileURLToPath(new URL('classifiers/', ROOT))}\n`);
