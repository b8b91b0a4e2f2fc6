// Tests of Markdown in replies and imported chats of the demo: the work is limited for any text, and a growing text is parsed like the
// complete one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Blocks, MOST_WORK } from '../../demo/chat/markdown-blocks.js';
import { drawFrom } from './random-numbers.mjs';

/** Texts of n characters that cost a Markdown parser more than their length. @type {Record<string, (n: number) => string>} */
const HOSTILE = {
  us: (n) => '_'.repeat(n),
  st: (n) => '*'.repeat(n),
  aus: (n) => 'a_ '.repeat(n / 3),
  a_b: (n) => '_a'.repeat(n / 2),
  sa: (n) => '*a '.repeat(n / 3),
  as: (n) => 'a* '.repeat(n / 3),
  ssa: (n) => '**a *b '.repeat(n / 7),
  stus: (n) => '*_'.repeat(n / 2),
  sp_: (n) => '* a '.repeat(n / 4),
  til: (n) => '~'.repeat(n),
  tila: (n) => '~~a '.repeat(n / 4),
  tila1: (n) => '~a '.repeat(n / 3),
  bt: (n) => '`'.repeat(n),
  bta: (n) => Array.from({ length: Math.sqrt(2 * n) | 0 }, (_, i) => '`'.repeat(i + 1) + 'a').join(''),
  bt1: (n) => '`a``b'.repeat(n / 5),
  ob: (n) => '['.repeat(n),
  oba: (n) => '[a'.repeat(n / 2),
  img: (n) => '!['.repeat(n / 2),
  lk: (n) => '[a]('.repeat(n / 4),
  lk2: (n) => '[a](<b'.repeat(n / 6),
  lk3: (n) => '[]('.repeat(n / 3) + ')'.repeat(n / 3),
  cb: (n) => '['.repeat(n / 2) + ']'.repeat(n / 2),
  ref: (n) => '[a][b] '.repeat(n / 7),
  good: (n) => '[a](b) '.repeat(n / 7),
  defs: (n) => Array.from({ length: n / 10 }, (_, i) => `[a${i}]: b`).join('\n'),
  defuse: (n) =>
    Array.from({ length: n / 20 }, (_, i) => `[a${i}]: b`).join('\n') +
    '\n\n' +
    Array.from({ length: n / 20 }, (_, i) => `[a${i}]`).join(' '),
  lt: (n) => '<'.repeat(n),
  lta: (n) => '<a '.repeat(n / 3),
  com: (n) => '<!--'.repeat(n / 4),
  com2: (n) => 'a <!-- '.repeat(n / 7),
  auto: (n) => '<a@'.repeat(n / 3),
  url: (n) => 'http://a'.repeat(n / 8),
  www: (n) => 'www.'.repeat(n / 4),
  mail: (n) => 'a@b.'.repeat(n / 4),
  maila: (n) => 'a'.repeat(n) + '@',
  mailb: (n) => 'a.'.repeat(n / 2) + '@',
  ats: (n) => '@'.repeat(n),
  tag: (n) => '<a b='.repeat(n / 5),
  q: (n) => '<a "'.repeat(n / 4),
  pi: (n) => 'a <?'.repeat(n / 4),
  cd: (n) => 'a <![CDATA['.repeat(n / 11),
  bs: (n) => '\\'.repeat(n),
  dollar: (n) => '$'.repeat(n),
  formula: (n) => '$a '.repeat(n / 3),
  formulas: (n) => '$a$ '.repeat(n / 4),
  display: (n) => '$$a\n'.repeat(n / 4),
  bracket: (n) => '\\[a\n\n'.repeat(n / 5),
  paren: (n) => '\\(a '.repeat(n / 4),
  inlineBracket: (n) => 'a' + '\\[=a '.repeat(n / 5),
  nl: (n) => '\n'.repeat(n),
  anl: (n) => 'a\n'.repeat(n / 2),
  sp: (n) => ' '.repeat(n) + 'a',
  a: (n) => 'a'.repeat(n),
  tab: (n) => '\t'.repeat(n) + 'a',
  aspn: (n) => ('a' + ' '.repeat(99)).repeat(n / 100),
  tbl: (n) => '|a'.repeat(n / 4) + '|\n' + '|-'.repeat(n / 4) + '|\n' + 'a\n'.repeat(n / 4),
  tbl1: (n) => '|'.repeat(n),
  tbl2: (n) => 'a|b\n-|-\n' + 'a|b\n'.repeat(n / 4),
  tblh: (n) => '|a'.repeat(n / 4) + '\n' + '|-'.repeat(n / 4),
  pipes: (n) => 'a|b\n'.repeat(n / 4),
  bq: (n) => '>'.repeat(n) + 'a',
  bqn: (n) => Array.from({ length: Math.sqrt(2 * n) | 0 }, (_, i) => '>'.repeat(i + 1)).join('\n'),
  bql: (n) => '> a\n'.repeat(n / 4),
  bq39: (n) => ('>'.repeat(39) + 'a\n').repeat(n / 41),
  bqlz: (n) => '> a\nb\n'.repeat(n / 6),
  bqc: (n) => '> ```\n'.repeat(n / 6),
  bqli: (n) => '> - a\n'.repeat(n / 6),
  li: (n) => '- a\n'.repeat(n / 4),
  lin: (n) => Array.from({ length: Math.sqrt(n) | 0 }, (_, i) => ' '.repeat(2 * i) + '- a').join('\n'),
  li39: (n) => ('- '.repeat(39) + 'a\n').repeat(n / 80),
  ol: (n) => '1. a\n'.repeat(n / 5),
  olb: (n) => '1. a\n\n'.repeat(n / 6),
  liz: (n) => '- a\n  b\n'.repeat(n / 8),
  lis: (n) => '-\n'.repeat(n / 2),
  lib: (n) => '- \n\n'.repeat(n / 4),
  mix: (n) => '* a\n+ b\n'.repeat(n / 8),
  task: (n) => '- [ ] a\n'.repeat(n / 8),
  lif: (n) => '- ```\n'.repeat(n / 6),
  lih: (n) => '- # a\n'.repeat(n / 6),
  li2: (n) => '- a\n\n      b\n'.repeat(n / 12),
  hd: (n) => '#'.repeat(n),
  hd2: (n) => '# a\n'.repeat(n / 4),
  hdh: (n) => '# a' + ' #'.repeat(n / 2),
  hr: (n) => '- '.repeat(n / 2),
  hr2: (n) => '* * * a\n'.repeat(n / 8),
  set: (n) => 'a\n=\n'.repeat(n / 4),
  seta: (n) => 'a\n'.repeat(n / 2) + '=',
  fence: (n) => '```\n'.repeat(n / 4),
  fence2: (n) => '```' + '`'.repeat(n),
  fencea: (n) => '``` a\n'.repeat(n / 6),
  ind: (n) => '    a\n'.repeat(n / 6),
  def: (n) => '[a]: b\n'.repeat(n / 7),
  def2: (n) => '['.repeat(n / 2) + ']: b',
  defq: (n) => '[a]: b "c\n'.repeat(n / 10),
  html: (n) => '<div>\n'.repeat(n / 6),
  html2: (n) => '<div\n'.repeat(n / 5),
  ent: (n) => '&'.repeat(n),
  ent2: (n) => '&a;'.repeat(n / 3),
  br: (n) => 'a  \n'.repeat(n / 4),
  jp: (n) => '。*a'.repeat(n / 3),
  emn: (n) => '*a'.repeat(n / 4) + '*'.repeat(n / 4),
  em3: (n) => '***a*'.repeat(n / 5),
  em4: (n) => '_a_'.repeat(n / 3),
  em5: (n) => '*'.repeat(n / 2) + 'a' + '*'.repeat(n / 2),
  em6: (n) => '**_'.repeat(n / 3) + '_**'.repeat(0),
  em7: (n) => 'a**b'.repeat(n / 4),
  em8: (n) => '*a_ '.repeat(n / 4),
  em9: (n) => '_a*b '.repeat(n / 5),
};

