import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Writes a tokenizer.json with letters and some pairs of letters. It has 64 tokens, as many as the smallest model of tests/golden/gguf.
 * @param {string} folder @returns {string} its path
 */
export function writeLetterTokenizer(folder) {
  const { model, ...rest } = JSON.parse(
    readFileSync(new URL('../golden/tiny/tokenizer.json', import.meta.url), 'utf8'),
  );
  const pairs = ['th', 'er', 'in', 'on', 'an', 'en', 're', 'at'];
  const texts = [...'abcdefghijklmnopqrstuvwxyzTW,.Ġ', ...pairs];
  const tokens = [...texts, ...Array.from({ length: 64 - texts.length }, (_, i) => `zz${i}`)];
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const path = join(folder, 'letters.json');
  writeFileSync(
    path,
    JSON.stringify({
      ...rest,
      added_tokens: [],
      post_processor: null,
      model: { ...model, vocab, merges: pairs.map(([a, b]) => `${a} ${b}`) },
    }),
  );
  return path;
}
