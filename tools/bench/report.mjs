// docs/log/benchmarks.md, from figures.
import { short, shown } from './stats.mjs';
import { stepOf, Table } from './table.mjs';
import { PRECISIONS, titleOf } from './titles.mjs';

/** @typedef {ReturnType<typeof import('./figures.mjs').figures>} Figures */
/** @typedef {import('./table.mjs').Row} Row */

/** @param {string[]} head @param {string[][]} body */
const table = (head, body) =>
  [head, head.map(() => '---'), ...body].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/** What is reached and what is not. @param {Figures} f */
export function targetsTable({ targets: list }) {
  const verdict = (/** @type {import('./targets.mjs').Target} */ { target, value, reached }) =>
    value === null ? 'not measured' : target === '' ? 'to compare' : reached ? 'reached' : '**not reached**';
  return table(
    ['', 'what', 'target', 'here', 'rounds', ''],
    list.map((each, i) => [
      each.group === list[i - 1]?.group ? '' : each.group,
      each.what,
      each.target || '–',
      each.value === null ? '–' : shown(each.range),
      String(each.range?.n ?? '–'),
      verdict(each),
    ]),
  );
}

/** Of every target that isn't reached: how far it is, and why; equal reasons once. @param {Figures} f */
function shortfalls({ targets: list }) {
  const missed = list.filter(({ reached }) => reached === false);
  if (!missed.length) return 'All targets are reached.';
  const reasons = [...new Set(missed.map(({ why }) => why))];
  /** @param {import('./targets.mjs').Target} target */
  const both = ({ target, range }) =>
    range && range.n > 1 && range.least <= Number(target.slice(2)) && Number(target.slice(2)) <= range.most;
  return reasons
    .map(
      (reason) =>
        `- ${missed
          .filter(({ why }) => why === reason)
          .map(
            (each) =>
              `**${each.group}: ${each.what}**, ${shown(each.range)} instead of ${each.target}${both(each) ? ' (rounds lie on both sides of it)' : ''}`,
          )
          .join('; ')}.\n  ${reason}`,
    )
    .join('\n');
}

/** @type {[string, Partial<import('./cells.mjs').Visit>][]} */
const SHORT = [
  ['**bq4**, 4-bit', { runtime: 'us', precision: 'bq4h+bq8', kv: 'i8', variant: 'best' }],
  ['native llama.cpp, Q4_0', { runtime: 'native', precision: 'q4_0', variant: 'best' }],
  ['wllama 3.8.1, Q4_0', { runtime: 'wllama', version: '3.8.1', precision: 'q4_0' }],
  ['wllama 3.8.1, Q8_0', { runtime: 'wllama', version: '3.8.1', precision: 'q8_0' }],
  ['wllama 2.3.1, Q4_0', { runtime: 'wllama', version: '2.3.1', precision: 'q4_0' }],
  ['transformers.js 4.3.1, int8', { runtime: 'tjs', precision: 'q8' }],
  ['onnxruntime-web 1.30.0, int8', { runtime: 'ort', precision: 'q8' }],
  ['onnxruntime-web 1.30.0, f32', { runtime: 'ort', precision: 'fp32' }],
];

/** The table of docs/benchmarks.md. @param {Figures} f */
export function shortTable({ rows, machine }) {
  const all = new Table(rows);
  const body = SHORT.map(([title, wanted]) => [
    title,
    .../** @type {const} */ (['prefill', 'decode']).flatMap((what) =>
      [1, 2].map((threads) => {
        const median = all.bestOf(all.where({ ...wanted, shape: '135m', threads }), 128, what)?.[what]?.median;
        return median ? short(median) : '–';
      }),
    ),
  ]);
  return `${table(['tokens per second, 135M shape', 'prefill of 128, 1 thread', '2 threads', 'decode after it, 1 thread', '2 threads'], body)}

${machine.cpu.replace(/\(R\)/g, '')}; Chromium; native llama.cpp with ${machine.flags.includes('amx_int8') ? 'AMX' : machine.flags.includes('avx512_vnni') ? 'AVX-512' : 'the best that this CPU has'}.`;
}

