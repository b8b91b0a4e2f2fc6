// Tests of the order of dependencies in docs/inside/architecture.md: an #include or import may name only folders that are listed here for
// its own folder.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Rooms of c/ and what each may include besides itself. `bq.h` is the public interface: the rooms
 * that implement it include it too. `api` is the files directly in c/. */
const c = {
  core: [],
  quant: ['core'],
  kernels: ['core', 'quant'],
  text: ['core'],
  grammar: ['core', 'text'],
  model: ['core', 'kernels', 'text', 'bq.h'],
  format: ['core', 'text', 'model', 'bq.h'],
  load: ['core', 'kernels', 'text', 'model', 'format', 'bq.h'],
  session: ['core', 'kernels', 'text', 'model', 'bq.h'],
  api: ['core', 'kernels', 'text', 'model', 'format', 'load', 'session', 'bq.h'],
};
/** bq.h itself shows no more than these. */
const shown = ['core', 'kernels', 'text', 'model'];

/** Rooms of js/, lowest first, and what the files of each may import besides those of their own room. */
const js = {
  shared: [],
  wasm: ['shared'],
  text: ['shared', 'wasm'],
  storage: ['shared', 'wasm'],
  format: ['shared', 'wasm', 'text', 'storage'],
  convert: ['shared', 'wasm', 'text', 'storage', 'format'],
  api: ['shared'],
  remote: ['shared', 'storage', 'api'],
  engine: ['shared', 'wasm', 'text', 'storage', 'format', 'js/convert/in-page.js', 'api', 'remote'],
  quantize: ['shared', 'wasm', 'storage', 'format', 'convert', 'engine'],
  'js/thread.js': ['shared', 'wasm'],
  'js/io-worker.js': ['shared', 'storage'],
  'js/supported.js': ['shared', 'text', 'format'],
  'js/list-supported.js': ['shared', 'js/supported.js'],
  'js/worker.js': ['shared', 'remote', 'engine'],
  'js/node.js': ['shared', 'storage', 'engine', 'js/list-supported.js'],
  'js/connect.js': ['shared', 'api'],
  'js/single-file.js': ['shared', 'storage', 'engine'],
  'js/index.js': ['shared', 'storage', 'remote', 'js/list-supported.js'],
  demo: ['js/index.js'],
  'demo/thread.js': ['js/thread.js'],
  'demo/worker.js': [
    'demo/models/early-request.js',
    'demo/panel/request-reporter.js',
    'js/worker.js',
    'js/storage/sources/blob.js',
  ],
};

/** The files of others, and where each is used: served by the demo as they are. */
const LIBRARIES = new Map([
  ['demo/chat/markdown-blocks.js', ['marked/lib/marked.esm.js']],
  ['demo/chat/math.js', ['temml/dist/temml.mjs']],
  ['demo/chat/highlight.js', ['@highlightjs/cdn-assets/es/highlight.min.js']],
  ['demo/chat/pdf-worker.js', ['pdfjs-dist/legacy/build/pdf.min.mjs', 'pdfjs-dist/legacy/build/pdf.worker.min.mjs']],
]);

/** @param {string} dir @returns {string[]} */
function walk(dir) {
  return readdirSync(join(root, dir), { withFileTypes: true }).flatMap((e) =>
    e.isDirectory() ? walk(`${dir}/${e.name}`) : [`${dir}/${e.name}`],
  );
}

/** @param {string} path in c/ */
const roomOf = (path) =>
  path === 'bq.h' || path === 'types.h' ? path : path.includes('/') ? path.split('/')[0] : 'api';

test('c/: includes follow the order of layers', () => {
  const wrong = [];
  for (const file of walk('c').filter((f) => /\.[ch]$/.test(f))) {
    const room = roomOf(file.slice(2));
    const may =
      room === 'types.h'
        ? []
        : room === 'bq.h'
          ? [...shown, 'types.h']
          : [...c[/** @type {keyof typeof c} */ (room)], room, 'types.h'];
    // Below c/session, bq.h is for the .c files that define its functions.
    const hidden = file.endsWith('.h') && !['session', 'api'].includes(room) ? 'bq.h' : '';
    for (const [, name] of readFileSync(join(root, file), 'utf8').matchAll(/#include "([^"]+)"/g)) {
      const target = roomOf(name.includes('/') || name === 'bq.h' || name === 'types.h' ? name : `${room}/${name}`);
      if (!may.includes(target) || target === hidden) wrong.push(`${file} includes ${name}`);
    }
  }
  assert.deepEqual(wrong, []);
});

/** C without comments and string literals. @param {string} path */
const codeOf = (path) =>
  readFileSync(join(root, path), 'utf8').replace(/\/\*[^]*?\*\/|"(?:[^"\\\n]|\\.)*"/g, (text) =>
    text[0] === '"' ? '""' : ' ',
  );

/** The unit of a file of c/: a .c file and the header of the same name. @param {string} path */
const unitOf = (path) => path.replace(/\.[ch]$/, '');

