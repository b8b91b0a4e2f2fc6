// Random templates with random values, rendered by Python's jinja2 and by bq4: a text that bq4 renders is the same as Python's; bq4 may refuse
// other templates. A seed gives the same templates again: BQ4_SEED=7 node --test tests/js/templates-python.test.mjs
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { compile, prepare } from '../../js/text/templates/jinja.js';
import { stringOf } from '../../js/text/templates/template-texts.js';

const SCRIPT = fileURLToPath(new URL('../templates/render.py', import.meta.url));
const PYTHON = process.env.BQ4_PYTHON ?? 'python3';
/** The time of strftime_now, the same as in make_expected.py. */
const NOW = new Date('2026-03-07T09:05:02');

/** Whether Python has jinja2. */
export const hasJinja = spawnSync(PYTHON, ['-c', 'import jinja2']).status === 0;

/** A generator of uniform numbers in [0, 1). @param {number} seed */
function random(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const TEXTS = [
  '',
  'a',
  'ab',
  'abcabc',
  'Hello World',
  '  two  spaces ',
  'line\nline\n\nend\n',
  'tab\there',
  'it\'s "q"',
  'é👋ß',
  '<b>&x</b>',
  '12',
  '-3',
  '3.5',
  '1e3',
  ' 7 ',
  '0x10',
  '1_000',
  'x,y,,z',
  '%s and %d',
  '{} {x}',
  'ÀÉ straße ǆ',
  'a\u2028b\x85c\x1cd',
  'ab\r\ncd\re',
  '\\',
  '中文 字',
  'aaa',
  'true',
  'None',
  'A-b c(d',
  'ﬁn',
];
const NUMBERS = [0, 1, 2, 3, -1, -2, 5, 7, 10, 0.5, 2.5, -1.5, 3.14159, 0.1, 1e16, 1e-5, 123456789, 2.675, 1234.5];

/** A generator of templates and values. @param {number} seed */
function generator(seed) {
  const next = random(seed);
  const int = (/** @type {number} */ n) => Math.floor(next() * n);
  /** @template T @param {readonly T[]} list @returns {T} */
  const pick = (list) => list[int(list.length)];
  const chance = (/** @type {number} */ p) => next() < p;

  /** @param {number} depth @returns {any} */
  const value = (depth) => {
    const kind = int(depth > 0 ? 9 : 6);
    if (kind < 3) return pick(TEXTS);
    if (kind < 4) return pick(NUMBERS);
    if (kind === 4) return chance(0.5);
    if (kind === 5) return chance(0.5) ? null : pick(NUMBERS);
    if (kind < 8) return Array.from({ length: int(4) }, () => value(depth - 1));
    return Object.fromEntries(
      Array.from({ length: int(4) }, () => [pick(['a', 'b', 'c', 'role', 'x y', 'é']), value(depth - 1)]),
    );
  };
  const context = () => ({
    t: pick(TEXTS),
    u: pick(TEXTS),
    n: pick(NUMBERS),
    m: pick(NUMBERS),
    l: Array.from({ length: int(5) }, () => value(1)),
    w: Array.from({ length: int(5) }, () => pick(TEXTS)),
    q: Array.from({ length: int(5) }, () => pick(NUMBERS)),
    d: { a: value(1), b: pick(TEXTS), c: pick(NUMBERS) },
    b: chance(0.5),
    z: null,
    r: Array.from({ length: int(4) }, () => ({
      role: pick(['user', 'system', 'tool']),
      a: pick(NUMBERS),
      b: pick(TEXTS),
    })),
  });

  const quote = (/** @type {string} */ text) =>
    chance(0.5) ? `'${text.replace(/[\\']/g, '\\$&').replaceAll('\n', '\\n')}'` : JSON.stringify(text);
  const literal = () =>
    pick([
      () => quote(pick(TEXTS)),
      () => pick(['1', '2', '3', '0', '10', '1.5', '2.0', '1e3', '1_0', '0x1f', '7', '2.675', '.5'.slice(0, 2)]),
      () => pick(['true', 'false', 'none', 'True', 'None']),
      () => pick(["'\\d'", "'\\x41\\u00e9'", "'a' 'b'", "'\\101\\0'", '"\\N"', "'\\\n'", "'\\U0001F600'"]),
    ])();
  const name = () => pick(['t', 'u', 'n', 'm', 'l', 'w', 'q', 'd', 'b', 'z', 'r', 'nope']);
  const textName = () => pick(['t', 'u', 'd.b', "d['b']", 'w[0]', 'w | first']);
  const small = () => pick(['0', '1', '2', '3', '-1', '-2', '5', 'none', 'n']);

  /** @param {number} depth @returns {string} */
  const list = (depth) =>
    pick([
      () => pick(['w', 'q', 'l', 'r']),
      () => `[${Array.from({ length: int(4) }, () => expression(depth - 1)).join(', ')}]`,
      () => `(${expression(depth - 1)}, ${expression(depth - 1)})`,
      () => `range(${int(5)})`,
      () => `range(${int(5)}, ${int(9)}, ${pick(['1', '2', '-1'])})`,
      () => `${text(depth - 1)}.split(${pick(['', "' '", "','", 'none, 1', "'a', 1", 'none'])})`,
      () => `d.${pick(['items', 'keys', 'values'])}()`,
      () =>
        `(${pick(['w', 'q', 'l', 'r'])} | ${pick(['list', 'reverse', 'unique', "map('string')", 'sort', "select('string')", "map(attribute='b')", "selectattr('a', 'gt', 1)", "rejectattr('b')", 'batch(2)', "batch(3, 'x')"])})`,
    ])();

  /** @param {number} depth @returns {string} */
  const text = (depth) =>
    depth <= 0
      ? pick([textName, () => quote(pick(TEXTS))])()
      : pick([
          textName,
          () => quote(pick(TEXTS)),
          () => `(${text(depth - 1)} ~ ${expression(depth - 1)})`,
          () => `(${text(depth - 1)} + ${text(depth - 1)})`,
          () => `${text(depth - 1)}.${method()}`,
          () => `(${text(depth - 1)} | ${filter()})`,
          () =>
            `${text(depth - 1)}[${pick([small, () => `${small()}:${small()}`, () => `:${small()}`, () => '::-1', () => `${small()}::2`])()}]`,
          () => `(${text(depth - 1)} * ${int(4)})`,
          () =>
            `(${quote(format())} % ${pick([() => expression(depth - 1), () => `(${expression(depth - 1)}, ${expression(depth - 1)})`])()})`,
          () =>
            `(${quote(format())} | format(${expression(depth - 1)}${chance(0.3) ? `, ${expression(depth - 1)}` : ''}))`,
          () =>
            `(${expression(depth - 1)} | ${pick(['string', 'tojson', 'tojson(indent=2)', 'tojson(ensure_ascii=true)', 'tojson(sort_keys=true)', "tojson(separators=(',', ':'))", 'tojson(indent=0)'])})`,
          () => `(${list(depth - 1)} | join(${pick(['', "', '", 't', "'-', attribute='b'"])}))`,
        ])();
  const format = () =>
    pick([
      '%s',
      '%d',
      '%.2f',
      '%5s|',
      '%-5d|',
      '%05.1f',
      '%x',
      '%e',
      '%g',
      '%r',
      '%%',
      '%i%%',
      '%+d',
      '% d',
      '%.3s',
      '%c',
      '%X',
      '%o',
      '%G',
      '%.0f',
      '%s %s',
      '%(a)s',
      'none',
      '%#x',
      '%10.3e',
    ]);
  const method = () =>
    pick([
      'upper()',
      'lower()',
      'title()',
      'capitalize()',
      'swapcase()',
      'strip()',
      "strip('a ')",
      "lstrip('ab')",
      'rstrip()',
      "rstrip('\\n')",
      "startswith('a')",
      "startswith('b', 1)",
      "startswith(('a', 'H'))",
      "endswith('c')",
      "endswith('b', 0, 2)",
      "replace('a', 'X')",
      "replace('a', 'X', 1)",
      "replace('', '_')",
      "replace('', '_', 2)",
      "replace('l', '')",
      "find('a')",
      "find('b', 2)",
      "rfind('a')",
      "index('a')",
      "count('a')",
      "count('')",
      "count('a', 1)",
      "split('a')",
      'split()',
      "rsplit('a', 1)",
      'rsplit(none, 1)',
      'splitlines()',
      'splitlines(true)',
      "partition('b')",
      "rpartition('b')",
      "removeprefix('a')",
      "removesuffix('c')",
      'join(w)',
      "join(['x', 'y'])",
      'zfill(6)',
      'center(9)',
      "ljust(8, '.')",
      'rjust(7)',
      'isdigit()',
      'isalpha()',
      'isspace()',
      'isupper()',
      'islower()',
      'isalnum()',
      'isnumeric()',
      'isascii()',
      'isdecimal()',
      'format(1, x=2)',
      'format(n, u)',
      "rindex('c')",
      'strip(none)',
      'casefold()',
    ]);
  const filter = () =>
    pick([
      'upper',
      'lower',
      'title',
      'capitalize',
      'trim',
      "trim('a')",
      'length',
      'count',
      'wordcount',
      'reverse',
      'list',
      'first',
      'last',
      'int',
      'int(7)',
      'float',
      'float(1.5)',
      'string',
      'escape',
      'e',
      'safe',
      'urlencode',
      "replace('a', 'X')",
      "replace('a', 'X', 1)",
      "replace('a', 'X', count=1)",
      'indent',
      'indent(2)',
      'indent(2, true)',
      "indent('> ', first=true, blank=true)",
      'default',
      "default('q')",
      "default('q', true)",
      'tojson',
      'forceescape',
      "d('x')",
      'unique | list',
      'round',
      'abs',
      'sort',
      'sum',
      'max',
      'min',
      'items | list',
      'dictsort',
      'join',
      "join('-')",
    ]);
  const number = (/** @type {number} */ depth) =>
    pick([
      () => pick(['n', 'm', 'q[0]', 'd.c', '1', '2', '3.5', '7']),
      () =>
        `(${expression(depth - 1)} ${pick(['+', '-', '*', '/', '//', '%'])} ${pick(['n', 'm', '2', '3', '0.5', '-2', '7', '10'])})`,
      // Small exponents, since Python needs very long for powers of large integers.
      () => `(${pick(['n', 'm', 'd.c', '2', '1.5'])} ** ${pick(['2', '3', '0.5', '-2', '1', '0'])})`,
      () =>
        `(${pick(['n', 'm', 'q | sum', 't', 'd.c'])} | ${pick(['round', 'round(1)', 'round(2)', "round(1, 'ceil')", "round(0, 'floor')", "round(method='ceil')", 'round(-1)', 'int', 'float', 'abs', 'string'])})`,
      () => `-${pick(['n', 'm', '2', 't'])}`,
      () => `(${list(depth - 1)} | ${pick(['length', 'sum', 'max', 'min', 'first', 'last', 'count'])})`,
    ])();
  const tests = () =>
    pick(
      [
        'defined',
        'undefined',
        'none',
        'string',
        'number',
        'integer',
        'float',
        'boolean',
        'mapping',
        'sequence',
        'iterable',
        'true',
        'false',
        'odd',
        'even',
        'divisibleby(2)',
        'divisibleby 3',
        'lower',
        'upper',
        'callable',
        'escaped',
        "in ['a', 1]",
        "in('abc')",
        'eq 1',
        '== 2',
        'gt(1)',
        'sameas(none)',
        "ne('a')",
        'lt 5',
        'ge 2',
        'equalto t',
      ].filter((one) => !one.startsWith('==')),
    );
  const condition = (/** @type {number} */ depth) =>
    pick([
      () => `${expression(depth - 1)} is ${chance(0.3) ? 'not ' : ''}${tests()}`,
      () =>
        `${expression(depth - 1)} ${pick(['==', '!=', '<', '>', '<=', '>=', 'in', 'not in'])} ${expression(depth - 1)}`,
      () => `${text(depth - 1)} ${pick(['==', '<', 'in', 'not in'])} ${pick([text, list])(depth - 1)}`,
      () => `not ${expression(depth - 1)}`,
      () => `${expression(depth - 1)} ${pick(['and', 'or'])} ${expression(depth - 1)}`,
      () =>
        `${pick(['n', '1', '2'])} < ${pick(['m', '2', '3'])} ${pick(['<', '<=', '=='])} ${pick(['q[0]', '3', '5'])}`,
    ])();
  /** @param {number} depth @returns {string} */
  const expression = (depth) =>
    depth <= 0
      ? pick([literal, name])()
      : pick([
          literal,
          name,
          () => text(depth),
          () => number(depth),
          () => list(depth),
          () => `(${condition(depth)})`,
          () => `(${expression(depth - 1)} if ${condition(depth - 1)} else ${expression(depth - 1)})`,
          () => `(${expression(depth - 1)} if ${condition(depth - 1)})`,
          () => `(${expression(depth - 1)} | ${filter()})`,
          () => `{${pick(["'a'", 't', '1', "'b'"])}: ${expression(depth - 1)}}`,
          () => `d${pick(['.a', ".get('a')", ".get('q', 5)", "['c']", '.copy()', '.nope'])}`,
          () => `r[0]${pick(['.role', "['b']", '.nope', '.a'])}`,
          () =>
            `(${pick(['w', 'q', 'r', 'd.items()', 'l'])} | ${pick(["groupby('role') | list", "groupby('a') | map('first') | list", 'list', "map('upper') | list", "map(attribute='a', default=0) | list", 'sort(reverse=true)', "sort(attribute='b')", 'sort(case_sensitive=true)', 'unique | list', 'batch(2) | list', "select('odd') | list", "reject('none') | list", 'dictsort', 'reverse | list', 'string', 'length', 'tojson'])})`,
          () => `(${expression(depth - 1)}, ${expression(depth - 1)})[${pick(['0', '1', '-1', ':1', '2'])}]`,
        ])();

  const data = () => pick(['x', ' ', '\n', '  ', 'a\n  ', '\n\n', ' y ', '\t', '}', '{', '%', '#', "it's", '\r\n', '']);
  const begin = () => pick(['{%', '{%', '{%', '{%-', '{%+']);
  const end = () => pick(['%}', '%}', '%}', '-%}', '+%}']);
  const tag = (/** @type {string} */ inside) => `${begin()}${pick([' ', ''])}${inside}${pick([' ', ''])} ${end()}`;
  const print = (/** @type {number} */ depth) =>
    `${pick(['{{', '{{', '{{-', '{{+'])} ${expression(depth)} ${pick(['}}', '}}', '-}}'])}`;
  /** @param {number} depth @param {boolean} loop @returns {string} */
  const block = (depth, loop = false) =>
    Array.from({ length: 1 + int(3) }, () => data() + statement(depth, loop)).join('') + data();
  /** @param {number} depth @param {boolean} loop @returns {string} */
  const statement = (depth, loop) =>
    depth <= 0
      ? print(1)
      : pick([
          () => print(2),
          () => print(3),
          () => tag(`set ${pick(['v', 't', 'n'])} = ${expression(2)}`),
          () =>
            `${tag(`if ${condition(2)}`)}${block(depth - 1, loop)}${chance(0.5) ? `${tag(`elif ${condition(1)}`)}${block(depth - 1, loop)}` : ''}${chance(0.5) ? `${tag('else')}${block(depth - 1, loop)}` : ''}${tag('endif')}`,
          () =>
            `${tag(`for ${pick(['v', 'x', 'a, b', 'x'])} in ${pick([list, expression])(1)}${chance(0.2) ? ` if ${condition(1)}` : ''}`)}${block(depth - 1, true)}${print(1)}{{ ${pick(['loop.index', 'loop.last', 'loop.length', 'loop.revindex', 'x', 'v', "loop.cycle('p', 'q')", 'loop.previtem', 'loop.changed(x)', 'loop.depth'])} }}${chance(0.2) ? `${tag('else')}${block(depth - 1, loop)}` : ''}${tag('endfor')}`,
          () =>
            `${tag(`for x in [1, [2, [3]], ${name()}] recursive`)}${print(0)}{{ loop(x) if x is sequence and x is not string and x is not mapping else x }}{{ loop.depth0 }}${tag('endfor')}`,
          () => `${tag(`with v = ${expression(1)}, x = v`)}${block(depth - 1, loop)}{{ v }}${tag('endwith')}`,
          () => `${tag('raw')}{{ a }}${data()}{% b %}{# c${data()}${tag('endraw')}`,
          () => `{#${pick(['', '-', '+'])} c ${pick(['', '-', '+'])}#}`,
          () =>
            `${tag(`macro f(a, b=${expression(1)})`)}${block(depth - 1)}{{ a }}${pick(['{{ varargs }}', '', '{{ kwargs }}', '{{ caller() if caller }}'])}${tag('endmacro')}{{ f(${pick(['1', 't, 2', 'b=3', '1, 2, 3', 't, c=4', '', '*w', '**d'])}) }}`,
          () => `${tag(`filter ${filter()}`)}${block(depth - 1)}${tag('endfilter')}`,
          () =>
            `${tag(`set v${pick(['', ' | upper', ' | trim | length'])}`)}${block(depth - 1)}${tag('endset')}{{ v }}`,
          () => `${tag('set ns = namespace(a=1, b=t)')}${tag(`set ns.a = ${expression(2)}`)}{{ ns.a }}{{ ns.c }}`,
          () => `${tag('generation')}${block(depth - 1)}${tag('endgeneration')}`,
          () =>
            `${tag('macro g(x)')}<{{ caller(x) }}>${tag('endmacro')}${tag(`call(y) g(${expression(1)})`)}${block(depth - 1)}{{ y }}${tag('endcall')}`,
          () => (loop ? tag(`${pick(['break', 'continue'])}`) : print(2)),
          () => `${tag(`print ${expression(1)}, ${expression(1)}`)}`,
        ])();
  return { template: () => (chance(0.5) ? print(3) : block(2)) + data(), context };
}

/** Renders templates with jinja2. @param {[template: string, context: any][]} cases @returns {{ text?: string, error?: string, long?: boolean }[]}  `long`: the text is too long to be compared */
export function renderWithPython(cases) {
  const { stdout, stderr, status } = spawnSync(PYTHON, ['-B', SCRIPT], {
    input: cases.map((entry) => JSON.stringify(entry)).join('\n'),
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  });
  if (status !== 0) throw new Error(`Python failed: ${stderr}`);
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** Random conversations with tools, calls, reasoning and content in parts, as values of a chat template. @param {number} seed @param {number} count @returns {Record<string, any>[]} */
export function conversations(seed, count) {
  const next = random(seed);
  const pick = (/** @type {any[]} */ list) => list[Math.floor(next() * list.length)];
  const chance = (/** @type {number} */ p) => next() < p;
  const text = () => `${pick(TEXTS)}${chance(0.2) ? `<|channel>thought\n${pick(TEXTS)}<channel|>` : ''}${pick(TEXTS)}`;
  /** @param {number} depth @returns {any} */
  const value = (depth) =>
    pick([
      () => pick(TEXTS),
      () => pick([0, 1, -3, 70917]),
      () => chance(0.5),
      () => (depth ? [value(depth - 1), value(depth - 1)] : []),
      () => (depth ? object(depth - 1) : {}),
    ])();
  const object = (/** @type {number} */ depth) =>
    Object.fromEntries(['b', 'A', 'name', 'c d'].filter(() => chance(0.5)).map((key) => [key, value(depth)]));
  const message = (/** @type {number} */ i) =>
    pick([
      () => ({ role: 'user', content: text() }),
      () => ({ role: 'user', content: [{ type: 'text', text: text() }, ...(chance(0.3) ? [{ type: 'image' }] : [])] }),
      () => ({ role: 'assistant', content: text(), ...(chance(0.4) && { reasoning_content: text() }) }),
      () => ({
        role: 'assistant',
        content: chance(0.5) ? '' : text(),
        ...(chance(0.5) && { reasoning: text() }),
        tool_calls: [{ id: `c${i}`, type: 'function', function: { name: 'f', arguments: object(2) } }],
      }),
      () => ({ role: 'tool', tool_call_id: `c${i - 1}`, ...(chance(0.5) && { name: 'f' }), content: text() }),
    ])();
  return Array.from({ length: count }, () => ({
    messages: Array.from({ length: 1 + Math.floor(next() * 6) }, (_, i) => message(i)),
    ...(chance(0.4) && { tools: [{ type: 'function', function: { name: 'f', parameters: object(2) } }] }),
    ...(chance(0.6) && { enable_thinking: chance(0.5) }),
    bos_token: '<bos>',
    add_generation_prompt: chance(0.7),
  }));
}

/**
 * Returns random templates with values, and the outputs of jinja2. A seed gives the same templates again.
 * @param {number} seed @param {number} count
 */
export function randomCases(seed, count) {
  const { template, context } = generator(seed);
  const cases = Array.from({ length: count }, () => ({ template: template(), context: context() }));
  const outputs = renderWithPython(cases.map((entry) => [entry.template, entry.context]));
  return cases.map((entry, i) => ({ ...entry, output: outputs[i] }));
}

/**
 * Compares random templates.
 * @param {number} seed @param {number} count
 * @returns {{ equal: number, refused: number, both: number, wrong: any[] }}  numbers of templates with equal texts, of those that only bq4
 *   refuses, of those that both refuse; `wrong`: the other ones
 */
export function compare(seed, count) {
  const result = { equal: 0, refused: 0, both: 0, wrong: /** @type {any[]} */ ([]) };
  for (const { output, ...entry } of randomCases(seed, count)) {
    const { text, error, long } = output;
    if (long) continue;
    let rendering = /** @type {string | null} */ (null);
    try {
      rendering = compile(entry.template)(entry.context, NOW);
      // Marking the texts of callers does not change the text.
      const marked = stringOf(prepare(entry.template)({}, entry.context, NOW));
      if (marked !== rendering) result.wrong.push({ ...entry, rendering, marked });
    } catch (/** @type {any} */ failure) {
      if (failure.code !== 'TEMPLATE') result.wrong.push({ ...entry, failure: String(failure.stack) });
    }
    if (rendering === null) result[text === undefined ? 'both' : 'refused']++;
    else if (rendering === text) result.equal++;
    else result.wrong.push({ ...entry, rendering, python: text ?? error });
  }
  return result;
}

/** Templates that do not end, or need too much time or memory. */
export const ENDLESS = [
  '{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}',
  '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}',
  '{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}',
  '{% set ns = namespace(t="aaaaaaaa") %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}',
  '{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = ns.a + ns.a %}{% endfor %}{{ ns.a }}',
  '{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a | tojson }}',
  '{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a == ns.a[0] }}{{ ns.a }}',
  '{{ range(10 ** 12) | list }}',
  "{{ 'a' * 10 ** 9 }}",
  "{{ 'ab' | replace('', 'x' * 4000000) | replace('x', 'y' * 4000000) }}",
  "{{ 'a' | indent(10 ** 9, true) }}",
  '{{ [1] | tojson(indent=10 ** 9) }}',
  "{{ '7'.zfill(10 ** 9) }}",
  '{{ range(1, 10, 0) }}',
  `{{ ${'('.repeat(50000)} }}`,
  `{{ ${'-'.repeat(100000)}1 }}`,
  `{{ ${'[1,'.repeat(50000)} }}`,
  `{% if x %}${' '.repeat(3000)}`,
  'x'.repeat(2 ** 18 + 1),
  `{{ a${'.a'.repeat(60000)} }}`,
];

/** Expensive operations on large values, which a malicious template could repeat. */
export const COSTLY = [
  'big == big2',
  'big < big2',
  'big in big2',
  'big[1:] == big2',
  'big[5]',
  'big[-1]',
  'big[::-1]',
  'big[::2]',
  'wide[100000]',
  'wide[-1]',
  'wide[5:7]',
  'wide | length',
  "big.split('a')",
  'spaces.split()',
  'spaces.rsplit()',
  'spaces.rsplit(none, 3)',
  'spaces.strip()',
  'spaces | trim',
  "big.strip('a')",
  "(spaces ~ 'a').rstrip('a')",
  "big.replace('a','bb')",
  "big.replace('', 'x')",
  "big.replace(half, 'x')",
  "big.find('b')",
  "big.find('b' ~ 'a' * 1000000)",
  "big.rfind('b' ~ 'a' * 1000000)",
  "big.count('aa')",
  "big.count('a' * 31 ~ 'b')",
  "('a' * 2000000 ~ 'b') in big",
  'big.startswith(big2)',
  'big.endswith(big2)',
  'list | join(big)',
  'list | join',
  'big.join(list)',
  'big * 2',
  "'a' * 8000000",
  '[1] * 8000000',
  'list * 80',
  'list + list',
  'list | sort',
  'list | unique | list',
  'list | max',
  'list | sum',
  'dict | dictsort',
  'dict | tojson',
  'list | tojson',
  'big | tojson',
  'big | escape',
  'lines | indent',
  'lines.splitlines()',
  'lines | wordcount',
  'big | title',
  'big.title()',
  'big | upper',
  'big | urlencode',
  'big | list',
  'big | reverse',
  'big | first',
  'big | last',
  'big | int',
  'big | float',
  "'1' * 4000000 | int",
  'big % ()',
  "('%s' * 100000) % (1,)",
  'big.format()',
  "('{}' * 1000000).format()",
  "list | map('upper') | list",
  'list | groupby(0) | list',
  'list | batch(1) | list',
  'list == nested[0]',
  'nested[0] < nested[1]',
  'nested == [list, list]',
  "'999x' in list",
  "list.index('999')",
  "list.count('1')",
  'list[1:]',
  'list[::-1]',
  'dict.items() | list',
  'dict.copy()',
  'dict == dict.copy()',
  'dict | string',
  'list | string',
  'big ~ big',
  'big + big2',
  "big.partition('b')",
  "big.rpartition('b')",
  'big.zfill(8000000)',
  'big.center(8000000)',
  "'%8000000s' % 1",
  "'%.400f' % 0.1",
  "'x' | indent(8000000, true)",
  '[[[1]]] | tojson(indent=1000000)',
  'range(100000) | list',
  "list | select('in', list) | list",
  "list | map('default', big) | join",
  'big.isalpha()',
  'big.isdigit()',
  'big | lower is lower',
  'big is lower',
  'namespace(dict)',
  'dict(dict)',
  "big | replace('a', big)",
  'loop.changed(big)',
  'loop.changed(list)',
  '{big: 1}[big2]',
  'dict[big]',
  'big.removeprefix(big2)',
  'list | random',
  '(big | safe) + big',
  '2 ** 40',
  '10 ** 10 ** 10',
  "'%d' % (10 ** 15)",
  '1e308 * 10',
  "list | map(attribute='0.0.0.0') | list",
];

/** The values of these operations. */
export function largeValues() {
  const big = 'a'.repeat(2 ** 22);
  const list = Array.from({ length: 100_000 }, (_, i) => String(i % 1000));
  return {
    big,
    big2: `${big.slice(1)}b`,
    spaces: ' '.repeat(2 ** 22),
    wide: '😀'.repeat(2 ** 20),
    lines: '\n'.repeat(2 ** 22),
    half: 'ab'.repeat(2 ** 20),
    list,
    dict: Object.fromEntries(list.map((x, i) => [`k${i}`, x])),
    nested: [list, list],
  };
}

/** The error message of a template that repeats an operation 10 million times; null if it ends without an error. @param {string} operation @param {Record<string, any>} values */
export function repeatOperation(operation, values) {
  const loops = '{% for i in range(100000) %}{% for j in range(100) %}';
  try {
    prepare(`${loops}{% set x = ${operation} %}{% endfor %}{% endfor %}`)({}, values);
  } catch (error) {
    return /** @type {any} */ (error).code === 'TEMPLATE'
      ? String(/** @type {any} */ (error).message)
      : String(/** @type {any} */ (error).stack);
  }
  return null;
}
