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

/** Formats a report. @param {any} report  of `report` (inspect.js) @returns {string} */
export function describe({
  file,
  integrity,
  format: f,
  name,
  license,
  architecture,
  config,
  configError,
  tokenizer: t,
  tokenizerError,
  template,
  chat,
  activations,
  meta,
  sections,
  tensors,
  types,
  hashes,
  plan,
}) {
  const total = tensors.reduce((/** @type {number} */ sum, /** @type {any} */ x) => sum + x.bytes, 0);
  const width = Math.max(...tensors.map((/** @type {any} */ x) => x.name.length), 0);
  const lines = tensors.map(
    (/** @type {any} */ x) =>
      `  ${x.name.padEnd(width)}  ${x.type.padEnd(8)} ${x.layout.padEnd(6)} ${x.dims.join(' × ').padStart(14)}${x.bytes ? `  ${String(x.bytes).padStart(12)} B  at ${x.offset}` : ''}\n`,
  );
  const heap = plan.error
    ? table([
        ['heap', `can't be planned: ${plan.error}: ${plan.message}`],
        ['', plan.hint],
      ])
    : table([
        ['heap', `${bytes(plan.heapBytes)} for ${plan.sessions} session of ${plan.contextTokens} tokens`],
        ['weights', `${bytes(plan.weightBytes)} of the heap`],
        ['session', `${bytes(plan.sessionBytes)}, including a KV cache of ${bytes(plan.kvBytes)}`],
      ]);
  return [
    `${file}\n`,
    table([
      [
        'format',
        f.container
          ? `${f.container}${f.version ? ` v${f.version}` : ''}${f.files > 1 ? `, ${f.files} files` : ''}`
          : f.version === 2
            ? `v2, minor ${f.minor}`
            : 'v1.0',
      ],
      ['architecture', architecture],
      ['file id', f.fileId],
      [
        'bytes',
        f.size >= 0 && f.size !== undefined && f.size !== f.fileLength
          ? `${f.size}, but the header declares ${f.fileLength}`
          : f.fileLength,
      ],
      ['name', name],
      ['licence', license || 'not stated'],
      ['hashes', hashState(hashes)],
      ['integrity', integrity],
    ]),
    configError || tokenizerError
      ? `\n${[configError, tokenizerError]
          .filter(Boolean)
          .map((e) => `  ${e.error}: ${e.message}\n${e.hint ? `     ${e.hint}\n` : ''}`)
          .join('')}`
      : '',
    meta
      ? table([
          ['labels', meta.labels?.join(', ')],
          ['prompts', Object.keys(meta.prompts ?? {}).join(', ')],
          ['not used', meta.unused?.join(', ')],
        ])
      : '',
    config ? `\nconfiguration\n${table(Object.entries(config))}` : '',
    t ? `\ntokenizer\n${table(Object.entries(t).map(([k, v]) => [k, Array.isArray(v) ? v.join(', ') : v]))}` : '',
    template
      ? `\nchat template\n  ${template.kind === 'jinja' ? 'jinja' : `${template.kind} (known)`}, ${template.bytes} bytes\n`
      : '',
    chat ? `\nchat format\n  ${JSON.stringify(chat)}\n` : '',
    activations ? `\nactivation steps\n${table(Object.entries(activations))}` : '',
    sections.length
      ? `\nsections\n${table(sections.map((/** @type {any} */ s) => [s.tag, `${s.bytes} B at ${s.offset}, ${s.in}`]))}`
      : '',
    `\ntypes\n${table(types.map((/** @type {any} */ x) => [x.type || 'unknown', `${x.tensors} tensors, ${x.weights} weights${x.bytes ? `, ${bytes(x.bytes)}, ${((8 * x.bytes) / x.weights).toFixed(2)} bits each` : ''}`]))}`,
    `\n${tensors.length} tensors${total ? `, ${bytes(total)}` : ''}\n${lines.join('')}`,
    `\nplan\n${heap}`,
  ].join('');
}
