"""Writes expected.json: what Python's jinja2, with the settings of transformers, makes of the templates below, and the
SHA-256 of what it makes of those in a folder (shared/data/templates). Run by hand:
    python tests/templates/make_expected.py [FOLDER]
Needs jinja2 and nothing else. The settings: transformers/utils/chat_template_utils.py."""
import datetime
import hashlib
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 7, 9, 5, 2)

CONTEXT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "  Hello <|im_end|> \"there\" & 'you'\n"},
        {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nHi!", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": [True, None, 1.5, "é\"'"]}}}]},
        {"role": "tool", "name": "f", "content": "{\"x\": 1}"},
        {"role": "user", "content": "नमस्ते 👋 Ünïcödé"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": "D", "parameters": {"type": "object", "properties": {}}}}],
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True,
    "n": 3, "z": 0, "x": 2.5, "small": 0.00001, "none_value": None, "empty": "", "yes": True,
    "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "dict": {"b": 1, "a": {"c": [1, 2]}}, "text": "The quick brown fox",
}

EXPRESSIONS = r"""
n + 1; n - 5; n * 2; n / 2; n // 2; -n // 2; n % 2; -n % 2; n ** 2; 2 ** -1; x * 2; x + 0.5; 7 / 7; 1e3; -x; +n; 5.0 // 2; 0.1 + 0.2
small; 1.0; 100000.0; 12345678901234567890; true; none; [1, 2.0, 'a', none, true]; (1, 2); (1,); {'a': 1, 'b': [none]}; {}; []; ''
"it's"; 'say "x"'; ["it's", 'a"b', "a'b\"c", "\n\t\\"]; 'tab\there'; "\x41\u00e9"
1 == 1.0; 1 == true; 1 == '1'; none == false; [] == []; [1, [2]] == [1, [2]]; {'a': 1} == {'a': 1.0}; (1, 2) == [1, 2]; 'a' < 'b'; [1, 2] < [1, 3]; 1 < 2.5; nope == nothing; nope == none
not n; not z; not empty; not none_value; n and z; z or n; z or '' or none; n if yes else z; n if z; 'a' if z else 'b' if z else 'c'
'quick' in text; 'slow' not in text; 2 in list; 'b' in dict; none in [none]; 'x' in nope; not 'a' in 'abc'
text ~ n ~ none ~ yes ~ x; 'a' 'b'; 'ab' * 3; [1] * 2; [1] + [2]; 'a' + 1; 1 + 'a'; none + 1; 'a' + none; nope + 'a'
text[0]; text[-1]; text[1:5]; text[::-1]; text[:3]; text[-3:]; list[1:]; list[::2]; list[-1]; list[10]; text[100]; messages[1:][0].role; messages[-1]['role']
messages[0].content; messages[0]['content']; messages[0].nope; messages[0].nope.x; messages[0]['nope']; nope; nope.x; nope['x']; nope(); nope[0]
dict.a.c[1]; dict['a']['c'][0]; dict.items(); dict.keys() | list; dict.values() | list; dict.get('b'); dict.get('zz'); dict.get('zz', 5); dict.get('zz') is none
messages | length; text | length; dict | length; 'é👋' | length; n | length; none | length; nope | length
text | upper; text | lower; text | title; text | capitalize; text.upper(); text.lower(); text.title(); text.capitalize(); "it's o'clock" | title; "it's o'clock".title(); 'aB'.swapcase()
messages[1].content | trim; messages[1].content.strip(); ' a '.lstrip() ~ '|'; ' a '.rstrip() ~ '|'; 'xxaxx'.strip('x'); 'xyax'.lstrip('xy'); '--a--' | trim('-'); '\n\t a \n'.strip()
text.split(); text.split(' '); text.split('quick'); text.split(' ', 1); '  a  b  c '.split(); '  a  b  c '.split(none, 1); 'a,b,c'.rsplit(',', 1); 'a b c'.rsplit(); ' a b c '.rsplit(none, 1); 'a,,b'.split(','); ''.split(','); ''.split(); 'a\nb\r\nc\n'.splitlines(); 'a'.split('')
text.replace('quick', 'slow'); 'aaa'.replace('a', 'b', 2); 'abc'.replace('', '-'); text | replace('o', '0'); 'aaa' | replace('a', 'b', 1); 'aaa' | replace('a', 'b', count=1); 'a.b'.replace('.', '\\')
text.startswith('The'); text.endswith('fox'); text.startswith(('a', 'T')); text.find('q'); text.find('zz'); text.count('o'); 'é👋a'.find('a'); 'abab'.count('ab')
'a-b'.partition('-'); 'ab'.partition('-'); 'a-b-c'.rpartition('-'); 'abc'.removeprefix('a'); 'abc'.removesuffix('bc'); '-'.join(['a', 'b']); '-'.join([1]); '7'.zfill(3)
'{} and {}'.format(1, 'b'); '{0}{1}{0}'.format('a', 'b'); '{x}'.format(x=none); '%s is %d' % ('a', 3); '%s' % 'a'; '%s-%s' | format(1, 2); '%(a)s' % {'a': 1}
'12'.isdigit(); ''.isdigit(); 'ab'.isalpha(); 'ab1'.isalnum(); ' '.isspace(); 'AB'.isupper(); 'ab'.islower(); '1'.isupper()
list | sort; list | sort(reverse=true); words | sort; words | sort(case_sensitive=true); messages | sort(attribute='role') | map(attribute='role') | list; list | first; list | last; [] | first; list | max; list | min; list | sum; [1, 2.5] | sum; words | max; list | reverse | list; text | reverse; words | unique | list; [1, 1.0, true, 2] | unique | list
list | join(', '); words | join; messages | join(', ', attribute='role'); [1, none, true] | join('-'); 'abc' | join('-'); 'abc' | list; dict | list; list | string; dict | string; none | string; n | string
dict | dictsort; {'b': 1, 'A': 2} | dictsort; {'b': 1, 'a': 2} | dictsort(by='value'); dict | items | list; messages | map(attribute='content') | list | length; messages | map(attribute='name', default='-') | join(','); words | map('upper') | list; [' a '] | map('trim') | list; list | map('string') | join('+')
messages | selectattr('role', 'equalto', 'user') | list | length; messages | selectattr('role', '==', 'user') | map(attribute='role') | join; messages | rejectattr('role', 'in', ['user', 'tool']) | map(attribute='role') | list; messages | selectattr('tool_calls', 'defined') | list | length; messages | selectattr('name') | list | length; list | select('odd') | list; list | reject('equalto', 2) | list; list | select('gt', 1) | list; [0, 1, ''] | select | list; none | selectattr('a') | list
messages | groupby('role') | map(attribute='grouper') | list; messages | groupby('role') | map('first') | list; list | batch(2) | list; list | batch(2) | map('list') | list
n | default(5); nope | default(5); nope | default('a'); empty | default('d', true); none | default('d'); none | default('d', true); nope | d('x'); empty | default('q', boolean=true); nope | default
'3' | int; 'x' | int; 'x' | int(7); 3.9 | int; '3.7' | int; true | int; none | int; '2.5' | float; 'x' | float; 3 | float; 2.5 | round; 3.456 | round(2); 2.4 | round | int; 2.1 | round(0, 'ceil'); -3 | abs; -2.5 | abs
dict | tojson; messages[2].tool_calls | tojson; messages[2].tool_calls | tojson(indent=2); dict | tojson(indent=4); [] | tojson(indent=2); {'b': 1, 'a': [{}]} | tojson(sort_keys=true, indent=1); 'é<>&"\n' | tojson; 'é👋' | tojson(ensure_ascii=true); none | tojson; x | tojson; 1.0 | tojson; dict | tojson(separators=(',', ':')); nope | tojson; {1: 2} | tojson; '\u2028\x7f' | tojson; list | map('string') | tojson
'<a href="x">' | escape; '<b>' | safe; '<b>' | e ~ '<i>'; ('<b>' | safe) + '<i>&'; '<b>' | safe | upper; 'a b/c?é' | urlencode; text | wordcount; 'a\nb\n\nc' | indent; 'a\nb\n\nc' | indent(2, true); 'a\n\nb' | indent(2, blank=true); 'a\nb' | indent(width=1); 'a\nb' | indent('> ')
n is defined; nope is defined; nope is not defined; nope is undefined; messages[0].nope is defined; none is none; n is not none; n is number; x is float; n is integer; x is integer; yes is boolean; yes is integer; n is odd; n is even; text is string; list is string; list is iterable; text is iterable; dict is mapping; list is mapping; list is sequence; dict is sequence; text is sequence; n is iterable; nope is iterable; yes is true; n is true; z is false; 'a' is lower; 'A' is upper; range is callable
range(3) | list; range(1, 4) | list; range(5, 0, -2) | list; range(0) | list; dict(a=1, b=2); namespace(a=1).a; namespace().b; strftime_now('%d %b %Y'); strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %y %I %p %%'); strftime_now('%-d %-m')
raise_exception('no'); messages.append(1); dict.update({}); dict.pop('a'); list.index(1); list.count(1); list.index(9); text.__class__; dict.__class__; nope | nofilter; n is notest; 1 / 0; list | join(1); foo.bar; text.nope; text.nope is defined; n.x; none.x; none['x']; none is defined; [1, 2].x is defined
(n, z)[0]; (list | sort)[0]; (text | upper).lower(); messages[0]['content'][0:2]; [[1, 2], [3]][0][1]; {'a': {'b': 5}}['a'].b; ([1] + [2]) | length; n > 1 and x < 3 or z; not (n > 5); n == 3 == true; -n | abs; (1 if z else 2) + 1; 'a' ~ 1 + 2; 2 * 3 + 4 * 5; 10 - 2 - 3; 'x' if n is defined and n > 2 else 'y'; loop is defined; 1 < 2 < 3; (1, 'a') + (2,); [1, 2, 3][-2:] | join; none or 'x'; 'a' in ['a', 'b'] and 'yes'
"""