/** Of one shape and kind of rate: a row per runtime, a column per prompt and number of threads. @param {Figures} f @param {string} shape @param {'decode' | 'prefill'} what */
function rates({ rows }, shape, what) {
  const local = rows.filter(({ visit }) => visit.shape === shape);
  const prompts = [...new Set(local.flatMap(({ cells }) => cells.map(({ prompt }) => prompt)))].sort((a, b) => a - b);
  const columns = prompts
    .flatMap((prompt) => [1, 2].map((threads) => ({ prompt, threads })))
    .filter(({ prompt, threads }) =>
      local.some(({ visit, cells }) => visit.threads === threads && cells.some((c) => c.prompt === prompt && c[what])),
    );
  const titles = [...new Set(local.map(titleOf))];
  const body = titles
    .map((title) => [
      title,
      ...columns.map(({ prompt, threads }) => {
        const row = local.find((each) => titleOf(each) === title && each.visit.threads === threads);
        return shown(row?.cells.find((cell) => cell.prompt === prompt)?.[what] ?? null);
      }),
      [1, 2]
        .map(
          (threads) => local.find((each) => titleOf(each) === title && each.visit.threads === threads)?.rounds || '–',
        )
        .join(', '),
    ])
    .filter((cells) => cells.slice(1, -1).some((text) => text !== '–'));
  const head = columns.map(
    ({ prompt, threads }) => `${what === 'decode' ? `at ${prompt}` : `${prompt} tokens`}, ${threads} thr`,
  );
  return table(['tokens per second', ...head, 'rounds'], body);
}

/** @param {Figures} f */
function failures({ rows }) {
  const failed = rows
    .filter(({ errors }) => errors.length)
    .map(({ name, errors }) => `- ${name}: ${errors[0].split('\n')[0]}`);
  return failed.length ? `What could not be measured:\n\n${failed.join('\n')}\n` : '';
}

/** @param {Figures} f */
function loads({ rows }) {
  const shape = '135m';
  const local = rows.filter(({ visit, loadMs }) => visit.shape === shape && visit.threads === 1 && loadMs);
  const mega = (/** @type {Row['memory']} */ s) =>
    s && { ...s, median: s.median / 1e6, least: s.least / 1e6, most: s.most / 1e6 };
  return table(
    ['135M shape, 1 thread', 'load, ms', 'memory, MB', 'of it the heap, MB', 'rounds'],
    local.map((row) => [
      titleOf(row),
      shown(row.loadMs),
      shown(mega(row.memory)),
      row.facts.heap ? short(row.facts.heap / 1e6) : '–',
      String(row.rounds),
    ]),
  );
}

/** @param {Figures} f */
function payload({ payload: { ours, peers } }) {
  const row = (/** @type {string} */ name, /** @type {{ raw: number, gzip: number }} */ { raw, gzip }) => [
    name,
    raw.toLocaleString('en'),
    gzip.toLocaleString('en'),
  ];
  return table(
    ['what a page loads, model aside', 'bytes', 'gzip -9'],
    [
      ...Object.entries(ours).map(([name, size]) =>
        row(name.endsWith('.wasm') ? `bq4: ${name} (one of these)` : `bq4: ${name}`, size),
      ),
      ...Object.entries(peers).map(([name, size]) => row(name, size)),
    ],
  );
}

/** @param {Figures} f */
function roofline({ limits }) {
  return (
    limits
      .map(
        ({ precision, bytes, rounds, lines }) => `${PRECISIONS[precision]}: ${short(bytes / 1e6)} MB, ${rounds} rounds.

${table(
  ['1 thread', 'ms a token', 'GB/s', 'G weights/s', 'of a plain read, in bytes'],
  lines.map(({ what, ms, gbPerS, gPerS, ofRead }) => [
    what,
    short(ms),
    short(gbPerS),
    gPerS === null ? '–' : short(gPerS),
    short(ofRead),
  ]),
)}
`,
      )
      .join('\n') || 'Not measured.\n'
  );
}

/** @type {Record<string, string>} */
const STAGES = {
  qkv: 'product: queries, keys, values',
  o: 'product: attention out',
  mlpIn: 'product: gate and up',
  down: 'product: down',
  head: 'product: head',
  attend: 'attention',
  norm: 'norms, activations quantized',
  kv: 'rotate and store keys, values',
  activate: 'activation',
  embed: 'embedding',
  sample: 'sampling',
  host: 'JavaScript between two calls',
};

