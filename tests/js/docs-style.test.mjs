// Tests of the style of README.md, docs/guides, docs/reference and related pages: sentences of at most 25 words on average, cells of at
// most 120 characters, no link to a missing file or heading. Paths in the documents of the architecture exist, and so do files and headings
// that code, hints and comments name.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Words of a sentence, on average over a document. */
const MAX_WORDS = 25;
/** Characters of a cell, marks of Markdown included. */
const MAX_CELL = 120;

const markdownIn = (/** @type {string} */ folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`);
const read = (/** @type {string} */ path) => readFileSync(join(ROOT, path), 'utf8');

/** Documents for people. */
const PLAIN = [
  'README.md',
  'CHANGELOG.md',
  ...['docs/guides', 'docs/reference', 'docs/inside'].flatMap(markdownIn),
  ...['GLOSSARY', 'SPEED', 'QUALITY', 'benchmarks', 'DEPENDENCIES'].map((name) => `docs/${name}.md`),
];
/** All that have links. */
const LINKED = [
  ...PLAIN,
  ...['docs', 'docs/log', 'docs/decisions', 'tests', 'demo'].flatMap(markdownIn),
  ...readdirSync(join(ROOT, 'js')).flatMap((room) =>
    statSync(join(ROOT, 'js', room)).isDirectory() ? markdownIn(`js/${room}`) : [],
  ),
  'SECURITY.md',
];

/** Without blocks of code and comments. @param {string} text */
const prose = (text) => text.replace(/```[^]*?\n```/g, '').replace(/<!--[^]*?-->/g, '');

/** Sentences of paragraphs and of items of lists; cells and headings are none. @param {string} text @returns {string[]} */
function sentencesOf(text) {
  const paragraphs = prose(text)
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/)
    .filter((paragraph) => !/^\s*[|#!]/.test(paragraph));
  return paragraphs
    .flatMap((paragraph) =>
      paragraph
        .replace(/\]\([^)]*\)/g, ']')
        .replace(/`[^`]*`/g, 'code')
        .replace(/\s+/g, ' ')
        .split(/(?<=[.:;!?])\s+(?=\S)/),
    )
    .filter((sentence) => /\w/.test(sentence));
}

/** A specification and a list, whose sentences may be longer. */
const DENSE = ['docs/FORMAT.md', 'SECURITY.md'];

/** Cells of its tables. @param {string} text @returns {string[]} */
const cellsOf = (text) =>
  prose(text)
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .flatMap((line) => line.split(/(?<!\\)\|/).slice(1, -1))
    .map((cell) => cell.trim());

for (const path of DENSE)
  test(`${path}: cells of at most ${MAX_CELL} characters`, () =>
    assert.deepEqual(
      cellsOf(read(path)).filter((cell) => cell.length > MAX_CELL),
      [],
    ));

for (const path of PLAIN)
  test(`${path}: sentences of at most ${MAX_WORDS} words on average, cells of at most ${MAX_CELL} characters`, () => {
    const lengths = sentencesOf(read(path)).map((sentence) => sentence.split(' ').length);
    const mean = lengths.reduce((sum, length) => sum + length, 0) / (lengths.length || 1);
    assert.ok(mean <= MAX_WORDS, `${mean.toFixed(1)} words on average`);
    assert.deepEqual(
      cellsOf(read(path)).filter((cell) => cell.length > MAX_CELL),
      [],
    );
  });

/** Anchors of its headings, as GitHub makes them. @param {string} path @returns {Set<string>} */
function anchorsOf(path) {
  /** @type {Set<string>} */
  const anchors = new Set();
  for (const [, title] of prose(read(path)).matchAll(/^#+ (.*)$/gm)) {
    const text = title.replace(/\]\([^)]*\)/g, '').toLowerCase();
    const anchor = text.replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');
    let name = anchor;
    for (let times = 1; anchors.has(name); times++) name = `${anchor}-${times}`;
    anchors.add(name);
  }
  return anchors;
}

for (const path of new Set(LINKED))
  test(`${path}: every relative link leads to something`, () => {
    const broken = [];
    for (const [, href] of prose(read(path))
      .replace(/`[^`\n]*`/g, '')
      .matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(href)) continue;
      const [file, anchor] = href.split('#');
      const target = file ? relative(ROOT, join(ROOT, dirname(path), file)) : path;
      const found = existsSync(join(ROOT, target));
      if (!found || (anchor && target.endsWith('.md') && !anchorsOf(target).has(anchor))) broken.push(href);
    }
    assert.deepEqual(broken, []);
  });

test('README.md has at most 120 lines', () => assert.ok(read('README.md').trimEnd().split('\n').length <= 120));

test('paths that docs/inside/architecture.md names exist', () => {
  const names = [...read('docs/inside/architecture.md').matchAll(/`((?:js|c|web|bin|demo|tools|tests)\/[\w./-]*)`/g)];
  assert.ok(names.length > 40, `${names.length} paths`);
  assert.deepEqual(
    names.map(([, path]) => path).filter((path) => !existsSync(join(ROOT, path))),
    [],
  );
});

/** Files of code, and the decisions. @param {string} folder @returns {string[]} */
const filesIn = (folder) =>
  readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return /^(tests\/golden\/fixtures|.*\/node_modules)$/.test(path) ? [] : filesIn(path);
    return /\.(m?js|c|h|py|md)$/.test(entry.name) ? [path] : [];
  });

/** Paths that are made by a build or a test, or that stand for many. */
const NO_FILES = [
  'docs/benchmarks/NAME-KIND.md',
  'tests/js/a.test.mjs',
  'tests/js/b.test.mjs',
  'tests/js/c.test.mjs',
  'demo/a.txt',
  'demo/link.txt',
  'demo/within.txt',
  'demo/empty.txt',
  'examples/map.html',
];

test('files and headings that code, hints and comments name exist', () => {
  const wrong = [];
  for (const path of ['js', 'c', 'web', 'bin', 'demo', 'tools', 'tests', 'docs/decisions'].flatMap(filesIn)) {
    // A name may go on in the next line of a comment.
    const text = read(path).replace(/\n\s*(\*|\/\/|#)?\s*/g, ' ');
    for (const [, file, title] of text.matchAll(
      /(?<![\w./-])((?:js|c|web|bin|demo|tools|tests|docs|examples)\/[\w./-]*\w\.(?:m?js|c|h|py|md|html|txt))\b(?:,? "([^"]+)")?/g,
    )) {
      // The tables of tests/README.md and of comments in tests/ name files of tests/.
      const found = [file, `tests/${file}`].find((name) => existsSync(join(ROOT, name)));
      if (!found && !NO_FILES.includes(file)) wrong.push(`${path}: ${file}`);
      if (found && title && file.endsWith('.md') && !read(found).includes(title))
        wrong.push(`${path}: ${file}, "${title}"`);
    }
  }
  assert.deepEqual(wrong, []);
});
