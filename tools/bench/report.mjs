// Writes the text of docs/log/benchmarks.md from the figures.
import { formatNumber, formatSummary } from './stats.mjs';
import { stepOf, Table } from './table.mjs';
import { PRECISION_TITLES, titleOf } from './titles.mjs';

/** @typedef {ReturnType<typeof import('./figures.mjs').figures>} Figures */
/** @typedef {import('./table.mjs').Row} Row */

/** Returns a Markdown table. @param {string[]} head @param {string[][]} body */
const table = (head, body) =>
  [head, head.map(() => '---'), ...body].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/** Returns the table of targets. @param {Figures} f */
export function targetsTable({ targets: list }) {
  const formatVerdict = (/** @type {import('./targets.mjs').Target} */ { target, value, reached }) =>
    value === null ? 'not measured' : target === '' ? 'to compare' : reached ? 'reached' : '**not reached**';
  return table(
    ['', 'figure', 'target', 'result', 'rounds', ''],
    list.map((target, i) => [
      target.group === list[i - 1]?.group ? '' : target.group,
      target.title,
      target.target || '–',
      target.value === null ? '–' : formatSummary(target.range),
      String(target.range?.n ?? '–'),
      formatVerdict(target),
    ]),
  );
}

/** Returns the list of targets that are not reached, with their results, grouped by reason. @param {Figures} f */
function shortfalls({ targets: list }) {
  const missedTargets = list.filter(({ reached }) => reached === false);
  if (!missedTargets.length) return 'All targets are reached.';
  const reasons = [...new Set(missedTargets.map(({ reason }) => reason))];
  /** Whether some rounds reach the target and others do not. @param {import('./targets.mjs').Target} target */
  const straddlesTarget = ({ target, range }) =>
    range && range.n > 1 && range.least <= Number(target.slice(2)) && Number(target.slice(2)) <= range.most;
  return reasons
    .map(
      (reason) =>
        `- ${missedTargets
          .filter((target) => target.reason === reason)
          .map(
            (target) =>
              `**${target.group}: ${target.title}**, ${formatSummary(target.range)} instead of ${target.target}${straddlesTarget(target) ? ' (some rounds reach it)' : ''}`,
          )
          .join('; ')}.\n  ${reason}`,
    )
    .join('\n');
}

/** Rows of the table of docs/benchmarks.md: titles, and conditions for visits. @type {[string, Partial<import('./cells.mjs').Visit>][]} */
const SHORT_TABLE_ROWS = [
  ['**bq4**, 4-bit', { runtime: 'bq4', precision: 'bq4h+bq8', kv: 'i8', variant: 'best' }],
  ['native llama.cpp, Q4_0', { runtime: 'native', precision: 'q4_0', variant: 'best' }],
  ['wllama 3.8.1, Q4_0', { runtime: 'wllama', version: '3.8.1', precision: 'q4_0' }],
  ['wllama 3.8.1, Q8_0', { runtime: 'wllama', version: '3.8.1', precision: 'q8_0' }],
  ['wllama 2.3.1, Q4_0', { runtime: 'wllama', version: '2.3.1', precision: 'q4_0' }],
  ['transformers.js 4.3.1, int8', { runtime: 'tjs', precision: 'q8' }],
  ['onnxruntime-web 1.30.0, int8', { runtime: 'ort', precision: 'q8' }],
  ['onnxruntime-web 1.30.0, f32', { runtime: 'ort', precision: 'fp32' }],
];

/** Returns the table of docs/benchmarks.md. @param {Figures} f */
export function shortTable({ rows, machine }) {
  const results = new Table(rows);
  const body = SHORT_TABLE_ROWS.map(([title, conditions]) => [
    title,
    .../** @type {const} */ (['prefill', 'decode']).flatMap((rate) =>
      [1, 2].map((threads) => {
        const median = results.bestOf(results.where({ ...conditions, shape: '135m', threads }), 128, rate)?.[rate]
          ?.median;
        return median ? formatNumber(median) : '–';
      }),
    ),
  ]);
  return `${table(['tokens per second, 135M shape', 'prefill of 128, 1 thread', '2 threads', 'decode after it, 1 thread', '2 threads'], body)}

${machine.cpu.replace(/\(R\)/g, '')}; Chromium; native llama.cpp with ${machine.flags.includes('amx_int8') ? 'AMX' : machine.flags.includes('avx512_vnni') ? 'AVX-512' : 'the widest vectors of this CPU'}.`;
}

