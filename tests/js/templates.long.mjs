// Tests of the published chat templates of Llama 3 and SmolLM2, from an npm package (tests/tools/vocabularies.mjs) and a GGUF file: each
// has a known fingerprint and the compact form that rendering finds, and conversations have the same text by the form and by the template.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { readHeader } from '../../js/format/gguf/header.js';
import { compact } from '../../js/text/templates/compact.js';
import { derive } from '../../js/text/templates/derive.js';
import { compile } from '../../js/text/templates/jinja.js';
import { fingerprint, formatNamed, knownName } from '../../js/text/templates/known-formats.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { vocabularies } from '../tools/vocabularies.mjs';

const CONVERSATIONS = [
  [['user', 'Hello']],
  [
    ['user', ' Two words '],
    ['assistant', 'Yes,\nthere are.\n'],
    ['user', '<b>, "quoted" & नमस्ते'],
  ],
  [
    ['system', ' Be brief.\n'],
    ['user', 'Why?'],
    ['assistant', 'So.'],
    ['user', 'And then?'],
    ['assistant', ' Nothing.'],
    ['user', 'Thanks'],
  ],
].map((turns) => turns.map(([role, content]) => ({ role, content })));

/** @param {string} name @param {string} template @param {{ bos: string, eos: string, end: string }} tokens */
function isKnown(name, template, { bos, eos, end }) {
  assert.equal(knownName(template), name, fingerprint(template));
  const format = formatNamed(name);
  assert.ok(format);
  assert.deepEqual(derive(template, { bos, eos, ends: [end] }), format);
  const render = compile(template);
  for (const messages of CONVERSATIONS) {
    const theirs = render({ messages, bos_token: bos, eos_token: eos, add_generation_prompt: true });
    const ours = compact(format, messages)?.map(({ text }) => text) ?? [];
    assert.equal((format.bos ? bos : '') + ours.join(''), theirs);
  }
}

const { paths, missing } = await vocabularies(['llama3']);
test('llama-3: the template with the known fingerprint has this form', { skip: missing ?? false }, () => {
  const config = JSON.parse(readFileSync(join(String(paths?.llama3), '../tokenizer_config.json'), 'utf8'));
  isKnown('llama-3', config.chat_template, { bos: config.bos_token, eos: config.eos_token, end: '<|eot_id|>' });
});

const smollm2 = realModel('smollm2');
test('smollm2: the same', { skip: smollm2 ? false : NO_REAL_MODEL }, async () => {
  const bytes = readFileSync(String(smollm2));
  const { metadata } = await readHeader(openBytes(bytes), bytes);
  const template = metadata['tokenizer.chat_template'];
  isKnown('smollm2', template, { bos: '<|im_start|>', eos: '<|im_end|>', end: '<|im_end|>' });
});
