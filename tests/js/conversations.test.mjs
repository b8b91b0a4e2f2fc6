// Tests of the demo's readers of files and of stored data: their sizes are limited, and omitted parts are reported.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { conversationOf, empty, read, save } from '../../demo/storage/local-storage.js';
import { pathTo, withoutDeleted } from '../../demo/chat/tree.js';

globalThis.matchMedia = /** @type {any} */ (() => ({ matches: false, addEventListener: () => {} }));
globalThis.document = /** @type {any} */ ({
  getElementById: () => null,
  createElement: () => ({}),
  querySelectorAll: () => [],
});
const { asJson, asMarkdown, fromFile } = await import('../../demo/chat/import-export.js');

/** @param {number} count */
const entries = (count) =>
  Array.from({ length: count }, (_, i) => ({
    id: `m${i}`,
    parent: i ? `m${i - 1}` : null,
    role: i % 2 ? 'assistant' : 'user',
    content: 'x',
    note: '',
  }));
/** @param {any} value @param {string} [name] */
const file = (value, name = 'chats.json') =>
  new File([typeof value === 'string' ? value : JSON.stringify({ conversations: [value] })], name);

test('a conversation of too many messages is refused by name, as JSON and as Markdown', async () => {
  const long = { entries: entries(60_000), leaf: 'm59999' };
  await assert.rejects(fromFile(file(long)), { code: 'TOO_LONG', message: /60000 messages: at most 2000/ });
  const markdown = '## You\n\nHi\n\n## Model\n\nHo\n\n'.repeat(30_000);
  await assert.rejects(fromFile(file(markdown, 'a.md')), { code: 'TOO_LONG' });
  const [kept] = await fromFile(file({ entries: entries(2000), leaf: 'm1999' }));
  assert.equal(pathTo(kept.entries, kept.leaf).length, 2000);
});

test('a stored path of 60,000 messages is found in linear time; cycles are detected', () => {
  let reads = 0;
  const counted = entries(60_000).map((entry) => ({
    ...entry,
    get parent() {
      reads++;
      return entry.parent;
    },
  }));
  assert.equal(pathTo(/** @type {any} */ (counted), 'm59999').length, 60_000);
  assert.equal(reads, 60_000);
  const circle = entries(3).map((entry, i) => ({ ...entry, parent: `m${(i + 1) % 3}` }));
  assert.equal(pathTo(/** @type {any} */ (circle), 'm0').length, 3);
  // Two of a circle were deleted in another tab.
  const remaining = withoutDeleted(/** @type {any} */ (circle), [], ['m1', 'm2', 'm0']);
  assert.deepEqual(remaining, []);
  const behind = [...circle, { ...circle[0], id: 'm3', parent: 'm1' }];
  const [kept] = withoutDeleted(/** @type {any} */ (behind), [], ['m0', 'm1', 'm2']);
  assert.equal(kept.id, 'm3');
});

test('messages that another tab has added after deleted ones are attached to the ones before', () => {
  /** @type {Record<string, string>} */
  const stored = {};
  globalThis.localStorage = /** @type {any} */ ({
    getItem: (/** @type {string} */ key) => stored[key] ?? null,
    setItem: (/** @type {string} */ key, /** @type {string} */ value) => (stored[key] = value),
  });
  const [first, second, ...added] = /** @type {any[]} */ (entries(4));
  const chat = { ...empty(), id: 'chat' };
  save({ ...chat, entries: [first, second, ...added], leaf: 'm3' });
  // This tab knows nothing of the last two.
  assert.equal(save({ ...chat, deleted: ['m0', 'm1'] }), true);
  const merged = read('chat');
  assert.deepEqual(
    merged?.entries.map(({ id, parent }) => [id, parent]),
    [
      ['m2', null],
      ['m3', 'm2'],
    ],
  );
  assert.equal(merged?.leaf, 'm3');
  // Each has deleted where the other ends.
  save({ ...chat, entries: [first, second], leaf: 'm1', deleted: [] });
  const [again] = entries(1);
  const other = { ...chat, entries: [/** @type {any} */ ({ ...again, id: 'm4' })], leaf: 'm1', deleted: ['m1'] };
  save(other);
  assert.equal(read('chat')?.leaf, other.leaf);
  assert.ok(
    other.entries.some(({ id }) => id === other.leaf),
    String(other.leaf),
  );
  for (const leaf of [null, 'none', 7]) assert.equal(conversationOf({ entries: entries(2), leaf })?.leaf, 'm1');
});

test('settings that are lists or objects are ignored; the conversation stays and can be continued', async () => {
  const nested = JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`);
  const read = conversationOf({ entries: entries(2), leaf: 'm1', sampling: { temperature: 0.5, topP: nested } });
  assert.deepEqual(read?.sampling, { temperature: 0.5 });
  assert.equal(conversationOf({ entries: entries(2), leaf: 'm1', sampling: nested })?.sampling, null);
  assert.ok(asJson([/** @type {any} */ (read)]).includes('0.5'));
});

const ATTACHED =
  'old.md:\n````\n# A chat\n\n## You\n\nHi\n\n## Model\n\n```\nHo\n```\n````\n\nb.md:\n```\n## You\n```\n\nWhat is said?';

test('Markdown whose attached texts contain headings is imported as the same messages, for any line ends', async () => {
  const messages = ['Hi', 'Ho', ATTACHED, 'Nothing:\n```\n## is\n```', '## Model two', '## You, too'];
  const all = entries(messages.length).map((entry, i) => ({ ...entry, content: messages[i] }));
  const markdown = asMarkdown(/** @type {any} */ ({ entries: all, leaf: 'm5', title: 'T', system: 'S' }));
  for (const text of [markdown, markdown.replaceAll('\n', '\r\n')]) {
    const [read] = await fromFile(file(text, 'a.md'));
    assert.deepEqual(
      read.entries.map(({ role, content }) => [role, content]),
      all.map(({ role, content }) => [role, content]),
    );
    assert.deepEqual([read.title, read.system], ['T', 'S']);
  }
});

test('an imported chat passes only displayed passages to the model', async () => {
  const passages = ['x', 'y'].map((text, i) => ({ file: 'a', place: `line ${i}`, text, document: 0 }));
  const reads = { text: 'Never shown.', passages, by: 'words', of: 3, offer: true };
  const all = entries(2).map((entry, i) => (i ? entry : { ...entry, content: 'a:\n```\nx\ny\nz\n```\n\nWhy?', reads }));
  const [{ entries: imported }] = await fromFile(file({ entries: all, leaf: 'm1' }));
  assert.equal(imported[0].reads?.text, 'a, passages:\n```\n[line 0]\nx\n\n[line 1]\ny\n```\n\nWhy?');
});

test('a replacement text of a message is kept only if all of it can be displayed', () => {
  const passage = { file: 'a', place: 'line 1', text: 'x' };
  const reads = { text: 'x', passages: [passage], by: 'words', of: 3, offer: true };
  const keptOf = (/** @type {any} */ changed, at = 0) => {
    const all = entries(2).map((entry, i) => (i === at ? { ...entry, reads: changed } : entry));
    return conversationOf({ entries: all, leaf: 'm1' })?.entries[at].reads;
  };
  assert.deepEqual(keptOf(reads), reads);
  assert.equal(keptOf(reads, 1), undefined, 'a reply is what was written');
  for (const changed of [
    { passages: undefined },
    { passages: [null] },
    { passages: [{ ...passage, place: {} }] },
    { by: 'constructor' },
    { of: '3' },
    { text: ['x'] },
  ])
    assert.equal(keptOf({ ...reads, ...changed }), undefined, JSON.stringify(changed));
});
