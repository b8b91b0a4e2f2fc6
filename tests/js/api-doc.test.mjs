// Tests of docs/reference: each exported name, method, option, field of a result and error code is listed as code on the page of its
// object, and each row of a table of options or errors exists in the code.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { TABLE } from '../../js/remote/port/methods.js';
import { OPTIONS } from '../../js/shared/options.js';
import { ERRORS } from '../../js/shared/error-codes.js';
import { publicTypes } from '../../tools/docs/public-names.mjs';
import { DOCUMENTS, namedExamples, namesIn, RUNS, sourceOf } from './api-doc.mjs';
import { testFolder } from './folders.mjs';

const root = new URL('../../', import.meta.url);
const read = (/** @type {string} */ path) => readFileSync(new URL(path, root), 'utf8');
const REFERENCE = DOCUMENTS.filter((path) => path.startsWith('docs/reference/'));
const page = (/** @type {string} */ name) => `docs/reference/${name}.md`;

/** Names must stand as code in one of some pages. @param {string} what @param {readonly string[]} names @param {string[]} pages */
function documented(what, names, pages) {
  const documentedNames = namesIn(pages);
  assert.deepEqual(
    names.filter((name) => !documentedNames.has(name)),
    [],
    `${what}, in ${pages === REFERENCE ? 'docs/reference' : pages.join(', ')}`,
  );
}

test('docs/reference lists every entry of the package and its exports', async () => {
  const { exports } = JSON.parse(read('package.json'));
  const index = read(page('README'));
  for (const path of Object.keys(exports).filter((key) => key !== './package.json')) {
    const name = path.replace(/^\./, 'bq4');
    assert.ok(index.includes(`\`${name}\``), `docs/reference/README.md names ${name}`);
    const source = sourceOf(name);
    // Files that are addressed, not imported, act by being loaded.
    if (source && !name.includes('*') && !name.startsWith('bq4/files/'))
      documented(name, Object.keys(await import(new URL(source, root).href)), REFERENCE);
  }
});

/** The page of each kind of object. @type {Record<string, string[]>} */
const OBJECTS = {
  engine: [page('load-and-engine')],
  store: [page('cache')],
  model: [page('model')],
  session: [page('session')],
  adapter: [page('model')],
};
test('every method', () => {
  for (const [kind, methods] of Object.entries(TABLE)) documented(kind, Object.keys(methods), OBJECTS[kind]);
});

/** Pages of the options of a call, where it isn't any. @type {Record<string, string[]>} */
const CALLS = {
  createEngine: [page('load-and-engine')],
  createWorkerEngine: [page('load-and-engine')],
  plan: [page('load-and-engine')],
  load: [page('load-and-engine')],
  createSession: [page('load-and-engine'), page('model')],
  fromUrl: [page('sources')],
  source: [page('sources')],
  generate: [page('generation')],
  'generate or send': [page('generation'), page('chat')],
  createChat: [page('chat')],
  message: [page('chat')],
  format: [page('chat')],
  role: [page('chat')],
  append: [page('session')],
  trace: [page('session')],
  embed: [page('model')],
  classify: [page('classifiers')],
};
/** The options of calls: of methods of a port, and of other calls. @type {[call: string, options: object][]} */
const OPTIONS_OF_CALLS = [
  ...Object.entries(OPTIONS),
  ...Object.values(TABLE).flatMap((methods) =>
    Object.entries(methods).map(([name, { options = {} }]) => /** @type {[string, object]} */ ([name, options])),
  ),
];
for (const [call, options] of OPTIONS_OF_CALLS)
  test(`every option of ${call}`, () => documented(call, Object.keys(options), CALLS[call] ?? REFERENCE));

/** Types that only modules of this package meet. */
const INTERNAL = [
  'Cache',
  'CacheEntry',
  'ByteSource',
  'FilePart',
  'FileMetadata',
  'Backend',
  'ChunkStorage',
  'EntryOptions',
  'Found',
];
/** Types in OpenAI's shape, which OpenAI's own documents explain. */
const OPENAI = ['ChatMessage', 'ChatCompletion', 'ChatCompletionChunk', 'TextCompletion'];
/** Properties that only modules of this package meet. */
const INTERNAL_PROPERTIES = ['EngineStore.close', 'StoreOptions.hash'];
for (const [name, properties] of publicTypes())
  if (![...INTERNAL, ...OPENAI].includes(name))
    test(`every field of ${name}`, () =>
      documented(
        name,
        properties.filter((property) => !INTERNAL_PROPERTIES.includes(`${name}.${property}`)),
        REFERENCE,
      ));

test('the table of error codes has a row for each code, and no others', () => {
  const codes = Object.keys(ERRORS).sort();
  assert.ok(codes.length > 25);
  const [, table] = /\n\| code \| meaning \|\n\|[-|]*\n((?:\|.*\n)+)/.exec(read(page('errors'))) ?? [];
  const rows = String(table).trim().split('\n');
  assert.deepEqual(rows.flatMap((row) => row.split('|')[1].match(/\w+/g) ?? []).sort(), codes);
});

/** Options of entries that check their own: neither in js/shared/options.js nor in js/remote/port/methods.js. */
const OWN_OPTIONS = [
  'name',
  'leaderTimeout',
  'stallTimeout',
  'apiKey',
  'model',
  'headers',
  'fetch',
  'backend',
  'maxBytes',
  'path',
  'sha256',
  'crossOrigin',
];
test('tables of options list only existing options', () => {
  const optionNames = new Set([...OPTIONS_OF_CALLS.flatMap(([, options]) => Object.keys(options)), ...OWN_OPTIONS]);
  for (const path of REFERENCE)
    for (const [, table] of read(path).matchAll(/\n\| option [^\n]*\n\|[- |]*\n((?:\|.*\n)+)/g)) {
      const cells = table.split('\n').flatMap((row) => row.split('|')[1]?.match(/`[^`]+`/g) ?? []);
      const names = cells.map((cell) => cell.slice(1, -1)).filter((name) => /^\w+$/.test(name));
      assert.deepEqual(
        names.filter((name) => !optionNames.has(name)),
        [],
        path,
      );
    }
});

test('every example runs in Node, in a page or in a test of its own', () => {
  assert.deepEqual([...namedExamples.keys()].sort(), Object.keys(RUNS).sort());
  for (const [name, how] of Object.entries(RUNS))
    if (how.startsWith('tests/')) {
      const [, heading] = /^(.*) \d+$/.exec(name) ?? [];
      assert.ok(read(how).includes(`'${heading}'`), `${how} runs ${name}`);
    }
});

/** Words of a command line, as a shell has them. @param {string} line */
const words = (line) => [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain);

test('every command line is valid: it fails for missing files, not for its options', () => {
  const text = [...DOCUMENTS, 'README.md'].map(read).join('\n');
  const lines = [...text.matchAll(/^(?:npx bq4|node bin\/bq4\.js) (.*)$/gm)].filter(([line]) => !line.includes('hf:'));
  assert.ok(lines.length > 20, `${lines.length}`);
  const { folder } = testFolder('commands');
  for (const [line, asked] of lines) {
    const { status, stderr } = spawnSync(
      process.execPath,
      [fileURLToPath(new URL('bin/bq4.js', root)), ...words(asked)],
      {
        cwd: folder,
        encoding: 'utf8',
        timeout: 60_000,
      },
    );
    assert.equal(status, 1, `${line}: ${stderr}`);
  }
});
