// Short chat templates with the syntax of the templates of LFM2, Gemma 4, OLMo 3, Llama 4 and InternLM2, and their special tokens.

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

/** OLMo 3's calls, each on a line; results are from the environment. */
const olmo3 = `{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nHelp. <functions>' + (tools | tojson if tools else '') + '</functions><|im_end|>\n' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + ('environment' if m.role == 'tool' else m.role) + '\n' + (m.content or '') }}{% if m.role == 'system' and tools %}{{ '<functions>' + (tools | tojson) + '</functions>' }}{% endif %}{% if m.get('tool_calls', none) is not none %}<function_calls>{% for c in m.tool_calls %}{% set ns = namespace(all=[]) %}{% for k, v in c.function.arguments.items() %}{% set ns.all = ns.all + [k ~ '=' ~ (v | tojson)] %}{% endfor %}{{ ('' if loop.first else '\n') + c.function.name + '(' + (ns.all | join(', ')) + ')' }}{% endfor %}</function_calls>{% endif %}{{ eos_token if loop.last and not add_generation_prompt else '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}`;
/** Llama 3.2's and Llama 4's lists of calls in Python. @param {string} value  an argument `v` as it is written */
const pythonic = (value) =>
  `{% if tools %}{{ '<|header_start|>system<|header_end|>\n\nWrite [f(a=1), g(b=2)].' + (tools | tojson) + '<|eot|>' }}{% endif %}{% for m in messages %}{{ '<|header_start|>' + ('ipython' if m.role == 'tool' else m.role) + '<|header_end|>\n\n' + (m.content or '') }}{% if m.tool_calls %}[{% for c in m.tool_calls %}{{ c.function.name + '(' }}{% for k in c.function.arguments %}{% set v = c.function.arguments[k] %}{{ k + '=' + ${value} }}{% if not loop.last %}, {% endif %}{% endfor %}){% if not loop.last %}, {% endif %}{% endfor %}]{% endif %}<|eot|>{% endfor %}{% if add_generation_prompt %}{{ '<|header_start|>assistant<|header_end|>\n\n' }}{% endif %}`;
/** InternLM2's calls. @param {string} given  the arguments as they are written */
const internlm2 = (given) =>
  `{% if tools is not none %}{{ '<|im_start|>system name=<|plugin|>\n' + (tools | map(attribute='function') | list | tojson) + '<|im_end|>\n' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + ('environment name=<|plugin|>' if m.role == 'tool' else m.role) + '\n' + (m.content or '') }}{% for c in m.tool_calls or [] %}{{ '<|action_start|><|plugin|>\n{"name": "' + c.function.name + '", "parameters": ' + ${given} + '}<|action_end|>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}`;

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
  olmo3,
  'pythonic, as JSON': pythonic('(v | tojson)'),
  'pythonic, in quotes without escapes': pythonic("'\"' + ('%s' | format(v)) + '\"'"),
  'pythonic, without quotes': pythonic("('%s' | format(v))"),
  internlm2: internlm2('(c.function.arguments | tojson)'),
  'internlm2, as it is given': internlm2('(c.function.arguments | string)'),
};

const MARKS = [
  ...['<|im_start|>', '<|im_end|>', '<|tool_list_start|>', '<|tool_list_end|>', '<|tool_call_start|>'],
  ...['<|tool_call_end|>', '<|tool_response_start|>', '<|tool_response_end|>'],
];
const GEMMA_MARKS = [
  ...['<|turn>', '<turn|>', '<|tool>', '<tool|>', '<|tool_call>', '<tool_call|>', '<|tool_response>'],
  ...['<tool_response|>', '<|channel>', '<channel|>', '<|"|>'],
];
const OLMO_MARKS = [
  '<|im_start|>',
  '<|im_end|>',
  '<functions>',
  '</functions>',
  '<function_calls>',
  '</function_calls>',
];
const LLAMA_MARKS = ['<|header_start|>', '<|header_end|>', '<|eot|>'];
const INTERNLM_MARKS = ['<|im_start|>', '<|im_end|>', '<|plugin|>', '<|action_start|>', '<|action_end|>'];
export const ENDS = ['<|im_end|>', '<turn|>', '<|tool_response>', '<|eot|>'];
const MARKS_BY_NAME = { gemma: GEMMA_MARKS, olmo: OLMO_MARKS, pythonic: LLAMA_MARKS, internlm: INTERNLM_MARKS };
/** @param {string} name @returns {string[]} */
export const marksOf = (name) =>
  Object.entries(MARKS_BY_NAME).find(([beginning]) => name.startsWith(beginning))?.[1] ?? MARKS;
