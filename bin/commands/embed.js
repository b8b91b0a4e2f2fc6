/** `bq4 embed`: computes vectors of texts. */
import { stderr, stdout } from 'node:process';
import { COMPUTE, flag, load, oneOf, value } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'computes a vector for each text, printed as a line of JSON',
  operands: 'FILE TEXT...',
  loadsFile: true,
  options: {
    pooling: value('KIND', 'pooling: mean, cls or last (default: that of the file)'),
    prompt: value('NAME', 'name of the embedding prompt that is put before each text, such as query'),
    'no-normalize': flag('does not scale vectors to length 1'),
    json: flag('prints one JSON object: vectors, tokens, truncated, build'),
    ...COMPUTE,
  },
  run: embedTexts,
};

/** @param {string[]} files  the model, then texts @param {any} options */
async function embedTexts([file, ...texts], options) {
  const pooling = oneOf(options, 'pooling', 'mean', 'cls', 'last');
  const { engine, model } = await load(file, options);
  const result = await model.embed(texts, {
    pooling,
    prompt: options.prompt,
    normalize: options['no-normalize'] ? false : undefined,
  });
  const vectors = result.vectors.map((vector) => Array.from(vector));
  for (const i of result.truncated)
    stderr.write(`bq4: text ${i + 1} is too long; only its first ${result.tokens[i]} tokens are used\n`);
  const { build, reason: buildReason } = engine.info;
  if (options.json) stdout.write(`${JSON.stringify({ ...result, vectors, build, buildReason })}\n`);
  else for (const vector of vectors) stdout.write(`${JSON.stringify(vector)}\n`);
  await engine.close();
}