/** Returns the table of a shape and a rate: a row for each runtime, a column for each prompt and number of threads. @param {Figures} f @param {string} shape @param {'decode' | 'prefill'} rate */
function ratesTable({ rows }, shape, rate) {
  const shapeRows = rows.filter(({ visit }) => visit.shape === shape);
  const prompts = [...new Set(shapeRows.flatMap(({ cells }) => cells.map(({ prompt }) => prompt)))].sort(
    (a, b) => a - b,
  );
  const columns = prompts
    .flatMap((prompt) => [1, 2].map((threads) => ({ prompt, threads })))
    .filter(({ prompt, threads }) =>
      shapeRows.some(
        ({ visit, cells }) => visit.threads === threads && cells.some((c) => c.prompt === prompt && c[rate]),
      ),
    );
  const titles = [...new Set(shapeRows.map(titleOf))];
  const body = titles
    .map((title) => [
      title,
      ...columns.map(({ prompt, threads }) => {
        const row = shapeRows.find((row) => titleOf(row) === title && row.visit.threads === threads);
        return formatSummary(row?.cells.find((cell) => cell.prompt === prompt)?.[rate] ?? null);
      }),
      [1, 2]
        .map(
          (threads) => shapeRows.find((row) => titleOf(row) === title && row.visit.threads === threads)?.rounds || '–',
        )
        .join(', '),
    ])
    .filter((cells) => cells.slice(1, -1).some((text) => text !== '–'));
  const head = columns.map(
    ({ prompt, threads }) => `${rate === 'decode' ? `at ${prompt}` : `${prompt} tokens`}, ${threads} thr`,
  );
  return table(['tokens per second', ...head, 'rounds'], body);
}

/** Returns the list of visits that failed. @param {Figures} f */
function failureList({ rows }) {
  const lines = rows
    .filter(({ errors }) => errors.length)
    .map(({ name, errors }) => `- ${name}: ${errors[0].split('\n')[0]}`);
  return lines.length ? `Measurements that failed:\n\n${lines.join('\n')}\n` : '';
}

/** Returns the table of load times and memory. @param {Figures} f */
function loadTable({ rows }) {
  const shape = '135m';
  const shapeRows = rows.filter(({ visit, loadMs }) => visit.shape === shape && visit.threads === 1 && loadMs);
  const inMegabytes = (/** @type {Row['memory']} */ s) =>
    s && { ...s, median: s.median / 1e6, least: s.least / 1e6, most: s.most / 1e6 };
  return table(
    ['135M shape, 1 thread', 'load, ms', 'memory, MB', 'heap in it, MB', 'rounds'],
    shapeRows.map((row) => [
      titleOf(row),
      formatSummary(row.loadMs),
      formatSummary(inMegabytes(row.memory)),
      row.facts.heap ? formatNumber(row.facts.heap / 1e6) : '–',
      String(row.rounds),
    ]),
  );
}

/** Returns the table of the sizes of JavaScript and wasm. @param {Figures} f */
function payloadTable({ payload: { bq4, peers } }) {
  const rowOf = (/** @type {string} */ name, /** @type {{ raw: number, gzip: number }} */ { raw, gzip }) => [
    name,
    raw.toLocaleString('en'),
    gzip.toLocaleString('en'),
  ];
  return table(
    ['files that a page loads, without the model', 'bytes', 'gzip -9'],
    [
      ...Object.entries(bq4).map(([name, size]) =>
        rowOf(name.endsWith('.wasm') ? `bq4: ${name} (one of these)` : `bq4: ${name}`, size),
      ),
      ...Object.entries(peers).map(([name, size]) => rowOf(name, size)),
    ],
  );
}

