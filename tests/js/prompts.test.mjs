// Tests of prompts: the tokens of a conversation are those of its complete rendered text, and text of a user stays text
// (tests/templates/make_prompts.py).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fromPiece } from '../../js/text/tokenizers/bytes.js';
import { parseHfTokenizer } from '../../js/text/tokenizers/hf-json.js';
import { FLAG, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { Prompts } from '../../js/engine/prompt/chat-prompt.js';
import { derive } from '../../js/text/templates/derive.js';
import { tinyModel } from './fixture.mjs';

const { templates, talks, vocabularies } = JSON.parse(
  readFileSync(new URL('../templates/prompts.json', import.meta.url), 'utf8'),
);

/** A vocabulary of SentencePiece, as a GGUF file brings it. @param {[string, number, number][]} pieces */
const sentencePiece = (pieces) => ({
  kind: KIND.spm,
  flags: FLAG.addSpace | FLAG.byteFallback,
  bos: 1,
  eos: 2,
  unk: 0,
  pad: NONE,
  eog: [2],
  tokens: pieces.map(([text, score, type]) => ({
    bytes: type === 6 ? Uint8Array.of(parseInt(text.slice(3, 5), 16)) : fromPiece(text),
    score,
    kind: type - 1,
  })),
  merges: [],
});

describe('the tokens of a prompt', () => {
  /** @type {import('../../js/shared/types.js').Engine} */
  let engine;
  before(async () => {
    engine = await createEngine({ build: 'relaxed', threads: 1 });
  });
  after(() => engine.close());

  for (const [name, { json, pieces, ids }] of Object.entries(vocabularies)) {
    const tokens = pieces ? sentencePiece(pieces) : parseHfTokenizer(JSON.stringify(json), { bos: '<s>', eos: '</s>' });
    const load = async (/** @type {any} */ options) =>
      engine.load(fromBytes(await tinyModel({ tokens, config: { vocab: tokens.tokens.length }, ...options })));

    test(`${name}: a rendered template's are those of its whole text`, async () => {
      assert.ok(tokens.tokens.some(({ kind }) => kind === TOKEN.control));
      for (const [key, template] of Object.entries(templates)) {
        const model = await load({ chat: null, template });
        const prompts = new Prompts(/** @type {any} */ (model));
        for (const [i, talk] of talks.entries())
          assert.deepEqual((await prompts.makePrompt(talk)).tokens, ids[key][i], `${key}: ${JSON.stringify(talk)}`);
        await model.close();
      }
    });

    test(`${name}: so are a compact format's`, async () => {
      for (const key of ['mistral', 'chatml']) {
        const chat = derive(templates[key], { bos: '<s>', eos: '</s>', ends: ['</s>', '<|im_end|>'] });
        assert.ok(chat, key);
        const model = await load({ chat });
        const prompts = new Prompts(/** @type {any} */ (model));
        for (const [i, talk] of talks.entries())
          if (talk.every(({ role }) => Object.hasOwn(chat.roles, role)))
            assert.deepEqual((await prompts.makePrompt(talk)).tokens, ids[key][i], `${key}: ${JSON.stringify(talk)}`);
        await model.close();
      }
    });
  }

  test('a prefix is part of the text; a reply given as tokens keeps these tokens, and nothing is inserted after it', async () => {
    const { pieces } = vocabularies.SentencePiece;
    const tokens = sentencePiece(pieces);
    const model = await engine.load(
      fromBytes(await tinyModel({ tokens, config: { vocab: pieces.length }, chat: null, template: templates.mistral })),
    );
    const prompts = new Prompts(/** @type {any} */ (model));
    const make = async (/** @type {any} */ talk, options = {}) => (await prompts.makePrompt(talk, options)).tokens;
    const whole = (/** @type {string} */ text) => model.tokenize(text, { addSpecial: false, parseSpecial: true });
    const hello = { role: 'user', content: 'Hello' };
    assert.deepEqual(await make([hello], { prefix: ' you' }), await whole('<s>[INST] Hello [/INST] you'));
    const reply = (await whole('Hi!')).slice(1);
    const talk = [hello, { role: 'assistant', content: 'Hi!', tokens: reply }, hello];
    const got = await make(talk);
    assert.equal(await model.detokenize(got), await model.detokenize(await make(talk.map(({ tokens: _, ...m }) => m))));
    await model.close();
  });
});
