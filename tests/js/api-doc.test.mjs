// docs/API.md has everything that is public: each name that an entry exports, each method, option, field of a result and error code
// stands as code in its section, and each row of a table of options or errors is one that there is.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { TABLE } from '../../js/remote/port/methods.js';
import { ERRORS } from '../../js/shared/error-codes.js';
import { OPTIONS } from '../../js/shared/options.js';
import { named, namesIn, RUNS, sections } from './api-doc.mjs';
import { testFolder } from './folders.mjs';

const root = new URL('../../', import.meta.url);
const read = (/** @type {string} */ path) => readFileSync(new URL(path, root), 'utf8');
const types = ['shared/types', 'storage/sources/types', 'storage/cache/types']
  .map((name) => read(`js/${name}.js`))
  .join('\n');

/** Properties of a type that is written with @property. @param {string} name */
function propertiesOf(name) {
  const comment = types.split('/**').find((text) => new RegExp(`@typedef \\{object\\} ${name}\\b`).test(text));
  assert.ok(comment, name);
  return [...comment.matchAll(/^ \* @property \{.*\} \[?(\w+)\]?/gm)].map(([, property]) => property);
}

/** @param {string} what @param {readonly string[]} names @param {...string} headings */
function documented(what, names, ...headings) {
  const there = namesIn(headings);
  assert.deepEqual(
    names.filter((name) => !there.has(name)),
    [],
    `${what}, under ${headings}`,
  );
}

/** Entries of the package, and where they are explained. */
const ENTRIES = {
  index: ['The JavaScript interface', 'Engines', 'Ports', 'Sources', 'Aborts and errors'],
  node: ['Engines', 'Sources', 'Aborts and errors'],
  connect: ['A server, and other servers', 'Aborts and errors'],
  'api/adapters/ai-sdk': ['Adapters'],
  'api/adapters/langchain': ['Adapters'],
  'api/adapters/prompt-api': ['Adapters'],
  'api/adapters/react': ['Adapters'],
  'api/classifiers/index': ['Heads'],
  'api/receipts/index': ['Receipts'],
  'remote/tabs/index': ['One engine for all tabs', 'Aborts and errors'],
};

test('every entry of the package, and what it exports', async () => {
  const { exports } = JSON.parse(read('package.json'));
  const named = sections.get('The JavaScript interface') ?? '';
  for (const path of Object.keys(exports).filter((key) => key !== './package.json'))
    assert.ok(named.includes(`\`${path.replace(/^\./, 'bq4')}\``), `the beginning of docs/API.md names ${path}`);
  for (const [entry, headings] of Object.entries(ENTRIES))
    documented(entry, Object.keys(await import(new URL(`js/${entry}.js`, root).href)), ...headings);
});

/** Where the methods of each kind of object are. */
const METHODS = {
  engine: ['The JavaScript interface', 'Ports', 'Plan and load', 'Polite', 'Events'],
  store: ['Cache'],
  model: ['The JavaScript interface', 'Models'],
  session: ['The JavaScript interface', 'Sessions', 'Given answers'],
  adapter: ['Adapters of a model (LoRA)'],
};
test('every method', () => {
  assert.deepEqual(Object.keys(TABLE), Object.keys(METHODS));
  for (const [kind, headings] of Object.entries(METHODS)) documented(kind, Object.keys(TABLE[kind]), ...headings);
});

const GENERATION = ['Sessions', 'Structured output', 'Adapters of a model (LoRA)'];
/** Where the options of each call are. @type {Record<keyof typeof OPTIONS, string[]>} */
const CALLS = {
  createEngine: ['Engines'],
  createWorkerEngine: ['Engines'],
  connectEngine: ['Ports'],
  fromUrl: ['Sources'],
  source: ['Sources'],
  plan: ['Plan and load'],
  load: ['Plan and load'],
  tokenize: ['Models'],
  createSession: ['Models', 'Plan and load'],
  loadAdapter: ['Models'],
  createChat: ['Chats'],
  countTokens: ['Models'],
  complete: ['Chats', ...GENERATION],
  generate: GENERATION,
  append: ['Sessions'],
  choose: ['Given answers'],
  promptState: ['Prompt states'],
  chooseNext: ['Given answers'],
  embed: ['Embeddings'],
  create: ["OpenAI's calls"],
  createOne: ["OpenAI's calls"],
  classify: ['Heads'],
  trace: ['Where the time goes'],
  format: ['Chats'],
  role: ['Chats'],
  message: ['Chats'],
};
for (const [call, options] of Object.entries(OPTIONS))
  test(`every option of ${call}`, () =>
    documented(call, Object.keys(options), ...CALLS[/** @type {keyof typeof OPTIONS} */ (call)]));