/** Returns the tables of decode steps and their limits. @param {Figures} f */
function limitTables({ limits }) {
  return (
    limits
      .map(
        ({
          precision,
          bytes,
          rounds,
          lines,
        }) => `${PRECISION_TITLES[precision]}: ${formatNumber(bytes / 1e6)} MB, ${rounds} rounds.

${table(
  ['1 thread', 'ms per token', 'GB/s', 'G weights/s', 'bytes per second relative to a plain read'],
  lines.map(({ title, ms, gbPerS, gPerS, ofRead }) => [
    title,
    formatNumber(ms),
    formatNumber(gbPerS),
    gPerS === null ? '–' : formatNumber(gPerS),
    formatNumber(ofRead),
  ]),
)}
`,
      )
      .join('\n') || 'Not measured.\n'
  );
}

/** Titles of the stages of a trace. @type {Record<string, string>} */
const STAGE_TITLES = {
  qkv: 'product: queries, keys, values',
  o: 'product: attention output',
  mlpIn: 'product: gate and up',
  down: 'product: down',
  head: 'product: LM head',
  attend: 'attention',
  norm: 'norms, quantization of activations',
  kv: 'rotation of keys, storing keys and values',
  activate: 'activation',
  embed: 'embedding',
  sample: 'sampling',
  host: 'JavaScript between two calls',
};

/** Returns the table of the stages of a decode step. @param {Figures} f */
function stageTable({ rows, limits }) {
  const row = new Table(rows).where({ runtime: 'limit', shape: '135m', precision: 'bq4h+bq8' })[0];
  const steps = row ? [128, 1900].flatMap((depth) => stepOf(row, depth) ?? []) : [];
  if (!steps.length) return 'Not measured.';
  const plainReadRate =
    limits.find(({ precision }) => precision === 'bq4h+bq8')?.lines.find(({ title }) => title === 'plain read')
      ?.gbPerS ?? NaN;
  const cellsOf = (/** @type {import('./table.mjs').Step} */ step, /** @type {string} */ name) => {
    const entry = step.stages.find(({ stage }) => stage === name);
    if (!entry) return ['–', '–', '–', '–'];
    const rate = entry.bytes > 1e5 ? entry.bytes / entry.ms / 1e6 : NaN;
    return [
      formatNumber(entry.ms),
      ...[rate, rate / plainReadRate].map((value) => (Number.isFinite(value) ? formatNumber(value) : '–')),
      `${formatNumber(100 * entry.share)} %`,
    ];
  };
  const sumRow = (/** @type {string} */ title, /** @type {'noProduct' | 'attend' | 'others'} */ which) => [
    title,
    ...steps.flatMap((step) => [
      formatNumber((step[which]?.median ?? 0) * step.ms),
      '–',
      '–',
      `${formatNumber(100 * (step[which]?.median ?? 0))} %`,
    ]),
  ];
  return table(
    [
      '1 thread, 8-bit LM head, KV i8',
      ...steps.flatMap(({ depth }) => [
        `at ${depth.toLocaleString('en')}: ms per token`,
        'GB/s',
        'relative to a plain read',
        'share',
      ]),
    ],
    [
      ...Object.entries(STAGE_TITLES).map(([name, title]) => [title, ...steps.flatMap((step) => cellsOf(step, name))]),
      sumRow('**all except products**', 'noProduct'),
      sumRow('attention in it', 'attend'),
      sumRow('the rest of it', 'others'),
      ['**all**', ...steps.flatMap(({ ms }) => [formatNumber(ms), '–', '–', '100 %'])],
    ],
  );
}

/** Returns the facts that native llama.cpp reported about itself. @param {Figures} f @param {'best' | 'no-amx'} variant */
const nativeFacts = ({ rows }, variant) =>
  rows.find(({ visit, facts }) => visit.runtime === 'native' && visit.variant === variant && facts.backend)?.facts;