/** For each unit of a room, the units of the same room that it includes or whose functions it names.
 * @param {string} room @returns {Map<string, Set<string>>} */
function unitsOfRoom(room) {
  const files = walk(`c/${room}`).filter((f) => /\.[ch]$/.test(f));
  /** @type {Map<string, string>} */
  const definedIn = new Map();
  for (const file of files.filter((f) => f.endsWith('.c')))
    for (const [, name] of codeOf(file).matchAll(
      /^(?!static|typedef|#)[A-Za-z_][^\n;={}]*?\b(bq_\w+)\([^;{}]*\)\s*\{/gm,
    ))
      definedIn.set(name, unitOf(file));
  /** @type {Map<string, Set<string>>} */
  const units = new Map(files.map((file) => [unitOf(file), new Set()]));
  for (const file of files) {
    const uses = /** @type {Set<string>} */ (units.get(unitOf(file)));
    for (const [, name] of readFileSync(join(root, file), 'utf8').matchAll(/#include "([^"]+)"/g))
      if (units.has(unitOf(`c/${name}`))) uses.add(unitOf(`c/${name}`));
    if (file.endsWith('.c'))
      for (const [name] of codeOf(file).matchAll(/\bbq_\w+/g))
        if (definedIn.has(name)) uses.add(`${definedIn.get(name)}`);
    uses.delete(unitOf(file));
  }
  return units;
}

test('c/: files of a folder have no cyclic includes or calls', () => {
  for (const room of Object.keys(c).filter((name) => name !== 'api')) {
    const units = unitsOfRoom(room);
    /** @type {Set<string>} */
    const done = new Set();
    /** @param {string} unit @param {string[]} path  that led here */
    const visit = (unit, path) => {
      assert.ok(!path.includes(unit), `a circle: ${[...path.slice(path.indexOf(unit)), unit].join(' -> ')}`);
      if (done.has(unit)) return;
      for (const next of units.get(unit) ?? []) visit(next, [...path, unit]);
      done.add(unit);
    };
    for (const unit of units.keys()) visit(unit, []);
  }
});

test('c/: include guards and names of types differ, so that all headers fit in one translation unit', () => {
  /** @type {Map<string, string>} */
  const found = new Map();
  for (const file of walk('c').filter((f) => f.endsWith('.h'))) {
    const code = codeOf(file);
    const guard = /#ifndef (BQ_(?:\w+_)?H)\n#define \1\n/.exec(code);
    assert.ok(guard, `${file} has no include guard`);
    const types = [...code.matchAll(/^\}\s*(bq_\w+);/gm)].map(([, name]) => name);
    for (const name of [guard[1], ...types]) {
      assert.ok(!found.has(name), `${name} is in ${found.get(name)} and in ${file}`);
      found.set(name, file);
    }
  }
});

test('tests/c/test_headers.c: includes every header of c/ but those of the SIMD kernels', () => {
  const text = readFileSync(join(root, 'tests/c/test_headers.c'), 'utf8');
  const headers = walk('c').filter((f) => f.endsWith('.h') && !/kernels\/(simd|relaxed)/.test(f));
  assert.deepEqual(
    headers.filter((file) => !text.includes(`#include "${file.slice(2)}"`)),
    [],
  );
});

test('C has lines of at most 100 columns', () => {
  const files = ['c', 'web', 'tests/c', 'tests/fuzz', 'tests/bench']
    .flatMap(walk)
    .filter((file) => /\.[ch]$/.test(file));
  const wide = files.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, i) => ([...line].length > 100 ? [`${file}:${i + 1}`] : [])),
  );
  assert.deepEqual(wide, []);
});

