// Compares chat templates rendered by bq4 with Python's jinja2 (tests/templates/make_expected.py).
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ReasoningParser } from '../../js/api/chat/reasoning.js';
import { derive } from '../../js/text/templates/derive.js';
import { compile, prepare } from '../../js/text/templates/jinja.js';
import { COSTLY, ENDLESS, largeValues, repeatOperation } from './templates-suite.mjs';
import { fingerprint, formatNamed, FORMAT_NAMES, knownFormat } from '../../js/text/templates/known-formats.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const expected = JSON.parse(readFileSync(join(ROOT, 'tests/templates/expected.json'), 'utf8'));
const NOW = new Date(expected.now);

/** What jinja2 takes and ours refuses by name. */
const REFUSED = new Set(['{{ 12345678901234567890 }}']);

/** @param {string} source @param {Record<string, any>} context @returns {string | null} null: refused, as it must be by a typed error */
function rendered(source, context) {
  try {
    return compile(source)(context, NOW);
  } catch (error) {
    assert.equal(/** @type {any} */ (error).code, 'TEMPLATE', String(/** @type {any} */ (error).stack));
    return null;
  }
}

test(`${expected.cases.length} templates of our own give what jinja2 ${expected.jinja2} gives`, () => {
  const wrong = [];
  for (const { template, text, error } of expected.cases) {
    const ours = rendered(template, expected.context);
    if (ours !== (REFUSED.has(template) ? null : (text ?? null))) wrong.push({ template, ours, python: text ?? error });
  }
  assert.deepEqual(wrong, []);
});

/** Of the project's data, which is not part of the repository. */
const FOLDER = join(process.env.BQ4_SHARED ?? join(ROOT, '..', 'shared'), 'data/templates');

test('published templates render like jinja2', { skip: existsSync(FOLDER) ? false : `no ${FOLDER}` }, () => {
  const wrong = [];
  for (const [name, hash] of Object.entries(expected.shared)) {
    const [template, context] = name.split(' ');
    const ours = rendered(
      readFileSync(join(FOLDER, template), 'utf8'),
      JSON.parse(readFileSync(join(FOLDER, 'contexts', context), 'utf8')),
    );
    const output = ours === null ? 'error' : createHash('sha256').update(ours).digest('hex');
    if (output !== hash) wrong.push(name);
  }
  assert.deepEqual(wrong, []);
  assert.ok(Object.keys(expected.shared).length > 50);
});

test('an unknown filter or test is refused by the parser, except directly within an if, where only its use is an error', () => {
  const conditional = ['{{ x|nope }}', '{% set y = x is nope %}', '{% for a in b|nope %}{% endfor %}'];
  const scoped = [
    '{% for a in b %}{{ a|nope }}{% endfor %}',
    '{% for a in b if a is nope %}{% endfor %}',
    '{% macro m(a=1|nope) %}{% endmacro %}',
    '{% set y|nope %}{% endset %}',
    '{% filter nope %}{% endfilter %}',
    '{% with y = 1 %}{{ y|nope }}{% endwith %}',
    '{% call m() %}{{ x|nope }}{% endcall %}',
  ];
  const unknown = { code: 'TEMPLATE', message: /line 2: unknown (filter|test) "nope"/ };
  for (const part of [...conditional, ...scoped]) assert.throws(() => compile(`\n${part}`), unknown, part);
  for (const part of scoped) assert.throws(() => compile(`{% if x %}\n${part}{% endif %}`), unknown, part);
  for (const part of conditional) {
    const render = compile(`{% if x %}\n${part}{% endif %}`);
    assert.equal(render({ x: '' }), '', part);
    assert.throws(() => render({ x: 'x' }), { code: 'TEMPLATE', message: /: unknown (filter|test) "nope"/ }, part);
  }
  assert.equal(compile('{{ x|nope if x }}')({ x: '' }), '');
});

test('a template that does not end or takes too many steps is refused', () => {
  for (const source of ENDLESS) assert.equal(rendered(source, { x: 1 }), null, source.slice(0, 100));
});

test('the cost of an operation is counted: on large values, repeated, it is refused', () => {
  const values = largeValues();
  for (const operation of COSTLY.filter((_, i) => i % 9 === 0))
    assert.match(repeatOperation(operation, values) ?? 'no error', /^the chat template failed: /, operation);
});

