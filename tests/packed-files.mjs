// The files of the package, listed by `npm pack` without writing it.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The result of the first call. @type {Set<string> | undefined} */
let paths;

/** Paths of the package's files, relative to the root of the repository. @returns {Set<string>} */
export function packedFiles() {
  if (paths) return paths;
  const output = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: fileURLToPath(new URL('../', import.meta.url)),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return (paths = new Set(JSON.parse(output)[0].files.map((/** @type {{ path: string }} */ { path }) => path)));
}
