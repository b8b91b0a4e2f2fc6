// docs/API.md as tests read it: its sections, the names in them, its examples.
import { readFileSync } from 'node:fs';

const text = readFileSync(new URL('../../docs/API.md', import.meta.url), 'utf8');

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
