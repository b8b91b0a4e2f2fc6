// The sections of docs/reference and docs/guides, the names in them, and their examples, for tests.
import { readdirSync, readFileSync } from 'node:fs';

const root = new URL('../../', import.meta.url);

/** The documents with examples. README.md has tests of its own (readme.mjs). */
export const DOCUMENTS = ['docs/reference', 'docs/guides'].flatMap((folder) =>
  readdirSync(new URL(`${folder}/`, root))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`),
);

/** @typedef {{ kind: string, code: string }} Block */

/** The text between a heading and the next one, for headings with code blocks. @type {Map<string, string>} */
export const sections = new Map();
/** The code blocks of each heading. @type {Map<string, Block[]>} */
export const examples = new Map();

for (const path of DOCUMENTS) {
  let heading = path;
  let text = '';
  let block = /** @type {Block | null} */ (null);
  /** @type {Block[]} */
  let blocks = [];
  for (const line of readFileSync(new URL(path, root), 'utf8').split('\n')) {
    const title = block ? null : /^##+ (.*)$/.exec(line);
    if (title) [heading, blocks, text] = [title[1], [], ''];
    text += `${line}\n`;
    if (examples.get(heading) === blocks) sections.set(heading, text);
    const fence = /^```(\w*)$/.exec(line);
    if (fence && block) block = null;
    else if (fence) {
      // Tests find examples by their heading.
      if (!blocks.length && examples.has(heading))
        throw new Error(`expected different headings of examples, found a second "${heading}" in ${path}`);
      blocks.push((block = { kind: fence[1], code: '' }));
      examples.set(heading, blocks);
    } else if (block) block.code += `${line}\n`;
  }
}