/** Where a step's time goes. @param {Figures} f */
function parts({ rows, limits }) {
  const row = new Table(rows).where({ runtime: 'limit', shape: '135m', precision: 'bq4h+bq8' })[0];
  const steps = row ? [128, 1900].flatMap((depth) => stepOf(row, depth) ?? []) : [];
  if (!steps.length) return 'Not measured.';
  const limit =
    limits.find(({ precision }) => precision === 'bq4h+bq8')?.lines.find(({ what }) => what === 'plain read')?.gbPerS ??
    NaN;
  const cell = (/** @type {import('./table.mjs').Step} */ step, /** @type {string} */ name) => {
    const found = step.stages.find(({ stage }) => stage === name);
    if (!found) return ['–', '–', '–', '–'];
    const rate = found.bytes > 1e5 ? found.bytes / found.ms / 1e6 : NaN;
    return [
      short(found.ms),
      ...[rate, rate / limit].map((value) => (Number.isFinite(value) ? short(value) : '–')),
      `${short(100 * found.share)} %`,
    ];
  };
  const sums = (/** @type {string} */ title, /** @type {'noProduct' | 'attend' | 'others'} */ which) => [
    title,
    ...steps.flatMap((step) => [
      short((step[which]?.median ?? 0) * step.ms),
      '–',
      '–',
      `${short(100 * (step[which]?.median ?? 0))} %`,
    ]),
  ];
  return table(
    [
      '1 thread, 8-bit head, KV i8',
      ...steps.flatMap(({ depth }) => [
        `at ${depth.toLocaleString('en')}: ms a token`,
        'GB/s',
        'of a plain read',
        'share',
      ]),
    ],
    [
      ...Object.entries(STAGES).map(([name, title]) => [title, ...steps.flatMap((step) => cell(step, name))]),
      sums('**no product**', 'noProduct'),
      sums('of it attention', 'attend'),
      sums('of it the rest', 'others'),
      ['**all**', ...steps.flatMap(({ ms }) => [short(ms), '–', '–', '100 %'])],
    ],
  );
}

