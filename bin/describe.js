/** Formats the report of `bq4 inspect` as text. */

/** Formats a number of bytes. @param {number} n */
const bytes = (n) =>
  n < 1024 ? `${n} B` : n < 2 ** 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / 2 ** 20).toFixed(2)} MiB`;

/** @param {[string, any][]} rows */
const table = (rows) =>
  rows
    .filter(([, v]) => v !== null && v !== undefined && v !== '')
    .map(([k, v]) => `  ${k.padEnd(18)}${v}\n`)
    .join('');

/** @param {any} h */
function hashState(h) {
  if (!h) return 'none';
  const damaged = ['header', 'plan', 'prefix']
    .filter((part) => h[part] !== 'ok')
    .concat(h.damaged.map((/** @type {any} */ d) => `chunk ${d.chunk} at byte ${d.offset}`));
  return damaged.length
    ? `DAMAGED: ${damaged.join(', ')}`
    : `all valid (header, plan, prefix${h.kind ? `, ${h.chunks} chunks by ${h.kind}` : ''})`;
}

/** Formats a section with a title; '' if it has no text. @param {string} title @param {string} text */
const section = (title, text) => (text ? `\n${title}\n${text}` : '');

/** Formats an object, one member per line. @param {Record<string, any> | null | undefined} values */
const members = (values) =>
  table(Object.entries(values ?? {}).map(([key, value]) => [key, Array.isArray(value) ? value.join(', ') : value]));

/** @param {any} format */
function describeFormat({ container, version, files, minor }) {
  if (container) return `${container}${version ? ` v${version}` : ''}${files > 1 ? `, ${files} files` : ''}`;
  return version === 2 ? `v2, minor ${minor}` : 'v1.0';
}

/** Formats the number of bytes of a file, and the number that its header declares if they differ. @param {any} format */
const describeSize = ({ size, fileLength }) =>
  size >= 0 && size !== undefined && size !== fileLength
    ? `${size}, but the header declares ${fileLength}`
    : fileLength;

/** @param {any} error */
const describeError = ({ error, message, hint }) => `  ${error}: ${message}\n${hint ? `     ${hint}\n` : ''}`;

/** @param {any} template */
const describeTemplate = ({ kind, bytes: size }) =>
  `  ${kind === 'jinja' ? 'jinja' : `${kind} (known)`}, ${size} bytes\n`;

/** Formats the number of tensors, weights and bytes of a weight type. @param {any} row @returns {[string, string]} */
function typeRow({ type, tensors, weights, bytes: size }) {
  const memory = size ? `, ${bytes(size)}, ${((8 * size) / weights).toFixed(2)} bits each` : '';
  return [type || 'unknown', `${tensors} tensors, ${weights} weights${memory}`];
}

/** @param {any[]} tensors */
function describeTensors(tensors) {
  const total = tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
  const width = Math.max(...tensors.map(({ name }) => name.length), 0);
  const lines = tensors.map(({ name, type, layout, dims, bytes: size, offset }) => {
    const place = size ? `  ${String(size).padStart(12)} B  at ${offset}` : '';
    return `  ${name.padEnd(width)}  ${type.padEnd(8)} ${layout.padEnd(6)} ${dims.join(' × ').padStart(14)}${place}\n`;
  });
  return `\n${tensors.length} tensors${total ? `, ${bytes(total)}` : ''}\n${lines.join('')}`;
}

/** Formats the memory of a model with one session. @param {any} plan */
function describePlan(plan) {
  if (plan.error)
    return table([
      ['heap', `can't be planned: ${plan.error}: ${plan.message}`],
      ['', plan.hint],
    ]);
  return table([
    ['heap', `${bytes(plan.heapBytes)} for ${plan.sessions} session of ${plan.contextTokens} tokens`],
    ['weights', `${bytes(plan.weightBytes)} of the heap`],
    ['session', `${bytes(plan.sessionBytes)}, including a KV cache of ${bytes(plan.kvBytes)}`],
  ]);
}

/** Formats a report. @param {any} report  of `report` (inspect.js) @returns {string} */
export function describe(report) {
  const { format, meta, template, chat } = report;
  const errors = [report.configError, report.tokenizerError].filter(Boolean);
  return [
    `${report.file}\n`,
    table([
      ['format', describeFormat(format)],
      ['architecture', report.architecture],
      ['file id', format.fileId],
      ['bytes', describeSize(format)],
      ['name', report.name],
      ['licence', report.license || 'not stated'],
      ['hashes', hashState(report.hashes)],
      ['integrity', report.integrity],
    ]),
    errors.length ? `\n${errors.map(describeError).join('')}` : '',
    table([
      ['labels', meta?.labels?.join(', ')],
      ['prompts', Object.keys(meta?.prompts ?? {}).join(', ')],
      ['not used', meta?.unused?.join(', ')],
    ]),
    section('configuration', members(report.config)),
    section('tokenizer', members(report.tokenizer)),
    section('chat template', template ? describeTemplate(template) : ''),
    section('chat format', chat ? `  ${JSON.stringify(chat)}\n` : ''),
    section('activation steps', members(report.activations)),
    section(
      'sections',
      table(
        report.sections.map((/** @type {any} */ part) => [part.tag, `${part.bytes} B at ${part.offset}, ${part.in}`]),
      ),
    ),
    section('types', table(report.types.map(typeRow))),
    describeTensors(report.tensors),
    section('plan', describePlan(report.plan)),
  ].join('');
}