/** Where what calls give is. */
const RESULTS = {
  EngineInfo: ['Engines'],
  ThreadTiming: ['Engines'],
  SharedInfo: ['One engine for all tabs'],
  Progress: ['Plan and load'],
  EngineStore: ['Cache'],
  StoreOptions: ['Cache'],
  Listed: ['Cache'],
  Usage: ['Cache'],
  Plan: ['Plan and load'],
  Paging: ['A budget smaller than the weights'],
  TokenizerInfo: ['Models'],
  AdapterInfo: ['Adapters of a model (LoRA)'],
  Embeddings: ['Embeddings'],
  Classified: ['Heads'],
  Chosen: ['Given answers'],
  ChosenOption: ['Given answers'],
  Part: ['Sessions', 'Chats'],
  Logprob: ['Sessions'],
  Result: ['Sessions', 'Chats'],
  Timings: ['Sessions'],
  PrefillProgress: ['Sessions'],
  SessionStats: ['Sessions'],
  StageTrace: ['Where the time goes'],
  MemoryInfo: ['Models'],
  EngineMethods: ['The JavaScript interface', 'Engines', 'Ports', 'Cache', 'Plan and load', 'Polite', 'Events'],
  ModelMethods: ['The JavaScript interface', 'Models', 'Plan and load', 'Heads', 'Prompt states', 'Given answers'],
  SessionMethods: ['The JavaScript interface', 'Sessions', 'Given answers'],
  ChatStats: ['Chats'],
  CompletionFields: ["OpenAI's calls"],
  ToolRun: ["OpenAI's calls"],
};
/** What only stores that are opened by themselves have, which nobody outside can do. */
const INNER = ['EngineStore.close', 'StoreOptions.hash'];
for (const [name, headings] of Object.entries(RESULTS))
  test(`every field of ${name}`, () => {
    const names = propertiesOf(name).filter((field) => !INNER.includes(`${name}.${field}`));
    documented(name, names, ...headings);
  });

test('every error code has a row, and no other has', () => {
  const codes = Object.keys(ERRORS).sort();
  assert.ok(codes.length > 25);
  const rows = (sections.get('Aborts and errors') ?? '').split('\n').filter((line) => line.startsWith('| `'));
  assert.deepEqual(rows.flatMap((row) => row.split('|')[1].match(/\w+/g) ?? []).sort(), codes);
});

/** Tables whose first column are options of one call. @type {Record<string, keyof typeof OPTIONS>} */
const TABLES = { Engines: 'createWorkerEngine', 'Plan and load': 'load', Embeddings: 'embed' };
test('a table of options has no row of one that is not there', () => {
  for (const [heading, call] of Object.entries(TABLES)) {
    const [, table] = /\n\| option[^\n]*\n\|[- |]*\n((?:\|.*\n)+)/.exec(sections.get(heading) ?? '') ?? [];
    assert.ok(table, heading);
    const rows = table.split('\n').flatMap((row) => row.split('|')[1]?.match(/\w+/g) ?? []);
    assert.deepEqual(
      rows.filter((name) => !Object.hasOwn(OPTIONS[call], name)),
      [],
      heading,
    );
  }
});

test('every example is run, in Node, in a page or by a test of its own', () => {
  assert.deepEqual([...named.keys()], Object.keys(RUNS));
  for (const [name, how] of Object.entries(RUNS))
    if (how.startsWith('tests/')) {
      const [, heading] = /^(.*) \d+$/.exec(name) ?? [];
      assert.ok(read(how).includes(`examples.get('${heading}')`), `${how} runs ${name}`);
    }
});

/** Words of a command line, as a shell has them. @param {string} line */
const words = (line) => [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain);

test('every command line is one that the program knows: it fails for want of its files, not for what is asked', () => {
  const lines = [...`${read('docs/API.md')}\n${read('README.md')}`.matchAll(/^(?:npx bq4|node bin\/bq4\.js) (.*)$/gm)];
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
