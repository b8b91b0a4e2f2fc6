// Tests of names of variables, parameters, functions and classes, which are nouns for values and verbs with an object for actions. The
// forbidden names do not describe their content; docs/GLOSSARY.md has the standard terms. Properties are not checked, since some are names
// of other interfaces.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'rolldown/parseAst';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const FOLDERS = ['js', 'bin', 'demo', 'tools', 'tests'];

/** Forbidden names, and the reason. */
const PARTICIPLE = 'a participle without a noun: name the thing';
const PRONOUN = 'a pronoun: name the thing that it stands for';
const PERSON = 'a person in place of a thing or an action';
const EVERYWHERE = 'a constant that many modules would call so: name what it limits, and its unit';
/** @type {Record<string, string>} */
const FORBIDDEN = {
  made: PARTICIPLE,
  told: PARTICIPLE,
  said: PARTICIPLE,
  came: PARTICIPLE,
  gone: PARTICIPLE,
  begun: PARTICIPLE,
  met: PARTICIPLE,
  heard: PARTICIPLE,
  spoken: PARTICIPLE,
  mine: PRONOUN,
  thing: PRONOUN,
  things: PRONOUN,
  hear: PERSON,
  hears: PERSON,
  tell: PERSON,
  hall: `${PERSON}: it is a broadcast channel`,
  way: 'a port, a mode or a direction: say which',
  goesOn: 'a verb without a subject',
  timeline: 'the glossary has: sequence',
  guesses: 'the glossary has: draft tokens',
  MOST: EVERYWHERE,
  LEAST: EVERYWHERE,
  ROOM: EVERYWHERE,
  PATIENCE: 'the glossary has: timeout',
  WORTH: EVERYWHERE,
  SURE: EVERYWHERE,
};

/** Scripts of a folder. @param {string} folder @returns {string[]} */
const scriptsIn = (folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.m?js$/.test(path) && !/(^|[\\/])(node_modules|fixtures)[\\/]/.test(path))
    .map((path) => join(folder, path));

/** Identifiers that a pattern binds. @param {any} pattern @returns {{ name: string, start: number }[]} */
function boundBy(pattern) {
  switch (pattern?.type) {
    case 'Identifier':
      return [pattern];
    case 'ObjectPattern':
      return pattern.properties.flatMap((/** @type {any} */ property) => boundBy(property.argument ?? property.value));
    case 'ArrayPattern':
      return pattern.elements.flatMap(boundBy);
    case 'AssignmentPattern':
      return boundBy(pattern.left);
    case 'RestElement':
      return boundBy(pattern.argument);
    default:
      return [];
  }
}

/** Identifiers that a syntax tree declares. @param {any} node @returns {{ name: string, start: number }[]} */
function declaredIn(node) {
  if (!node || typeof node !== 'object') return [];
  if (Array.isArray(node)) return node.flatMap(declaredIn);
  const patterns =
    node.type === 'VariableDeclarator'
      ? [node.id]
      : node.type === 'CatchClause'
        ? [node.param]
        : /^(Function|Class|ArrowFunction)/.test(node.type ?? '')
          ? [node.id, ...(node.params?.items ?? node.params ?? [])]
          : [];
  return [...patterns.flatMap(boundBy), ...Object.values(node).flatMap((child) => declaredIn(child))];
}

/** Forbidden names of a script. @param {string} source @returns {string[]} */
const forbiddenIn = (source) =>
  declaredIn(parseAst(source))
    .filter(({ name }) => Object.hasOwn(FORBIDDEN, name))
    .map(({ name, start }) => `line ${source.slice(0, start).split('\n').length}: ${name} (${FORBIDDEN[name]})`);

test('a forbidden name is found in every kind of declaration', () => {
  const source = `const made = 1;
const { a: told, ...said } = f(([mine], gone = 2) => { try { g(); } catch (met) {} });
function tell(things) {}
class thing { made = 1; }
for (const hears of []) h({ made: hears.made });`;
  assert.deepEqual(
    forbiddenIn(source)
      .map((found) => found.split(' ')[2])
      .sort(),
    ['gone', 'hears', 'made', 'met', 'mine', 'said', 'tell', 'thing', 'things', 'told'],
  );
});

for (const folder of FOLDERS)
  test(`names in ${folder} describe their content`, () => {
    const scripts = scriptsIn(folder);
    assert.ok(scripts.length > 10, `${scripts.length} scripts`);
    const found = scripts.flatMap((path) =>
      forbiddenIn(readFileSync(join(ROOT, path), 'utf8').replace(/^#!/, '//')).map((name) => `${path}, ${name}`),
    );
    assert.deepEqual(found, []);
  });
