import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A tokenizer of 64 tokens, as many as the models of tests/golden/gguf have at least: letters, and some pairs of them: its path. @param {string} folder */
export function letters(folder) {
  const { model, ...rest } = JSON.parse(
    readFileSync(new URL('../golden/tiny/tokenizer.json', import.meta.url), 'utf8'),
  );
  const pairs = ['th', 'er', 'in', 'on', 'an', 'en', 're', 'at'];
  const known = [...'abcdefghijklmnopqrstuvwxyzTW,.Ġ', ...pairs];
  const tokens = [...known, ...Array.from({ length: 64 - known.length }, (_, i) => `zz${i}`)];
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
