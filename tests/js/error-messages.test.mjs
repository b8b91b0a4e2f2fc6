// The table of all error messages, with their codes and places in the code: build/reports/error-messages.md. Messages that
// tests/tools/record-messages.mjs has recorded are its examples.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'rolldown/parseAst';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const REPORTS = join(ROOT, 'build/reports');

/** Escapes a text for a regular expression. @param {string} text */
const escapeRegExp = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** A message: text, with expressions in braces. @typedef {{ code: string, message: string, place: string }} Row */

/** Returns the files of folders that match. @param {RegExp} names @param {...string} folders */
const filesOf = (names, ...folders) =>
  folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => names.test(path))
      .map((path) => `${folder}/${path.replaceAll('\\', '/')}`),
  );

/**
 * Returns the texts that an expression can have. Parts that are not literals are in braces.
 * @param {any} node @param {string} source @returns {string[]}
 */
function textsOf(node, source) {
  switch (node?.type) {
    case 'Literal':
      return [String(node.value)];
    case 'TemplateLiteral':
      return [
        node.quasis
          .map((/** @type {any} */ quasi, /** @type {number} */ i) => {
            const expression = node.expressions[i];
            const text = expression && source.slice(expression.start, expression.end).replace(/\s+/g, ' ');
            return quasi.value.cooked + (expression ? `{${text}}` : '');
          })
          .join(''),
      ];
    case 'ConditionalExpression':
      return [...textsOf(node.consequent, source), ...textsOf(node.alternate, source)];
    case 'BinaryExpression':
      return textsOf(node.left, source).flatMap((left) => textsOf(node.right, source).map((right) => left + right));
    case undefined:
      return [];
    default:
      return [`{${source.slice(node.start, node.end).replace(/\s+/g, ' ')}}`];
  }
}

/** Returns the errors that a call creates. @param {any} node @param {string} source @returns {Omit<Row, 'place'>[]} */
function errorsOf({ type, callee, arguments: args = [] }, source) {
  if (type === 'NewExpression' && callee.name === 'BqError')
    return textsOf(args[0], source).flatMap((code) => textsOf(args[1], source).map((message) => ({ code, message })));
  if (type === 'CallExpression' && callee.name === 'wrong')
    return textsOf(args[0], source).flatMap((name) =>
      textsOf(args[2], source).map((expected) => ({
        code: 'ARGUMENT',
        message: `${name}: expected ${expected}, found {value}`,
      })),
    );
  if (type === 'CallExpression' && callee.name === 'templateError')
    return textsOf(args[0], source).map((message) => ({
      code: 'TEMPLATE',
      message: `the chat template failed: ${message}`,
    }));
  return [];
}

/** @param {string} path @returns {Row[]} */
function messagesOfScript(path) {
  const source = readFileSync(join(ROOT, path), 'utf8');
  /** @type {Row[]} */
  const rows = [];
  const visit = (/** @type {any} */ node) => {
    if (!node || typeof node !== 'object') return;
    const line = () => source.slice(0, node.start).split('\n').length;
    for (const error of errorsOf(node, source)) rows.push({ ...error, place: `${path}:${line()}` });
    for (const child of Object.values(node)) if (child && typeof child === 'object') visit(child);
  };
  visit(parseAst(source));
  return rows;
}

/** @param {string} path @returns {Row[]} */
function messagesOfC(path) {
  const source = readFileSync(join(ROOT, path), 'utf8');
  return [...source.matchAll(/\bbq_fail\(\s*\w+,\s*BQ_(\w+),[^"]*?((?:"(?:[^"\\]|\\.)*"\s*)+)/g)].map((match) => ({
    code: match[1],
    message: match[2]
      .replace(/"\s*"/g, '')
      .trim()
      .slice(1, -1)
      .replace(/%[sSul]/g, '{}'),
    place: `${path}:${source.slice(0, match.index).split('\n').length}`,
  }));
}

/** Returns recorded messages by code. @returns {Map<string, Set<string>>} */
function recordedMessages() {
  const folder = join(REPORTS, 'messages');
  /** @type {Map<string, Set<string>>} */
  const byCode = new Map();
  for (const name of existsSync(folder) ? readdirSync(folder) : [])
    for (const line of readFileSync(join(folder, name), 'utf8').trim().split('\n')) {
      const [code, message] = JSON.parse(line);
      byCode.set(code, (byCode.get(code) ?? new Set()).add(message));
    }
  return byCode;
}

const rows = [
  ...filesOf(/\.js$/, 'js', 'bin').flatMap(messagesOfScript),
  ...filesOf(/\.c$/, 'c', 'web').flatMap(messagesOfC),
].filter(({ message }) => !/^\{[^}]*\}$/.test(message));

test('a table of all error messages is written, with an example of each recorded one', () => {
  const recorded = recordedMessages();
  const cell = (/** @type {string} */ text) => text.replace(/[|\n]/g, (c) => (c === '|' ? '\\|' : ' '));
  const lines = rows
    .sort((a, b) => a.code.localeCompare(b.code) || a.message.localeCompare(b.message))
    .map(({ code, message, place }) => {
      const pattern = new RegExp(
        `^${message
          .split(/\{[^{}]*\}/)
          .map(escapeRegExp)
          .join('[^]*')}$`,
      );
      const example = [...(recorded.get(code) ?? [])].find((text) => pattern.test(text)) ?? '';
      return `| ${code} | ${cell(message)} | ${cell(example)} | ${place} |`;
    });
  mkdirSync(REPORTS, { recursive: true });
  writeFileSync(
    join(REPORTS, 'error-messages.md'),
    `| code | message | example | place |\n|---|---|---|---|\n${lines.join('\n')}\n`,
  );
  assert.ok(rows.length > 600, `${rows.length} messages`);
});

test('messages are phrases: they begin with a small letter or a name, and have no full stop at the end', () => {
  const wrong = rows.filter(
    ({ message }) => /^[A-Z][a-z]+ [a-z]/.test(message) || /[^.…]\.$/.test(message) || /\bis none\b/.test(message),
  );
  assert.deepEqual(
    wrong.map(({ message, place }) => `${place}: ${message}`),
    [],
  );
});
