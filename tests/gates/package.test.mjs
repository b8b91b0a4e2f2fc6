// Tests of links in the documents of the package: none of them leads to a file that only the repository has.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, posix } from 'node:path';
import { test } from 'node:test';
import { packedFiles } from '../packed-files.mjs';

/** A link or an image: the text, then the address up to `#`, a title or the end. Code is not looked at. */
const LINK = /\]\(([^)#\s]+)[^)]*\)/g;
const withoutCode = (/** @type {string} */ text) => text.replace(/^```[^]*?^```/gm, '').replace(/`[^`\n]*`/g, '');

test('relative links and images in Markdown of the package lead to files and folders of the package', () => {
  const files = packedFiles();
  const folders = new Set(
    [...files].flatMap((path) => path.split('/').map((_, i, parts) => parts.slice(0, i).join('/'))),
  );
  /** @type {string[]} */
  const broken = [];
  let links = 0;
  for (const path of [...files].filter((name) => name.endsWith('.md')))
    for (const [, href] of withoutCode(readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')).matchAll(
      LINK,
    )) {
      if (/^[a-z]+:/.test(href)) continue;
      links++;
      const target = posix.join(dirname(path), href).replace(/\/$/, '');
      if (!files.has(target) && !folders.has(target)) broken.push(`${path}: ${href}`);
    }
  assert.deepEqual(broken, []);
  assert.ok(links > 150, `${links} links`);
});