test("text of a caller stays marked, whatever a template does with it; the template's own text is not marked", () => {
  const given = {
    t: '<|a|>',
    list: ['<|a|>', 'b'],
    dict: { '<|a|>': '<|b|>' },
    message: { role: 'user', content: ' <|a|> ' },
  };
  /** The rendering, with the parts of the caller in brackets. @param {string} source */
  const shown = (source) => {
    const rendering = prepare(source)({ own: '<|own|>' }, given, NOW);
    if (typeof rendering === 'string') return rendering;
    let [text, at] = ['', 0];
    for (let i = 0; i < rendering.callerRanges.length; i += 2) {
      text += `${rendering.value.slice(at, rendering.callerRanges[i])}«${rendering.value.slice(rendering.callerRanges[i], rendering.callerRanges[i + 1])}»`;
      at = rendering.callerRanges[i + 1];
    }
    return text + rendering.value.slice(at);
  };
  for (const [source, wanted] of Object.entries({
    '<|x|>{{ t }}<|y|>': '<|x|>«<|a|>»<|y|>',
    "{{ '<|x|>' + t + own }}": '<|x|>«<|a|>»<|own|>',
    "{{ '<|' ~ message.role ~ '|>' ~ message.content.strip() }}": '<|user|>«<|a|>»',
    "{% set x = '<|x|>' ~ t ~ ' ' %}{{ (x * 2) | trim }}": '<|x|>«<|a|>» <|x|>«<|a|>»',
    "{% macro m(v) %}<|x|>{{ v | upper }}{% endmacro %}{{ m(t).replace('x', 'y').lower() }}": '<|y|>«<|a|>»',
    "{% set b %}<|x|>{{ t[1:] }}{% endset %}{{ b.split('|>')[0] ~ b[4:] }}": '<|x>«|a|>»',
    '{{ list | join(own) }}': '«<|a|>»<|own|>«b»',
    '{{ dict }}{{ dict | tojson }}{{ list }}': "«{'<|a|>': '<|b|>'}{\"<|a|>\": \"<|b|>\"}['<|a|>', 'b']»",
    '{% for k, v in dict.items() %}{{ k }},{{ v }}{% endfor %}{{ dict | list | first }}': '«<|a|>»,«<|b|><|a|>»',
    "{{ '%s<|x|>%s' % (t, own) }}{{ '<|x|>{}'.format(t) }}": '«<|a|>»<|x|><|own|><|x|>«<|a|>»',
    '{% for c in t %}{{ c }}-{% endfor %}{{ t | reverse }}': '«<»-«|»-«a»-«|»-«>»-«>|a|<»',
    "{{ {'<|x|>': t} | tojson }}{{ ['<|x|>'] | tojson }}": '«{"<|x|>": "<|a|>"}»["<|x|>"]',
    "{{ t | escape }}{{ t | indent(2, true) }}{{ t.center(7, '-') }}": '«&lt;|a|&gt;»  «<|a|>»-«<|a|>»-',
    "{{ 'a number in [0, 1)' | tojson(ensure_ascii=true) }}{{ t | tojson(ensure_ascii=true) }}":
      '"a number in [0, 1)"«"<|a|>"»',
    '{{ t | length }}{{ t == "<|a|>" }}{{ "|" in t }}{{ t is string }}': '5TrueTrueTrue',
    '{{ {t: 1} }}{% set d = {t: own} %}{% for k in d %}{{ k }}{{ d[k] }}{% endfor %}': "«{'<|a|>': 1}<|a|>»<|own|>",
  }))
    assert.equal(shown(source), wanted, source);
});

test('errors of templates name their cause', () => {
  const refuses = (/** @type {string} */ source, /** @type {RegExp} */ text) =>
    assert.throws(() => compile(source)({}), text);
  refuses("{{ raise_exception('Only user and assistant') }}", /Only user and assistant/);
  refuses('{{ functions + 1 }}', /'functions' is undefined/);
  refuses('{{ {}.a.b }}', /attribute a.*is undefined/);
  refuses('{{ 1 | frobnicate }}', /line 1: unknown filter "frobnicate"/);
  refuses('{% include "/etc/passwd" %}', /can't be parsed/);
  refuses("{{ ''.__class__.__mro__ }}", /undefined/);
  refuses('{{ [].constructor.constructor("return 1")() }}', /undefined/);
  refuses(
    '{{ range.constructor }}{{ range.constructor("x")() }}',
    /members of functions are not supported: "constructor"/,
  );
  refuses('a\n{{ b', /line 2: expected the end of the tag, found the end of the template/);
  refuses('{% for a in b %}', /expected {% endfor %} or {% else %}, found the end of the template/);
  refuses("{% extends 'a' %}", /{% extends %} is not supported/);
  refuses('{{ 9007199254740993 }}', /beyond 2\^53/);
  refuses("{{ 'a'.encode() }}", /str.encode is not supported/);
  refuses('{{ [1] | random }}', /the filter "random" is not supported/);
  refuses('{{ 5 .real == 5 }}', /int.real is not supported/);
  refuses('{{ self }}', /can't print a value of type function/);
});

/** Of templates of others that are known: their BOS and what ends a turn. */
const TOKENS = {
  'Qwen-Qwen2.5-7B-Instruct': ['<|endoftext|>', '<|im_end|>'],
  'google-gemma-2-2b-it': ['<bos>', '<end_of_turn>'],
  'meta-llama-Llama-3.1-8B-Instruct': ['<|begin_of_text|>', '<|eot_id|>'],
  'meta-llama-Llama-3.3-70B-Instruct': ['<|begin_of_text|>', '<|eot_id|>'],
  'microsoft-Phi-3.5-mini-instruct': ['<s>', '<|end|>'],
  'mistralai-Mistral-Nemo-Instruct-2407': ['<s>', '</s>'],
};

test(
  'templates that are known have the compact form that rendering finds',
  { skip: existsSync(FOLDER) ? false : `no ${FOLDER}` },
  () => {
    for (const [name, [bos, eos]] of Object.entries(TOKENS)) {
      const template = readFileSync(join(FOLDER, `${name}.jinja`), 'utf8');
      assert.ok(knownFormat(template), `${name}: ${fingerprint(template)}`);
      assert.deepEqual(knownFormat(template), derive(template, { bos, eos, ends: [eos] }), name);
    }
  },
);

/** Templates of our own that say the same as formats of a name. */
const SAME = {
  chatml:
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}',
  'llama-2': `{% set ns = namespace(lead='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.lead = '<<SYS>>\\n' ~ m.content ~ '\\n<</SYS>>\\n\\n' %}
{% elif m.role == 'user' %}{{ bos_token ~ '[INST] ' ~ (ns.lead ~ m.content).strip() ~ ' [/INST]' }}{% set ns.lead = '' %}{% else %}{{ ' ' ~ m.content.strip() ~ ' ' ~ eos_token }}{% endif %}{% endfor %}`,
  'llama-3':
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>{% endfor %}<|start_header_id|>assistant<|end_header_id|>{{ '\\n\\n' }}",
  mistral:
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% elif m.role == 'assistant' %}{{ m.content + eos_token }}{% else %}{{ raise_exception('no') }}{% endif %}{% endfor %}",
  zephyr:
    '{% for m in messages %}<|{{ m.role }}|>\n{{ m.content + eos_token }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}',
};