BLOCKS = [
    "{% for m in messages %}{{ loop.index }}/{{ loop.length }}:{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.revindex0 }}{% else %}none{% endfor %}",
    "{% for m in nope %}a{% else %}b{% endfor %}|{% for c in 'aé👋' %}{{ c }}.{% endfor %}|{% for k in dict %}{{ k }}{% endfor %}",
    "{% for m in none_value %}a{% endfor %}",
    "{% for m in 5 %}a{% endfor %}",
    "{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in dict | items %}{{ k }}{% endfor %}{% for a, b in [(1, 2), [3, 4]] %}{{ a + b }} {% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% set x = 1 %}{% for i in range(3) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1, found=false) %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.found }}",
    "{% if yes %}{% set q = 5 %}{% endif %}{{ q }}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.changed(i // 2) }}{% endfor %}",
    "{% for i in range(2) %}{% for j in range(2) %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% macro m(a, b='x', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(a=3, c=4) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro m(x) %}{{ x }}{{ caller('c') }}{% endmacro %}{% call(v) m('a') %}<{{ v }}>{% endcall %}",
    "{% set q = 1 %}{% macro m() %}{{ q }}{% endmacro %}{% for q in [2] %}{{ m() }}{% endfor %}",
    "{% set block %}  a {{ n }}\n{% endset %}[{{ block }}]{{ block | trim }}{{ block | length }}",
    "{% filter upper %}abc{{ text }}{% endfilter %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}",
    "{% set list = list + [4] %}{{ list }}{% set messages = messages[1:] %}{{ messages | length }}",
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n",
    "a  {%- if yes -%}  b  {%- endif -%}  c",
    "a\n\n{{ n }}\n\nb {# comment #}\nc\n  {# comment #}\nd {#- x -#} e",
    "  {{- n -}}  \n x\n",
    "{{ 'a' }}\n{% set x = 1 %}\n\nb\n",
    "{%- set x = '-%}' -%}\n {{ x }} {{ '}}' }} {{ \"{%\" }}",
    "{% generation %}abc{{ n }}{% endgeneration %} d",
    "{% for m in messages %}\n{% generation %}\n{{ m.role }}\n{% endgeneration %}\n{% endfor %}",
    "{% if n > 5 %}a{% elif n > 2 %}b{% else %}c{% endif %}{% if not nope %}d{% endif %}{% if nope is defined and nope %}e{% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% set parts = m.content.split('</think>') %}{{ parts[0].split('<think>')[-1].strip() }}|{{ parts[-1].lstrip('\\n') }}{% endif %}{% endfor %}",
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}",
    "{% for t in messages[2].tool_calls %}{% set f = t.function %}{% if f.arguments is string %}{{ f.arguments }}{% else %}{{ f.arguments | tojson }}{% endif %}{{ t.function.name }}{% endfor %}",
    "{% set j = joiner('; ') %}{% for i in range(3) %}{{ j() }}{{ i }}{% endfor %}{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}",
    "{% include 'x' %}", "{% if %}", "{{ }}", "{% for %}", "{{ 'abc }}", "{% if yes %}", "{{ (1 }}", "{% set %}", "{{ a b }}", "{% endif %}",
    "{% set m = messages %}{% for i in range(m | length - 1, -1, -1) %}{{ m[i].role[0] }}{% endfor %}",
    "{% for m in messages[::-1] %}{% set i = (messages | length - 1) - loop.index0 %}{{ i }}{{ m.role[:1] }}{% endfor %}",
    "{{ '\\n' if yes }}{{- 'a' -}}\n",
]


def environment():
    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller):
            return caller()

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


def render(template, context):
    try:
        text = environment().from_string(template).render(**context)
    except Exception as error:  # noqa: BLE001 - whatever Python says: it refuses
        return {"error": f"{type(error).__name__}: {error}"[:100]}
    return {"text": text}


def main():
    here = pathlib.Path(__file__).parent
    templates = [f"{{{{ {e.strip()} }}}}" for line in EXPRESSIONS.strip().splitlines() for e in line.split("; ") if e.strip()] + BLOCKS
    cases = [{"template": t, **render(t, CONTEXT)} for t in templates]
    shared = {}
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for template in sorted(folder.glob("*.jinja")) if folder else []:
        for context in sorted((folder / "contexts").glob("*.json")):
            made = render(template.read_text(), json.loads(context.read_text()))
            text = made.get("text")
            shared[f"{template.name} {context.name}"] = hashlib.sha256(text.encode()).hexdigest() if text is not None else "error"
    out = {"jinja2": jinja2.__version__, "now": NOW.isoformat(), "context": CONTEXT, "cases": cases, "shared": shared}
    (here / "expected.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")
    print(len(cases), "cases,", len(shared), "of the folder")


if __name__ == "__main__":
    main()