const LENGTH = 99_000;

test('texts that would take minutes to parse are shown as plain text', () => {
  for (const [name, make] of Object.entries(HOSTILE)) {
    const blocks = new Blocks();
    const text = make(LENGTH).slice(0, LENGTH);
    const found = blocks.read(text) ?? [];
    // The step that would go beyond the bound is counted, not done.
    if (blocks.work > MOST_WORK) {
      assert.equal(found.length, 1, name);
      assert.equal(found[0].raw, text, name);
    }
  }
});

test('tables with too many cells for a page are shown as text', () => {
  const table = (/** @type {number} */ columns, /** @type {number} */ rows) =>
    `${'|a'.repeat(columns)}|\n${'|-'.repeat(columns)}|\n${'a\n'.repeat(rows)}`;
  const typeOf = (/** @type {string} */ text) => new Blocks().read(text)?.[0].type;
  assert.equal(typeOf(table(8, 200)), 'table');
  assert.equal(typeOf(table(4000, 4000)), 'paragraph');
  // Of all tables of a text together, too.
  const many = new Blocks().read(`${table(50, 50)}\n`.repeat(20)) ?? [];
  assert.ok(many.filter(({ type }) => type === 'table').length < 3);
});

test('common texts are formatted, however long', () => {
  const chapter =
    '## Heading\n\nA paragraph with *emphasis*, `code` and [a link](https://example.com), of some **length**, as models write them.\n\n' +
    '- one\n- two\n  - three\n\n```js\nconst a = [1, 2, 3].map((n) => n ** 2); // not *emphasis*\n```\n\n' +
    '| a | b |\n|---|---|\n| 1 | 2 |\n\n> A quote.\n\n1. first\n2. second\n\n';
  const count = Math.floor(99_000 / chapter.length);
  const text = chapter.repeat(count);
  const blocks = new Blocks();
  const found = blocks.read(text) ?? [];
  assert.equal(found.filter(({ type }) => type === 'heading').length, count);
  assert.ok(blocks.work < MOST_WORK / 2, String(blocks.work));
});

