// docs/API.md as tests read it: its sections, the names in them, its examples.
import { readFileSync } from 'node:fs';

const root = new URL('../../', import.meta.url);
const text = readFileSync(new URL('docs/API.md', root), 'utf8');

/** @typedef {{ kind: string, code: string }} Block */

/** Each heading's own text, up to the next heading. @type {Map<string, string>} */
export const sections = new Map();
/** The code blocks of each heading. @type {Map<string, Block[]>} */
export const examples = new Map();

let heading = '';
/** @type {Block | null} */
let block = null;
for (const line of text.split('\n')) {
  const title = block ? null : /^#+ (.*)$/.exec(line);
  if (title) {
    heading = title[1];
    sections.set(heading, '');
    examples.set(heading, []);
  }
  sections.set(heading, `${sections.get(heading)}${line}\n`);
  const fence = /^```(\w*)$/.exec(line);
  if (fence && block) block = null;
  else if (fence) examples.get(heading)?.push((block = { kind: fence[1], code: '' }));
  else if (block) block.code += `${line}\n`;
}

/** Names that are written as code in some sections. @param {string[]} headings @returns {Set<string>} */
export function namesIn(headings) {
  const parts = headings.map((name) => {
    const section = sections.get(name);
    if (section === undefined) throw new Error(`docs/API.md has no "${name}"`);
    return section;
  });
  const code = parts.flatMap((part) => [...part.matchAll(/```\w*\n[^]*?```|`[^`\n]+`/g)].map(([all]) => all));
  return new Set(code.flatMap((all) => all.match(/[\p{L}\w$]+/gu) ?? []));
}

/** What an example gives to createWorkerEngine. @param {Block} block */
export function engineOptions({ code }) {
  const [, options] = /createWorkerEngine\((\{[^]*\})\);/.exec(code) ?? [];
  if (!options) throw new Error(`no options in\n${code}`);
  return options;
}

/**
 * How each example is run, by its heading and its place under it: in Node (api-examples.test.mjs), in a page
 * (browser/api-examples.test.mjs), or by a test of its own, which takes it from here.
 * @type {Record<string, 'node' | 'page' | `tests/${string}`>}
 */
export const RUNS = {
  'The JavaScript interface 0': 'page',
  'Engines 0': 'node',
  'Polite 0': 'node',
  'Events 0': 'node',
  'Ports 0': 'node',
  'One engine for all tabs 0': 'page',
  'Bundlers 0': 'tests/browser/bundlers.long.mjs',
  'Bundlers 1': 'tests/browser/frameworks.long.mjs',
  'Next 0': 'tests/browser/frameworks.long.mjs',
  'Extensions 0': 'tests/browser/frameworks.long.mjs',
  'Other origins 0': 'tests/browser/origins.long.mjs',
  'Other origins 1': 'tests/browser/origins.long.mjs',
  'Other origins 2': 'tests/browser/origins.long.mjs',
  'Cache 0': 'page',
  'Sources 0': 'node',
  'Plan and load 0': 'node',
  'A budget smaller than the weights 0': 'node',
  'Models 0': 'node',
  'Embeddings 0': 'node',
  'Heads 0': 'node',
  'Heads 1': 'node',
  'Sessions 0': 'node',
  'Sessions 1': 'node',
  'Guesses 0': 'node',
  'Draft models 0': 'node',
  'Given answers 0': 'node',
  'Structured output 0': 'node',
  'Prompt states 0': 'node',
  'Receipts 0': 'node',
  'Where the time goes 0': 'node',
  'Adapters of a model (LoRA) 0': 'node',
  'Chats 0': 'node',
  'Long conversations 0': 'node',
  'Texts without end 0': 'node',
  'What leaves a full cache 0': 'node',
  'Fewer layers 0': 'node',
  'A share of the head 0': 'node',
  "OpenAI's calls 0": 'node',
  "OpenAI's calls 1": 'node',
  "OpenAI's calls 2": 'node',
  'A server, and other servers 0': 'node',
  'Adapters 0': 'node',
  'Adapters 1': 'node',
  'Adapters 2': 'page',
  'Adapters 3': 'page',
  'Aborts and errors 0': 'node',
};

/** Every example that is code, or what a program reads, by its name in RUNS. @type {Map<string, Block>} */
export const named = new Map(
  [...examples].flatMap(([title, blocks]) =>
    blocks.filter(({ kind }) => kind !== '').map((one, i) => /** @type {[string, Block]} */ ([`${title} ${i}`, one])),
  ),
);

/** The names of examples that are run so. @param {'node' | 'page'} how */
export const runBy = (how) => Object.keys(RUNS).filter((name) => RUNS[name] === how);

/** The module behind each entry of the package. @type {Record<string, string>} */
const ENTRIES = Object.fromEntries(
  Object.entries(JSON.parse(readFileSync(new URL('package.json', root), 'utf8')).exports)
    .filter(([, to]) => to.types)
    .map(([entry, { types }]) => [
      entry.replace('.', 'bq4'),
      types.replace('./build/types/', '').replace('.d.ts', '.js'),
    ]),
);

/** Where the sources have what an example imports from the package; null: it is of another one. @param {string} name */
export const sourceOf = (name) =>
  ENTRIES[name] ?? (name.startsWith('bq4/classifiers/') ? name.replace('bq4/', '') : null);

/**
 * An example as the body of an async function, which gives the values of some of its names.
 * @param {string} code @param {(name: string) => string} address  of what it imports
 * @param {readonly string[]} [gives]
 */
export function bodyOf(code, address, gives = []) {
  const body = code.replace(
    /^import (\{[^}]*\}|\w+) from '([^']+)'(?: with (\{.*\}))?;/gm,
    (_, names, from, attributes) =>
      `const ${names.startsWith('{') ? names : `{ default: ${names} }`} = await import('${address(from)}'${attributes ? `, { with: ${attributes} }` : ''});`,
  );
  return `'use strict'; {\n${body}\nreturn { ${gives.join(', ')} };\n}`;
}
