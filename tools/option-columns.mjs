// A plugin for bundlers that removes columns from the table of options. The table has columns for the command line, adapters and
// requests; each bundle reads only some of them.
import { fileURLToPath } from 'node:url';

const TABLE = fileURLToPath(new URL('../js/shared/generate-options.js', import.meta.url));

/**
 * Returns a plugin that keeps the given columns of the table of options.
 * @param {readonly string[] | undefined} columns  names of the columns; undefined: all
 * @returns {import('rolldown').Plugin}
 */
export const onlyColumns = (columns) => ({
  name: 'only-columns',
  transform(code, id) {
    if (!columns || id !== TABLE) return null;
    const declarations = this.parse(code).body.map((/** @type {any} */ node) => node.declaration?.declarations?.[0]);
    const table = declarations.find((/** @type {any} */ node) => node?.id.name === 'GENERATE_OPTIONS').init;
    const rows = table.properties.map((/** @type {any} */ { key, value }) => {
      const keptColumns = value.properties.filter((/** @type {any} */ column) => columns.includes(column.key.name));
      return `${key.name}: { ${keptColumns.map((/** @type {any} */ column) => code.slice(column.start, column.end)).join(', ')} }`;
    });
    const shortCode = `${code.slice(0, table.start)}{ ${rows.join(', ')} }${code.slice(table.end)}`;
    return { code: columns.includes('check') ? shortCode : shortCode.replace(/^import [^]*?;$/m, ''), map: null };
  },
});