/** @param {Figures} f @returns {string} */
export function reportText(f) {
  const { machine: m, rows } = f;
  const native = rows.find(
    ({ visit, facts }) => visit.runtime === 'native' && visit.variant === 'best' && facts.backend,
  )?.facts;
  const less = rows.find(
    ({ visit, facts }) => visit.runtime === 'native' && visit.variant === 'no-amx' && facts.backend,
  )?.facts;
  const built = [
    ...new Set(
      rows.flatMap(({ visit, facts }) =>
        visit.runtime === 'wllama' && facts.llamaCpp ? [`${visit.version}: llama.cpp ${facts.llamaCpp}`] : [],
      ),
    ),
  ];
  const browsers = [...new Set(rows.flatMap(({ facts }) => (facts.browser ? [facts.browser] : [])))];
  const modules = [
    ...new Set(
      rows.flatMap(({ visit, facts }) =>
        visit.runtime === 'us' && visit.variant === 'best' && facts.build
          ? [`${facts.build} in ${visit.browser === 'firefox' ? 'Firefox' : 'Chromium'}`]
          : [],
      ),
    ),
  ].join(', ');
  const rounds = rows.filter(({ rounds: n }) => n).map(({ rounds: n }) => n);
  const shapes = ['15m', '135m', '500m'].filter((shape) =>
    rows.some(({ visit, rounds: n }) => visit.shape === shape && n),
  );
  const plot = (/** @type {string} */ name, /** @type {string} */ alt) => `![${alt}](../benchmarks/${name}.svg)`;
  return `# Benchmarks

Written by \`npm run bench:peers\` and \`npm run bench\`; don't edit. Rates belong to this machine; ratios travel better.
A machine with VNNI and AMX, of an earlier revision: [benchmarks-vnni.md](benchmarks-vnni.md).
Medians (least–most) of ${Math.min(...rounds)}${Math.min(...rounds) === Math.max(...rounds) ? '' : `–${Math.max(...rounds)}`} rounds, interleaved: every runtime once, then every one again. Random weights.

${shortTable(f)}

## Machine

| | |
| --- | --- |
| CPU | ${m.cpu}, ${m.cores} cores, ${m.memoryGB} GB |
| flags | ${m.flags.join(' ')} |
| \`i32x4.relaxed_dot_i8x16_i7x16_add_s\` becomes | in Chromium and Node ${f.dot}; in Firefox ${f.firefoxDot} |
| bq4's module | ${modules || 'not measured'} |
| system | ${m.os}, Node ${m.node} |
| browsers | ${browsers.join(', ')}, pages cross-origin isolated |
| native llama.cpp | the libraries of node-llama-cpp 3.22.1 (llama.cpp v0.5.0); chose ${native?.backend ?? 'not measured'}${less ? `, and with AMX left out ${less.backend}` : ''} |
| wllama is built from | ${built.join(', ') || 'unknown'} |
| time that the host took away during a visit | ${f.stolen ? `${short(f.stolen.median * 100)} % (at most ${short(f.stolen.most * 100)} %)` : 'unknown'} |
| of the cores, in use right before a visit | ${f.busy ? `${short(f.busy.median * 100)} % (at most ${short(f.busy.most * 100)} %)` : 'unknown'} |
| measured | ${f.from?.slice(0, 10)}${f.to?.slice(0, 10) === f.from?.slice(0, 10) ? '' : ` to ${f.to?.slice(0, 10)}`} |

## Against the targets

The 135M shape; decode after a prompt of 128 tokens. Native llama.cpp is what it makes of this machine, AMX included. A
ratio is the median over rounds of the ratio within a round (least–most), since the machine's own speed changes meanwhile;
both sides are measured within half an hour, or it is the ratio of their medians and counts as one round.

"To compare": figures of the same run that stand beside a target.

${targetsTable(f)}

### What is not reached, and why

${shortfalls(f)}

${failures(f)}
${shapes
  .map(
    (shape) => `## ${shape.replace('m', 'M')} shape

### Decode

The number after "at" is the prompt's length, which is the depth at which decoding begins.

${rates(f, shape, 'decode')}

### Prefill

${rates(f, shape, 'prefill')}
`,
  )
  .join('\n')}
${plot('decode', 'Decode rates of every runtime')}

${plot('prefill', 'Prefill rates of every runtime')}

${plot('context', 'Decode rate by length of context')}

## The limit

A decode step beside its own arithmetic: the *bare loop* multiplies the same matrices, of the same sizes and types and in the
same order, back to back and with nothing between them; the *plain read* reads as many bytes. All in one page, in turn
(\`tests/bench/token.c\`, \`tools/bench/pages/limit.js\`), each from memory of its own, so that caches treat them alike.

${roofline(f)}
${f.limits.length ? plot('roofline', 'Rates of a plain read, of the bare loops and of a whole step') : ''}

### Where a step's time goes

By \`session.trace()\`, in the same page. Tracing looks at the clock 300 times a token; what that costs is taken off. "Of a plain
read": its bytes per second, against one stream that reads memory in the same page.

${parts(f)}

## Load time, memory, payload

From the page's wish to readiness for a prompt, files from this machine. Memory: the most that the browser's processes
together held while it loaded (proportional set size, looked at every 100 ms), beyond what they held with the page still
empty; model, runtime, copies on the way and KV cache for 2,048 tokens. Native llama.cpp maps its file: its figure is the
most its process ever held, the mapped file included.

${loads(f)}

${payload(f)}

${plot('load', 'Load time and payload')}

## How each was run

- **bq4**: \`createWorkerEngine\`, greedy. A prompt's first token always differs, so that nothing is reused. KV cache i8, the default. It costs 0.04 to 0.29 % of perplexity on the models that it was measured with (\`node tests/golden/kv_types.mjs\`,
  [decision 5](../decisions/0005-kv-cache-types.md)).
- **native llama.cpp**: flash attention as it decides (on), KV f16, batches of 512, a thread pool that lives through the run, nothing
  sampled, as in its own bench; the driver is \`tools/bench/peers/native.c\`. Measuring fails if the backend it picks lacks an instruction
  set of this CPU.
- **llama.cpp to wasm with SIMD, Node**: the same source, driver and settings, built by \`tools/bench/peers/llama-wasm.mk\`. It runs in Node, with no
  page around it and nothing sampled: an anchor for what wllama could be, no product.
- **wllama**: CPU only, KV f16, greedy. 3.x by its own timings, which leave out what the page adds; 2.x token by token. Q4_0 with a
  Q8_0 head is llama.cpp's default for these shapes, \`--pure\` its all-4-bit form.
- **onnxruntime-web, transformers.js**: wasm backend, all graph optimizations, KV f32. The graphs are those that onnxruntime-genai's
  builder writes for CPUs (packed QKV in GroupQueryAttention, logits of the last position), int8 as \`quantize_dynamic\` writes it, int4
  as MatMulNBits with blocks of 32 and accuracy level 4; embeddings f32.
- Each runtime's own count of prompt tokens and decoded tokens is checked against what is timed. Slow ones decode fewer tokens (16
  instead of 64); prompts of 512 and 1,900 tokens are left out where 128 already took a second or more.
`;
}
