// Temporary folders of a test file.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';

/** Creates a folder that is deleted after the tests of the file. `fresh()` creates a new folder in it and returns its path. @param {string} name */
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