/** Names in the code blocks and code spans of documents. @param {string[]} paths @returns {Set<string>} */
export function namesIn(paths) {
  const texts = paths.map((path) => readFileSync(new URL(path, root), 'utf8'));
  const code = texts.flatMap((text) => [...text.matchAll(/```\w*\n[^]*?```|`[^`\n]+`/g)].map(([all]) => all));
  return new Set(code.flatMap((all) => all.match(/[\p{L}\w$]+/gu) ?? []));
}

/** The code of the options that an example passes to createWorkerEngine. @param {Block} block */
export function engineOptions({ code }) {
  const [, options] = /createWorkerEngine\((\{[^]*\})\);/.exec(code) ?? [];
  if (!options) throw new Error(`expected a call of createWorkerEngine with options, found\n${code}`);
  return options;
}

/**
 * Where each example runs: in Node (api-examples.test.mjs), in a page (browser/api-examples.test.mjs), or in the test with this path, which
 * gets the example from `examples`. The key is the heading and the number of the example under it.
 * @type {Record<string, 'node' | 'page' | `tests/${string}`>}
 */
export const RUNS = {
  'The JavaScript interface 0': 'page',
  'AI SDK 0': 'node',
  'LangChain 0': 'node',
  'Prompt API 0': 'page',
  'React 0': 'page',
  'Cache 0': 'page',
  'Chats 0': 'node',
  'Long conversations 0': 'node',
  'Classifiers 0': 'node',
  'Training 0': 'node',
  'Server and client 0': 'node',
  'Aborts and errors 0': 'node',
  'Events 0': 'node',
  'Structured output 0': 'node',
  'Speculative decoding 0': 'node',
  'Draft models 0': 'node',
  'Load 0': 'node',
  'Engines 0': 'node',
  'Pause and pace 0': 'node',
  'Ports 0': 'node',
  'Plan and load 0': 'node',
  'Memory budget 0': 'node',
  'Texts longer than the context 0': 'node',
  'Eviction by attention 0': 'node',
  'Skipped layers 0': 'node',
  'Clustered LM head 0': 'node',
  'Models 0': 'node',
  'Embeddings 0': 'node',
  'Rerank 0': 'node',
  'Rerank the best results 0': 'node',
  'Answer from passages 0': 'node',
  'Score options 0': 'node',
  'Prompt cache 0': 'node',
  'Prompt cache 1': 'node',
  'A system prompt that all visitors share 0': 'node',
  'Adapters of a model (LoRA) 0': 'node',
  'Completions 0': 'node',
  'Tools 0': 'node',
  'Tools 1': 'node',
  'Receipts 0': 'node',
  'Sessions 0': 'node',
  'Sessions 1': 'node',
  'Time of each stage 0': 'node',
  'One engine for all tabs 0': 'page',
  'Sources 0': 'node',
  'Bundlers 0': 'tests/browser/bundlers.long.mjs',
  'Bundlers 1': 'tests/browser/frameworks.long.mjs',
  'Next 0': 'tests/browser/frameworks.long.mjs',
  'Extensions 0': 'tests/browser/frameworks.long.mjs',
  'Other origins 0': 'tests/browser/origins.long.mjs',
  'Other origins 1': 'tests/browser/origins.long.mjs',
  'Other origins 2': 'tests/browser/origins.long.mjs',
  'Ask before you download 0': 'node',
  'Search 0': 'node',
  'A streaming reply 0': 'page',
  'A conversation 0': 'node',
  'Stop and failures 0': 'node',
  'A file with a message 0': 'node',
  'Trusted Types 0': 'tests/browser/readme.test.mjs',
  'A page without a bundler 0': 'tests/browser/readme.test.mjs',
  'A page without a bundler 1': 'tests/browser/readme.test.mjs',
  'In Node 0': 'node',
  'Headers 0': 'tests/browser/readme.test.mjs',
  'How much 0': 'node',
  'A budget 0': 'node',
  'The model 0': 'page',
  'Measure 0': 'node',
  'Leave CPU time to other programs 0': 'node',
  'Fill a form 0': 'node',
  'Pick from a list 0': 'node',
  'Let the library run the functions 0': 'node',
  'Read calls yourself 0': 'node',
};

/** Every code block with a language, by its name in RUNS. @type {Map<string, Block>} */
export const namedExamples = new Map(
  [...examples].flatMap(([title, blocks]) =>
    blocks
      .filter(({ kind }) => kind !== '')
      .map((block, i) => /** @type {[string, Block]} */ ([`${title} ${i}`, block])),
  ),
);

/** The names of the examples that run in Node, or in a page. @param {'node' | 'page'} place */
export const examplesRunIn = (place) => Object.keys(RUNS).filter((name) => RUNS[name] === place);

/** The module of each entry of the package. @type {Record<string, string>} */
const ENTRIES = Object.fromEntries(
  Object.entries(JSON.parse(readFileSync(new URL('package.json', root), 'utf8')).exports)
    .filter(([, to]) => to.types)
    .map(([entry, { types }]) => [
      entry.replace('.', 'bq4'),
      types.replace('./build/types/', '').replace('.d.ts', '.js'),
    ]),
);

/** Path of the source of a module that an example imports; null if it is of another package. @param {string} name */
export const sourceOf = (name) =>
  ENTRIES[name] ?? (name.startsWith('bq4/classifiers/') ? name.replace('bq4/', '') : null);

/**
 * An example as the body of an async function that returns the values of some of its variables.
 * @param {string} code @param {(name: string) => string} address  returns the address of an imported module
 * @param {readonly string[]} [variables]
 */
export function bodyOf(code, address, variables = []) {
  const body = code.replace(
    /^import (\{[^}]*\}|\w+) from '([^']+)'(?: with (\{.*\}))?;/gm,
    (_, names, from, attributes) =>
      `const ${names.startsWith('{') ? names : `{ default: ${names} }`} = await import('${address(from)}'${attributes ? `, { with: ${attributes} }` : ''});`,
  );
  return `'use strict'; {\n${body}\nreturn { ${variables.join(', ')} };\n}`;
}