/** Returns each text once, joined by commas. @param {readonly string[]} texts */
const joinDistinct = (texts) => [...new Set(texts)].join(', ');

/** Formats a share of CPU time. @param {import('./stats.mjs').Summary | null | undefined} share */
const formatShare = (share) =>
  share ? `${formatNumber(share.median * 100)} % (at most ${formatNumber(share.most * 100)} %)` : 'unknown';

/** Formats the dates of the first and the last visit. @param {Figures} f */
function formatDates({ from, to }) {
  const [first, last] = [from?.slice(0, 10), to?.slice(0, 10)];
  return first === last ? `${first}` : `${first} to ${last}`;
}

/** Returns the table of the machine and of the versions of the runtimes. @param {Figures} f */
function machineTable(f) {
  const { machine, rows } = f;
  const [native, noAmx] = [nativeFacts(f, 'best'), nativeFacts(f, 'no-amx')];
  const modules = rows
    .filter(({ visit, facts }) => visit.runtime === 'bq4' && visit.variant === 'best' && facts.build)
    .map(({ visit, facts }) => `${facts.build} in ${visit.browser === 'firefox' ? 'Firefox' : 'Chromium'}`);
  const wllamaSources = rows
    .filter(({ visit, facts }) => visit.runtime === 'wllama' && facts.llamaCpp)
    .map(({ visit, facts }) => `${visit.version}: llama.cpp ${facts.llamaCpp}`);
  const browsers = rows.flatMap(({ facts }) => facts.browser || []);
  return table(
    ['', ''],
    [
      ['CPU', `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGB} GB`],
      ['flags', machine.flags.join(' ')],
      [
        '`i32x4.relaxed_dot_i8x16_i7x16_add_s` is compiled to',
        `in Chromium and Node ${f.dot}; in Firefox ${f.firefoxDot}`,
      ],
      ["bq4's module", joinDistinct(modules) || 'not measured'],
      ['system', `${machine.os}, Node ${machine.node}`],
      ['browsers', `${joinDistinct(browsers)}, pages cross-origin isolated`],
      [
        'native llama.cpp',
        `the libraries of node-llama-cpp 3.22.1 (llama.cpp v0.5.0); backend ${native?.backend ?? 'not measured'}${noAmx ? `, without AMX ${noAmx.backend}` : ''}`,
      ],
      ['wllama is built from', joinDistinct(wllamaSources) || 'unknown'],
      ['CPU time that other virtual machines used during a visit', formatShare(f.stolen)],
      ['CPU time in use by other programs before a visit', formatShare(f.busy)],
      ['measured', formatDates(f)],
    ],
  );
}

/** Returns the sections of all measured shapes. @param {Figures} f */
function shapeSections(f) {
  const isMeasured = (/** @type {string} */ shape) =>
    f.rows.some(({ visit, rounds }) => visit.shape === shape && rounds);
  return ['15m', '135m', '500m']
    .filter(isMeasured)
    .map(
      (shape) => `## ${shape.replace('m', 'M')} shape

### Decode

The number after "at" is the length of the prompt, which is the depth at which decoding starts.

${ratesTable(f, shape, 'decode')}

### Prefill

${ratesTable(f, shape, 'prefill')}
`,
    )
    .join('\n');
}

/** Formats the number of rounds of the runtimes, as a range if they differ. @param {Figures} f */
function formatRounds({ rows }) {
  const counts = rows.map(({ rounds }) => rounds).filter(Boolean);
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  return least === most ? `${least}` : `${least}–${most}`;
}

/** Returns the image of a plot. @param {string} name @param {string} alt */
const plot = (name, alt) => `![${alt}](../benchmarks/${name}.svg)`;

