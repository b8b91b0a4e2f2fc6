// A folder of a test file's own, gone when its tests are done, and new ones in it.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';

/** @param {string} name */
export function testFolder(name) {
  const folder = mkdtempSync(join(tmpdir(), `bq4-${name}-`));
  after(() => rmSync(folder, { recursive: true }));
  let count = 0;
  const fresh = () => {
    const path = join(folder, String(count++));
    mkdirSync(path);
    return path;
  };
  return { folder, fresh };
}