test('c/ includes no platform headers and no stdio, and uses intrinsics only in kernels', () => {
  const plain = /^(std(arg|bool|def|int)|string|limits|float)\.h$/;
  const wrong = [];
  for (const file of walk('c').filter((f) => /\.[ch]$/.test(f))) {
    for (const [, name] of readFileSync(join(root, file), 'utf8').matchAll(/#include <([^>]+)>/g)) {
      const kernel = file.startsWith('c/kernels/') && name === 'wasm_simd128.h';
      const assertion = file === 'c/core/assert.h' && name === 'assert.h'; // not in products
      if (!plain.test(name) && !kernel && !assertion) wrong.push(`${file} includes <${name}>`);
    }
  }
  assert.deepEqual(wrong, []);
});

/** The room of a module: what its row of the table above is called. @param {string} path */
const jsRoomOf = (path) => (path in js ? path : path.split('/')[path.startsWith('js/') ? 1 : 0]);

/** What each module of js/ and demo/ imports, on demand too. @returns {Map<string, string[]>} */
function importsOfModules() {
  const files = [...walk('js'), ...walk('demo')].filter((f) => f.endsWith('.js'));
  return new Map(
    files.map((file) => {
      const text = readFileSync(join(root, file), 'utf8').replace(/\/\*[^]*?\*\/|\/\/.*/g, '');
      const names = [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(([, name]) => name);
      const targets = names.map((name) => relative(root, normalize(join(root, dirname(file), name))));
      return [file, targets.filter((target) => !LIBRARIES.get(file)?.includes(target.replace('node_modules/', '')))];
    }),
  );
}

test('js/: the table of layers has no cycle', () => {
  const rooms = Object.keys(js);
  for (const [room, may] of Object.entries(js))
    for (const below of may)
      assert.ok(
        rooms.indexOf(jsRoomOf(below)) < rooms.indexOf(room),
        `${room} may import ${below}, which is not above it in the table`,
      );
});

test('js/ and demo/: imports follow the order of layers', () => {
  const wrong = [];
  for (const [file, imports] of importsOfModules()) {
    const room = jsRoomOf(file);
    assert.ok(room in js, `${file} belongs to no room of this test`);
    const may = /** @type {string[]} */ (js[/** @type {keyof typeof js} */ (room)]);
    for (const target of imports)
      if (jsRoomOf(target) !== room && !may.includes(jsRoomOf(target)) && !may.includes(target))
        wrong.push(`${file} imports ${target}`);
  }
  assert.deepEqual(wrong, []);
});

test('js/ and demo/: modules have no cyclic imports', () => {
  const imports = importsOfModules();
  /** @type {Set<string>} */
  const done = new Set();
  /** @param {string} file @param {string[]} path  that led here */
  const visit = (file, path) => {
    assert.ok(!path.includes(file), `a circle: ${[...path.slice(path.indexOf(file)), file].join(' -> ')}`);
    if (done.has(file)) return;
    for (const target of imports.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of imports.keys()) visit(file, []);
});

test('js/: a module loaded on demand fails with BqError, and bundlers recognize its address', () => {
  const files = walk('js').filter((f) => f.endsWith('.js') && !f.startsWith('js/convert/'));
  let found = 0;
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8').replace(/\/\*[^]*?\*\/|\/\/.*/g, '');
    for (const [call] of text.matchAll(/.{0,9}\bimport\(.*/g)) {
      if (file === 'js/shared/node.js') continue;
      // Its users expect DOMExceptions.
      if (file === 'js/api/adapters/prompt-session.js') {
        assert.match(call, /import\('\.[^']+'\)\.catch\(/);
        continue;
      }
      // It is one small file; whoever waits for its answer hears what failed.
      if (file === 'js/thread.js') {
        assert.match(call, /import\('\.[^']+'\)/);
        continue;
      }
      assert.match(call, /^onDemand\(import\('\.[^']+'\)\)/, file);
      found++;
    }
  }
  assert.ok(found > 15);
});

/** The modules that `entry` imports statically, with those of these modules, and the packages of each.
 * @param {string} entry @returns {Map<string, string[]>} */
function packagesBelow(entry) {
  /** @type {Map<string, string[]>} */
  const packages = new Map();
  /** @param {string} file */
  const visit = (file) => {
    if (packages.has(file)) return;
    const text = readFileSync(join(root, file), 'utf8').replace(/\/\*[^]*?\*\/|\/\/.*/g, '');
    const names = [...text.matchAll(/^(?:import|(?:import|export)\b[^;'(=]*\bfrom) '([^']+)'/gm)].map(
      ([, name]) => name,
    );
    packages.set(
      file,
      names.filter((name) => !/^(?:\.|node:)/.test(name)),
    );
    for (const name of names.filter((name) => name.startsWith('.'))) visit(normalize(join(dirname(file), name)));
  };
  visit(entry);
  return packages;
}

test('tools/: an npm script that installs the packages is loaded without them', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.values(scripts).flatMap((line) => /^node (tools\S+)/.exec(line)?.[1] ?? []);
  const installing = [...new Set(entries)].filter((entry) => packagesBelow(entry).has('tools/setup/setup.mjs'));
  for (const entry of ['tools/start.mjs', 'tools/test.mjs', 'tools/build.mjs', 'tools/prepare.mjs'])
    assert.ok(installing.includes(entry), entry);
  for (const entry of installing)
    for (const [file, packages] of packagesBelow(entry))
      assert.deepEqual(packages, [], `${entry} loads ${file} before the set-up`);
});

test('tests/README.md and SECURITY.md: the tests that they name exist', () => {
  let found = 0;
  const documents = ['tests/README.md', 'SECURITY.md'].map((path) => readFileSync(join(root, path), 'utf8'));
  for (const row of documents
    .flatMap((text) => text.split(/\n(?=\||\n)/))
    .filter((line) => /\.(mjs|c)` "/.test(line))) {
    for (const [, file, names] of row.matchAll(/`([^`]+\.(?:mjs|c))`((?: "[^"]+",?)+)/g)) {
      const text = readFileSync(join(root, 'tests', file), 'utf8').replaceAll("\\'", "'");
      for (const [, name] of names.matchAll(/"([^"]+)"/g)) {
        assert.ok(text.includes(file.endsWith('.c') ? `RUN(${name})` : name), `${file} has no "${name}"`);
        found++;
      }
    }
  }
  assert.ok(found > 70, `${found} tests`);
});
