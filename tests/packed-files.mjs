// What `npm pack` would put into the package, without making it.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** @type {Set<string> | undefined} */
let paths;

/** Paths from the repository's root. */
export function packedFiles() {
  if (paths) return paths;
  const output = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: fileURLToPath(new URL('../', import.meta.url)),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return (paths = new Set(JSON.parse(output)[0].files.map((/** @type {{ path: string }} */ { path }) => path)));
}
