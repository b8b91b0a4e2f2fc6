// Compares random templates rendered by bq4 with Python's jinja2 (tests/js/templates-suite.mjs).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compile } from '../../js/text/templates/jinja.js';
import { compare, conversations, hasJinja, renderWithPython } from './templates-suite.mjs';

const SEED = Number(process.env.BQ4_SEED ?? 20261126);

test(
  '4,000 random templates give what jinja2 gives, or are refused',
  { skip: hasJinja ? false : 'Python has no jinja2' },
  (t) => {
    const { equal, refused, both, wrong } = compare(SEED, 4000);
    t.diagnostic(`seed ${SEED}: ${equal} equal, ${both} refused by both, ${refused} by ours alone`);
    assert.deepEqual(wrong, [], `BQ4_SEED=${SEED} makes these again`);
    assert.ok(equal > 1500 && refused < equal / 20, `${refused} of ${equal + refused} are refused`);
  },
);

/**
 * A template with the means of Gemma 4's, none of its text: macros that call themselves, sorted names, namespaces that loops write to,
 * looks ahead and back in the messages, reasoning that is cut out of older replies, marks that contain braces and bars.
 */
const NOTATION = `{%- macro noted(value, quotes=True) -%}
  {%- if value is string -%}{{- '<|"|>' + value + '<|"|>' -}}
  {%- elif value is boolean -%}{{- 'true' if value else 'false' -}}
  {%- elif value is mapping -%}{{- '{' -}}
    {%- set seen = namespace(any=false) -%}
    {%- for name, inner in value | dictsort -%}
      {%- if seen.any %},{% endif -%}{%- set seen.any = true -%}
      {{- ('<|"|>' + name + '<|"|>') if quotes else name -}}:{{- noted(inner, quotes=quotes) -}}
    {%- endfor -%}{{- '}' -}}
  {%- elif value is sequence -%}{{- '[' -}}
    {%- for inner in value -%}{{- noted(inner, quotes) -}}{%- if not loop.last %},{% endif -%}{%- endfor -%}{{- ']' -}}
  {%- else -%}{{- value -}}{%- endif -%}
{%- endmacro -%}
{%- macro spoken(text) -%}
  {%- set kept = namespace(text='') -%}
  {%- for part in text.split('<channel|>') -%}
    {%- set kept.text = kept.text + (part.split('<|channel>')[0] if '<|channel>' in part else part) -%}
  {%- endfor -%}
  {{- kept.text | trim -}}
{%- endmacro -%}
{{- bos_token -}}
{%- set state = namespace(last=-1, open=false) -%}
{%- for i in range(messages | length) -%}{%- if messages[i]['role'] == 'user' -%}{%- set state.last = i -%}{%- endif -%}{%- endfor -%}
{%- if tools or (enable_thinking is defined and enable_thinking) -%}
  {{- '<|turn>system\n' -}}{{- '<|think|>\n' if enable_thinking | default(false) -}}
  {%- for tool in tools or [] %}{{- '<|tool>' -}}{{- noted(tool['function'], false) | upper | trim -}}{{- '<tool|>' -}}{%- endfor %}
  {{- '<turn|>\n' -}}
{%- endif %}
{%- for message in messages -%}
  {%- if message['role'] != 'tool' -%}
    {%- set before = namespace(role=none) -%}
    {%- for j in range(loop.index0 - 1, -1, -1) -%}
      {%- if before.role is none and messages[j]['role'] != 'tool' -%}{%- set before.role = messages[j]['role'] -%}{%- endif -%}
    {%- endfor -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {%- if not (role == 'model' and before.role == 'assistant') %}{{- '<|turn>' + role + '\n' }}{% endif -%}
    {%- set thought = message.get('reasoning') or message.get('reasoning_content') -%}
    {%- if thought and loop.index0 > state.last %}{{- '<|channel>thought\n' + thought + '\n<channel|>' -}}{% endif -%}
    {%- for call in message['tool_calls'] or [] -%}
      {{- '<|tool_call>call:' + call['function']['name'] + noted(call['function']['arguments'], quotes=False) + '<tool_call|>' -}}
      {%- for k in range(loop.index0 + 1, messages | length) -%}
        {%- if messages[k].get('tool_call_id') == call.get('id') -%}
          {{- '<|tool_response>' ~ (messages[k].get('name') | default('unknown', true)) ~ '{value:' ~ noted(messages[k]['content']) ~ '}' -}}
          {%- set state.open = true -%}
        {%- endif -%}
      {%- endfor -%}
    {%- endfor -%}
    {%- if message['content'] is string -%}{{- spoken(message['content']) if role == 'model' else message['content'] | trim -}}
    {%- elif message['content'] is sequence -%}
      {%- for item in message['content'] -%}
        {%- if item['type'] == 'text' %}{{- item['text'] | trim -}}{% else %}{{- '<|' + item['type'] + '|>' -}}{% endif -%}
      {%- endfor -%}
    {%- endif -%}
    {%- if not state.open %}{{- '<turn|>\n' -}}{% endif -%}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{- '<|turn>model\n' -}}{%- if not enable_thinking | default(false) -%}{{- '<|channel>thought\n<channel|>' -}}{%- endif -%}{% endif -%}`;

test(
  'a template with macros, namespaces and a notation of its own, as Gemma 4’s has them: 500 random conversations',
  { skip: hasJinja ? false : 'Python has no jinja2' },
  () => {
    const contexts = conversations(SEED, 500);
    const python = renderWithPython(contexts.map((context) => [NOTATION, context]));
    const render = compile(NOTATION);
    for (const [i, context] of contexts.entries())
      assert.equal(render(context), python[i].text ?? python[i].error, `BQ4_SEED=${SEED}, conversation ${i}`);
    assert.ok(new Set(python.map(({ text }) => text)).size > 450);
  },
);
