// Short chat templates with the syntax of the templates of LFM2 and Gemma 4, and their special tokens.

/** A template of LFM2. @param {string} system  expression of the text that lists the tools @param {string} content  template of a message */
const lfm2 = (system, content) =>
  `{% if tools %}{{ '<|im_start|>system\\n' + ${system} + '<|im_end|>\\n' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}${content}{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}`;
/** Macros of calls in Python's syntax, as newer templates have them; texts are not escaped. @param {string} quote */
const pythonCalls = (quote) =>
  `{% macro shown(v) %}{% if v is string %}{{ "${quote}" + v + "${quote}" }}{% elif v is mapping %}{{ v | tojson }}{% else %}{{ v | string }}{% endif %}{% endmacro %}{% macro calls(all) %}{% set ns = namespace(all=[]) %}{% for c in all %}{% set one = namespace(all=[]) %}{% for k, v in c.function.arguments.items() %}{% set one.all = one.all + [k + '=' + shown(v)] %}{% endfor %}{% set ns.all = ns.all + [c.function.name + '(' + (one.all | join(', ')) + ')'] %}{% endfor %}{{ '<|tool_call_start|>[' + (ns.all | join(', ')) + ']<|tool_call_end|>' }}{% endmacro %}`;
const jsonCalls = `{% if m.tool_calls %}<|tool_call_start|>[{% for c in m.tool_calls %}{{ ', ' if not loop.first }}{{ '{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}' }}{% endfor %}]<|tool_call_end|>{% endif %}`;

/** A template of Gemma 4. @param {string} results  template of the results after calls @param {string} end  of a turn @param {string} prompt  condition under which the prompt starts a turn of the model */
const gemma4 = (results, end, prompt) =>
  `{% macro noted(v) %}{% if v is string %}{{ '<|"|>' + v + '<|"|>' }}{% elif v is boolean %}{{ 'true' if v else 'false' }}{% elif v is mapping %}{{ '{' }}{% for k, x in v | dictsort %}{{ ',' if not loop.first }}{{ k }}:{{ noted(x) }}{% endfor %}{{ '}' }}{% elif v is sequence %}{{ '[' }}{% for x in v %}{{ ',' if not loop.first }}{{ noted(x) }}{% endfor %}{{ ']' }}{% else %}{{ v }}{% endif %}{% endmacro %}{% macro response(name, v) %}{{ '<|tool_response>response:' + name + (noted(v) if v is mapping else '{value:' + noted(v) + '}') + '<tool_response|>' }}{% endmacro %}{% set ns = namespace(last='', told=false) %}{% if tools %}<|turn>system\n{% for t in tools %}{{ '<|tool>declaration:' + t.function.name + noted(t.function.parameters or {}) + '<tool|>' }}{% endfor %}<turn|>\n{% endif %}{% for m in messages %}${results}{% if add_generation_prompt and ${prompt} %}{{ '<|turn>model\\n' }}{% endif %}{% if add_generation_prompt and not enable_thinking %}{{ '<|channel>thought\\n<channel|>' }}{% endif %}`.replace(
    'END',
    end,
  );
const gemmaCalls = `{% for c in m.tool_calls or [] %}{{ '<|tool_call>call:' + c.function.name + noted(c.function.arguments) + '<tool_call|>' }}{% set ns.last = 'call' %}{% endfor %}`;

export const TEMPLATES = {
  lfm2: lfm2(
    "'List of tools: <|tool_list_start|>' + (tools | tojson) + '<|tool_list_end|>'",
    "{% set content = m.content %}{% if content is not string %}{% set content = content | tojson %}{% endif %}{% if m.role == 'tool' %}{% set content = '<|tool_response_start|>' + content + '<|tool_response_end|>' %}{% endif %}{{ content }}",
  ),
  'lfm2.5':
    pythonCalls("'") +
    lfm2(
      "'Today: ' + strftime_now(\"%Y\") + 'List of tools: ' + (tools | tojson)",
      '{% generation %}{{ m.content }}{% if m.tool_calls is defined %}{{ calls(m.tool_calls) }}{% endif %}{% endgeneration %}',
    ),
  'lfm2.5, calls first':
    pythonCalls('\\"') +
    lfm2(
      "'List of tools: ' + (tools | tojson)",
      '{% if m.tool_calls is defined %}{{ calls(m.tool_calls) }}{% endif %}{{ m.content }}',
    ),
  'lfm2, in JSON': lfm2("'List of tools: ' + (tools | tojson)", `${jsonCalls}{{ m.content or '' }}`),
  'gemma4, results apart': gemma4(
    `{% if m.role != 'tool' %}{% set ns.last = '' %}{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}${gemmaCalls}{% set ns.told = false %}{% if m.tool_calls %}{% for r in messages[loop.index:] %}{% if r.role == 'tool' %}{% for c in m.tool_calls %}{% if c.id == r.tool_call_id %}{{ response(c.function.name, r.content) }}{% set ns.last = 'response' %}{% set ns.told = true %}{% endif %}{% endfor %}{% endif %}{% endfor %}{% endif %}{{ m.content or '' }}{% if ns.last == 'call' %}<|tool_response>{% elif not ns.told %}<turn|>\n{% endif %}{% endif %}{% endfor %}`,
    '',
    "ns.last not in ['call', 'response']",
  ),
  'gemma4, results joined': gemma4(
    `{% set ns.last = '' %}{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}${gemmaCalls}{% for r in m.tool_responses or [] %}{{ response(r.name, r.response) }}{% set ns.last = 'response' %}{% endfor %}{{ m.content or '' }}{% if not (m.tool_responses and not m.content) %}<turn|>\n{% endif %}{% endfor %}`,
    '',
    "ns.last != 'response'",
  ),
};

const MARKS = [
  ...['<|im_start|>', '<|im_end|>', '<|tool_list_start|>', '<|tool_list_end|>', '<|tool_call_start|>'],
  ...['<|tool_call_end|>', '<|tool_response_start|>', '<|tool_response_end|>'],
];
const GEMMA_MARKS = [
  ...['<|turn>', '<turn|>', '<|tool>', '<tool|>', '<|tool_call>', '<tool_call|>', '<|tool_response>'],
  ...['<tool_response|>', '<|channel>', '<channel|>', '<|"|>'],
];
export const ENDS = ['<|im_end|>', '<turn|>', '<|tool_response>'];
/** @param {string} name */
export const marksOf = (name) => (name.startsWith('gemma') ? GEMMA_MARKS : MARKS);