const SETTINGS = `## Settings of the runtimes

- **bq4**: \`createWorkerEngine\`, greedy. The first token of each prompt differs, so the session reuses nothing. KV cache i8, the default,
  which increases perplexity by 0.04 to 0.29 % on the measured models (\`node tests/golden/kv_types.mjs\`,
  [decision 5](../decisions/0005-kv-cache-types.md)).
- **native llama.cpp**: flash attention by its default (on), KV f16, batches of 512, one thread pool for the run, no sampling, as in its own
  benchmark; the driver is \`tools/bench/peers/native.c\`. The visit fails if the chosen backend does not use an instruction set of this CPU.
- **llama.cpp to wasm with SIMD, Node**: the same source, driver and settings, built by \`tools/bench/peers/llama-wasm.mk\`. It runs in Node,
  without a page and without sampling. It is not a product; it shows the speed that wllama could reach.
- **wllama**: CPU only, KV f16, greedy. Version 3 reports its times, which exclude work of the page; version 2 is measured token by token.
  Q4_0 with a Q8_0 LM head is llama.cpp's default for these shapes, \`--pure\` its form with 4 bits everywhere.
- **onnxruntime-web, transformers.js**: wasm backend, all graph optimizations, KV f32. The graphs are those that onnxruntime-genai's
  builder writes for CPUs (packed QKV in GroupQueryAttention, logits of the last position), int8 as \`quantize_dynamic\` writes it, int4
  as MatMulNBits with blocks of 32 and accuracy level 4; embeddings f32.
- The numbers of prompt tokens and decoded tokens that a runtime reports are compared with the requested numbers. Slow runtimes decode
  fewer tokens (16 instead of 64); prompts of 512 and 1,900 tokens are omitted if a prompt of 128 tokens takes a second or more.`;

/** Returns the text of docs/log/benchmarks.md. @param {Figures} f @returns {string} */
export const reportText = (f) => `# Benchmarks

Written by \`npm run bench:peers\` and \`npm run bench\`: do not edit. Rates are those of this machine; ratios differ less between machines.
[benchmarks-vnni.md](benchmarks-vnni.md) has the figures of an earlier revision on a machine with VNNI and AMX.
Medians (smallest–largest) of ${formatRounds(f)} rounds, each of which measures every runtime once. Random weights.

${shortTable(f)}

## Machine

${machineTable(f)}

## Targets

The 135M shape; decode after a prompt of 128 tokens. Native llama.cpp uses all instruction sets of this machine, including AMX. A ratio is
the median (smallest–largest) of the ratios within a round, since the speed of the machine changes from round to round. Both figures of a
round are measured within half an hour; if there is no such round, the ratio is that of the medians and counts as one round.

"To compare" marks figures of the same run that explain the target above them.

${targetsTable(f)}

### Targets that are not reached, and reasons

${shortfalls(f)}

${failureList(f)}
${shapeSections(f)}
${plot('decode', 'Decode rates of all runtimes')}

${plot('prefill', 'Prefill rates of all runtimes')}

${plot('context', 'Decode rate by length of context')}

## Limits

A decode step is compared with its arithmetic. The *bare loop* multiplies matrices of the same sizes and types in the same order, with
nothing between them; the *plain read* reads as many bytes. All are measured in alternation in one page (\`tests/bench/token.c\`,
\`tools/bench/pages/limit.js\`). Each has its own memory, so that caches have the same effect on all of them.

${limitTables(f)}
${f.limits.length ? plot('roofline', 'Rates of a plain read, of the bare loops and of a decode step') : ''}

### Stages of a step

Measured by \`session.trace()\` in the same page. A trace reads the clock 300 times per token; this time is subtracted. "Relative to a
plain read" compares the bytes per second of a stage with those of one stream that reads memory in the same page.

${stageTable(f)}

## Load time, memory, payload

The load time ends when the runtime is ready for a prompt; files are served by this machine. Memory is the largest sum of the
proportional set sizes of the browser's processes during the load (measured every 100 ms), minus the sum while the page is empty. It
contains the model, the runtime, temporary copies and a KV cache for 2,048 tokens. Native llama.cpp maps its file into memory: its figure
is the peak of its process, including the mapped file.

${loadTable(f)}

${payloadTable(f)}

${plot('load', 'Load time and payload')}

${SETTINGS}
`;
