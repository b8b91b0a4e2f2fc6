/** `bq4 rerank`: orders documents by how well they fit a query. */
import { stdout } from 'node:process';
import { COMPUTE, flag, load, numberOf, value } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'orders documents by how well they fit a query, with a score for each',
  operands: 'FILE QUERY DOCUMENT...',
  loadsFile: true,
  options: {
    'top-n': value('N', 'prints only the N best documents'),
    json: flag('prints one JSON object: method, results, build'),
    ...COMPUTE,
  },
  run: rerank,
};

/** @param {string[]} operands  the model, the query, the documents @param {any} options */
async function rerank([file, query, ...documents], options) {
  const { engine, model } = await load(file, options);
  const results = await model.rerank(query, documents, { topN: numberOf(options, 'top-n') });
  const { build, reason: buildReason } = engine.info;
  if (options.json) stdout.write(`${JSON.stringify({ method: model.info.reranks, results, build, buildReason })}\n`);
  else
    for (const { score, index, document } of results) stdout.write(`${score.toFixed(4)}\t${index + 1}\t${document}\n`);
  await engine.close();
}