test('the work for a streamed reply grows linearly with its length', () => {
  const paragraph = 'Some *words* of a paragraph, and `more` of them, with a [link](https://example.com).\n\n';
  const works = [20_000, 80_000].map((length) => {
    const text = paragraph.repeat(length / paragraph.length);
    const blocks = new Blocks();
    for (let end = 0; end <= text.length; end += 40) blocks.read(text.slice(0, end), true);
    return blocks.work;
  });
  assert.ok(works[1] < 5 * works[0], works.join(' '));
});

test('Markdown that is parsed in parts equals Markdown that is parsed at once', () => {
  const draw = drawFrom(3);
  const pieces = ['# h\n', 'text\n', '\n', '- a\n', '  b\n', '1. x\n', '> q\n', '```\ncode\n', '```\n', '| a | b |\n|-|-|\n| 1 | 2 |\n', '---\n', '===\n', '    ind\n', '[d]: /u\n', '[d]\n', '<div>\n', '*e* ', '**s', '** ', 'a\r\n', '\t- t\n', '\n\n\n', '\\\n', '![i](u)\n']; // prettier-ignore
  for (let i = 0; i < 400; i++) {
    const text = Array.from({ length: 2 + draw(14) }, () => pieces[draw(pieces.length)]).join('');
    const blocks = new Blocks();
    for (let end = 0; end < text.length; end += 1 + draw(9)) blocks.read(text.slice(0, end), true);
    assert.deepEqual(blocks.read(text), new Blocks().read(text), JSON.stringify(text));
  }
});

test('texts that change before their end are parsed again', () => {
  const blocks = new Blocks();
  blocks.read('# a\n\nb\n\nc', true);
  assert.deepEqual(blocks.read('# x\n\nb\n\nc', true), new Blocks().read('# x\n\nb\n\nc'));
});

test('formulas between dollars and backslashes; prices and shell variables stay text', () => {
  /** @param {string} text */
  const formulasOf = (text) => {
    /** @type {[string, boolean][]} */
    const found = [];
    const visit = (/** @type {any} */ token) => {
      if (token.type === 'formula') found.push([token.text, token.isBlock]);
      for (const child of [...(token.tokens ?? []), ...(token.items ?? [])]) visit(child);
    };
    for (const block of new Blocks().read(text) ?? []) visit(block);
    return found;
  };
  assert.deepEqual(formulasOf('Euler: $e^{i\\pi} + 1 = 0$, and \\(a \\le b\\).'), [
    ['e^{i\\pi} + 1 = 0', false],
    ['a \\le b', false],
  ]);
  assert.deepEqual(formulasOf('Before\n$$\n\\int_0^1 x\\,dx\n$$\nafter'), [['\\int_0^1 x\\,dx', true]]);
  assert.deepEqual(formulasOf('\\[ x = 1 \\]\n\n- item with $y$'), [
    ['x = 1', true],
    ['y', false],
  ]);
  assert.deepEqual(formulasOf('With \\[ x^2 = 1 \\] and more'), [['x^2 = 1', true]]);
  for (const text of [
    'a \\[note\\] and \\[1\\]',
    'It costs $5 or $10.',
    '$HOME and $PATH',
    'from $3 to $4',
    '`$x$`',
    '$ x $',
    'a$',
    '\\$5\\$',
  ])
    assert.deepEqual(formulasOf(text), [], text);
  const [paragraph] = new Blocks().read('one $x$ two\nthree') ?? [];
  assert.equal(paragraph.raw, 'one $x$ two\nthree');
});
