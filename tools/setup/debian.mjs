// Downloads packages of a newer Debian release and unpacks them into a folder of their own. Nothing is installed, root is not
// required, and the packages of the system stay unchanged.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run, SetupError } from './shell.mjs';

export const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const DEFAULT_MIRROR = 'http://deb.debian.org/debian';
const SUITES = /^(buster|bullseye|bookworm|trixie|forky|duke|sid|oldstable|stable|testing|unstable)$/;

/**
 * Returns the family of this Linux system.
 * @returns {'debian' | 'ubuntu' | string | undefined}  also for derivatives of these; undefined for all other systems
 */
export function debianLike() {
  if (process.platform !== 'linux' || !existsSync('/etc/os-release')) return undefined;
  const release = readFileSync('/etc/os-release', 'utf8');
  const ids = /^ID=(.*)$/m.exec(release)?.[1] + ' ' + (/^ID_LIKE=(.*)$/m.exec(release)?.[1] ?? '');
  return /\b(debian|ubuntu)\b/.exec(ids)?.[1];
}

/**
 * Returns the addresses of Debian archives in an apt sources file.
 * @param {string} text
 * @param {boolean} deb822 whether it is a `.sources` file (stanzas), not a `.list` file (lines)
 * @returns {string[]}
 */
export function mirrorsIn(text, deb822) {
  /** @type {{uris: string[], suites: string[]}[]} */
  let entries;
  const lines = text.split('\n').filter((line) => !line.startsWith('#'));
  if (deb822) {
    entries = lines
      .join('\n')
      .split(/\n\s*\n/)
      .map((stanza) => {
        /** @param {string} name */
        const field = (name) =>
          (new RegExp(`^${name}:((?:.*)(?:\\n[ \\t].*)*)`, 'mi').exec(stanza)?.[1] ?? '').split(/\s+/).filter(Boolean);
        const isEnabled = field('Types').includes('deb') && field('Enabled')[0]?.toLowerCase() !== 'no';
        return { uris: isEnabled ? field('URIs') : [], suites: field('Suites') };
      });
  } else {
    entries = lines.flatMap((line) => {
      const match = /^\s*deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)/.exec(line);
      return match ? [{ uris: [match[1]], suites: [match[2]] }] : [];
    });
  }
  return entries
    .filter(({ suites }) => suites.some((suite) => SUITES.test(suite)))
    .flatMap(({ uris }) => uris)
    .filter((uri) => /^https?:/.test(uri))
    .map((uri) => uri.replace(/\/+$/, ''));
}

/** Returns the address of the Debian archive in the system's apt sources, or the default one. */
export function debianMirror(etc = '/etc/apt') {
  const parts = join(etc, 'sources.list.d');
  const files = [join(etc, 'sources.list')].concat(
    existsSync(parts)
      ? readdirSync(parts)
          .sort()
          .map((name) => join(parts, name))
      : [],
  );
  for (const path of files) {
    if (!/\.(list|sources)$/.test(path) || !existsSync(path)) continue;
    const mirrors = mirrorsIn(readFileSync(path, 'utf8'), path.endsWith('.sources'));
    if (mirrors.length) return mirrors[0];
  }
  return DEFAULT_MIRROR;
}

/** An apt with its own state, cache and sources list in one folder. */
export class PrivateApt {
  /** @type {Map<string, {version: string, depends: string[]}>} */
  #packages = new Map();

  /**
   * @param {string} folder
   * @param {string} suite
   */
  constructor(folder, suite) {
    this.suite = suite;
    this.debs = join(folder, 'debs');
    for (const part of ['state/lists/partial', 'cache/archives/partial', 'debs']) {
      mkdirSync(join(folder, part), { recursive: true });
    }
    writeFileSync(join(folder, 'status'), '');
    writeFileSync(join(folder, 'sources.list'), `deb [signed-by=${KEYRING}] ${debianMirror()} ${suite} main\n`);
    this.options = Object.entries({
      'Dir::State': join(folder, 'state'),
      'Dir::State::status': join(folder, 'status'),
      'Dir::Cache': join(folder, 'cache'),
      'Dir::Etc::sourcelist': join(folder, 'sources.list'),
      'Dir::Etc::sourceparts': '-',
      'Dir::Etc::preferencesparts': '-',
      'Acquire::Languages': 'none',
      'Acquire::Retries': '3',
      // apt started by root downloads as another user, who cannot write to this folder.
      'APT::Sandbox::User': 'root',
    }).flatMap(([key, value]) => ['-o', `${key}=${value}`]);
  }

  async update() {
    await run('apt-get', [...this.options, '-qq', '--error-on=any', 'update']);
  }

  /**
   * Reads the control stanzas of packages. Names that are not in the archive are ignored.
   * @param {readonly string[]} names
   */
  async #readStanzas(names) {
    const text = await run('sh', [
      '-c',
      'apt-cache "$@" || true',
      'sh',
      ...this.options,
      'show',
      '--no-all-versions',
      ...names,
    ]);
    for (const stanza of text.split(/\n\n/)) {
      const name = /^Package: (.*)$/m.exec(stanza)?.[1];
      const version = /^Version: (.*)$/m.exec(stanza)?.[1];
      if (!name || !version) continue;
      const depends =
        (/^Depends: (.*)$/m.exec(stanza)?.[1] ?? '') + ',' + (/^Pre-Depends: (.*)$/m.exec(stanza)?.[1] ?? '');
      this.#packages.set(name, {
        version,
        depends: depends
          .split(/[,|]/)
          .map((d) => d.trim().split(/[\s:(]/)[0])
          .filter(Boolean),
      });
    }
  }

  /**
   * Returns packages with their direct and indirect dependencies, without those for which `follow` returns false.
   * @param {readonly string[]} roots
   * @param {(name: string) => boolean} follow
   * @returns {Promise<Map<string, string>>} package name to version
   */
  async closure(roots, follow) {
    /** @type {Map<string, string>} */
    const versions = new Map();
    const visited = new Set(roots);
    for (let wave = [...roots]; wave.length;) {
      await this.#readStanzas(wave);
      const next = new Set();
      for (const name of wave) {
        const info = this.#packages.get(name);
        if (!info) continue;
        versions.set(name, info.version);
        for (const needed of info.depends) if (follow(needed) && !visited.has(needed)) next.add(needed);
      }
      wave = [...next];
      for (const name of wave) visited.add(name);
    }
    const missing = roots.filter((name) => !versions.has(name));
    if (missing.length)
      throw new SetupError(`expected packages ${missing.join(', ')} in Debian ${this.suite}, found none`);
    return versions;
  }

  /**
   * Downloads packages and unpacks them into `root`.
   * @param {readonly string[]} names
   * @param {string} root
   */
  async unpack(names, root) {
    await run('apt-get', [...this.options, '-qq', 'download', ...names], { cwd: this.debs });
    mkdirSync(root, { recursive: true });
    for (const deb of readdirSync(this.debs)) {
      await run('dpkg-deb', ['-x', join(this.debs, deb), root]);
    }
  }
}