test('the compact form of a template is found by rendering, if it has one', () => {
  const ends = { chatml: '<|im_end|>', 'llama-3': '<|eot_id|>' };
  for (const [name, template] of Object.entries(SAME)) {
    const end = ends[/** @type {keyof typeof ends} */ (name)] ?? '</s>';
    assert.deepEqual(derive(template, { bos: '<s>', eos: '</s>', ends: [end] }), formatNamed(name), name);
  }
  assert.ok(FORMAT_NAMES.length > 8);
  for (const template of [
    "{{ strftime_now('%d %b') }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}<assistant>",
    "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}</>{% endfor %}<assistant>",
    '{% for m in messages %}<{{ m.role }}>{{ m.content | upper }}</>{% endfor %}<assistant>',
    '{% for m in messages %}<{{ m.role }}{{ loop.index }}>{{ m.content }}</>{% endfor %}<assistant>',
    '{{ messages | length }}',
    "{{ raise_exception('no') }}",
    'hello',
  ])
    assert.equal(derive(template, { bos: '<s>', eos: '</s>' }), null, template);
});

/** @param {ReasoningParser | null} thinking @param {string[]} texts */
async function thought(thinking, texts) {
  const report = { text: '', reasoning: '' };
  const run = (async function* () {
    for (const [id, text] of texts.entries()) yield { token: id, text };
  })();
  for await (const { text, reasoning = '' } of /** @type {ReasoningParser} */ (thinking).parts(run)) {
    report.text += text;
    report.reasoning += reasoning;
  }
  const { text, reasoning } = /** @type {ReasoningParser} */ (thinking).result(/** @type {any} */ ({}), Infinity);
  assert.deepEqual({ text, reasoning }, report);
  return [report.reasoning, report.text];
}

/** A model without special tokens. */
const spells = { encode: () => [], specialText: () => null };

test('reasoning is separated from the reply for any split of the marks into tokens', async () => {
  const all = '\n<think>\nTwo < three, </thin or so.\n</think>\n\nThe <think> answer.';
  const wanted = ['Two < three, </thin or so.\n', 'The <think> answer.'];
  for (let n = 1; n < all.length; n++) {
    const texts = Array.from({ length: Math.ceil(all.length / n) }, (_, i) => all.slice(i * n, (i + 1) * n));
    assert.deepEqual(
      await thought(ReasoningParser.forPrompt(undefined, 'x <think> y', 'assistant\n', spells), texts),
      wanted,
      String(n),
    );
  }
  const of = (prompt) => ReasoningParser.forPrompt(undefined, '<think>', prompt, spells);
  assert.deepEqual(await thought(of('<think>\n'), ['hm', '</think>', ' yes']), ['hm', 'yes']);
  assert.deepEqual(await thought(of('<think>\n\n</think>\n\n'), ['yes']), ['', 'yes']);
  assert.deepEqual(await thought(of(''), [' plain ', '<think>']), ['', ' plain <think>']);
  assert.deepEqual(await thought(of(''), ['<thi']), ['', '<thi']);
  assert.deepEqual(await thought(of(''), ['<think>never', ' ends</']), ['never ends</', '']);
  assert.equal(ReasoningParser.forPrompt(undefined, 'no marks', '', spells), null);
});
