// Tests of GGUF files: what is read, what is refused, and that they are the same model as their .bq4 files.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quantize } from './encode.mjs';
import { memorySink } from '../../js/format/output.js';
import { ROWS, runLayout, typeNamed } from '../../js/format/bq4/weight-types.js';
import { matrixOf, writeV2 } from '../../js/format/bq4/write-v2.js';
import { xxh64 } from './xxh64.mjs';
import { createEngine, fromBytes } from '../../js/node.js';
import { readHeader } from '../../js/format/gguf/header.js';
import { endOfTensors, placeTensors } from '../../js/format/gguf/layout.js';
import { openGguf } from '../../js/format/gguf/open.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { randomWeights } from './checkpoints.mjs';
import { CONFIG, random } from './fixture.mjs';
import { bytesTokenizer, gguf, ggufTensor, llamaMetadata, runType, u64 } from './gguf-writer.mjs';
import { openLogits } from './logits.mjs';

const config = { ...CONFIG, hidden: 64, ffn: 96, layers: 2, context: 64, rope_pairs: 'adjacent' };
const PROMPT = Array.from({ length: 40 }, (_, i) => (i * 37 + 5) % config.vocab);
const METADATA = { ...llamaMetadata(config), ...bytesTokenizer(config.vocab) };

/** @param {import('../../js/shared/types.js').SourceLike} source */
async function logitsOf(source) {
  const model = await openLogits(source);
  const all = [model.start(PROMPT), model.next(3), model.next(200)];
  model.close();
  return all.map((logits) => Buffer.from(logits.buffer, logits.byteOffset, logits.byteLength).toString('hex'));
}

/** A small model as GGUF, and as the .bq4 with the same values. @param {string} type @param {Parameters<typeof gguf>[2]} [options] @param {boolean} [tied] */
async function twins(type, options, tied = true) {
  const own = { ...config, tied };
  const weights = [...randomWeights(own)];
  const file = gguf(METADATA, weights.map(([name, tensor]) => ggufTensor(name, tensor, type)).reverse(), options);
  const tensors = weights.map(([name, { dims, values }]) => {
    const ours = typeNamed(dims.length === 1 ? 'f32' : runType(type));
    const layout = dims.length === 1 ? ROWS : runLayout(ours);
    const { rows, cols } = matrixOf(dims);
    return {
      name,
      dims,
      type: ours,
      layout,
      async *pieces() {
        yield quantize(ours.id, layout, values, rows, cols);
      },
    };
  });
  const sink = memorySink();
  await writeV2(sink, { config: own, tensors }, { hash: xxh64 });
  return { file, bq4: sink.bytes };
}

for (const type of ['f32', 'f16', 'q4_0', 'q4_1', 'q8_0'])
  test(`a GGUF file of ${type} is the same model as its .bq4`, async () => {
    const { file, bq4 } = await twins(
      type,
      type === 'q4_1' ? { version: 2 } : type === 'f16' ? { alignment: 64 } : {},
      type !== 'q4_0',
    );
    assert.deepEqual(await logitsOf(fromBytes(file)), await logitsOf(fromBytes(bq4)));
  });

test('plan, name, licence and tokenizer of a GGUF file', async () => {
  const { file } = await twins('q8_0');
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const plan = await engine.plan(fromBytes(file));
  assert.deepEqual(
    [
      plan.version,
      plan.name,
      plan.license,
      plan.layers,
      plan.vocabSize,
      plan.tokenizerSize,
      plan.trainedContext,
      plan.fileBytes,
    ],
    [0, 'Tiny', 'mit', 2, config.vocab, config.vocab, 64, file.length],
  );
  const model = await engine.load(fromBytes(file));
  assert.deepEqual(await model.tokenize('a b'), [67, 1, 68]);
  const { used, peak, heap } = await model.memory();
  assert.ok(used <= peak && peak <= heap);
  const session = await model.createSession();
  assert.equal((await session.generate('Hello', { temperature: 0, maxTokens: 4 }).result).tokens.length, 4);
  await engine.close();
});

test('metadata of every type is read unchanged', async () => {
  /** @type {Record<string, import('./gguf-writer.mjs').Value>} */
  const given = {
    a: ['u8', 200],
    b: ['i8', -3],
    c: ['u16', 60000],
    d: ['i16', -300],
    e: ['u32', 4e9],
    f: ['i32', -7],
    g: ['f32', 0.5],
    h: ['bool', true],
    i: ['text', 'ä€😀'],
    j: ['u64', 2 ** 53],
    k: ['i64', -5],
    l: ['f64', 0.1],
    m: ['array', ['text', ['', 'Ġé', 'x'.repeat(70), '漢']]],
    n: ['array', ['f32', [1, 2.5]]],
    o: ['array', ['i64', [-1, 3]]],
    p: ['array', ['text', []]],
  };
  const bytes = gguf(given, []);
  for (const first of [24, 100, bytes.length]) {
    const { metadata } = await readHeader(openBytes(bytes), bytes.subarray(0, first));
    for (const [key, [type, value]] of Object.entries(given))
      assert.deepEqual(type === 'array' ? [...metadata[key]] : metadata[key], type === 'array' ? value[1] : value, key);
  }
});

test('lists of texts longer than one read are complete', async () => {
  const texts = Array.from({ length: 9999 }, (_, i) => (i % 7 ? `t${i}` : `ä${'漢'.repeat(i % 90)}`));
  const bytes = gguf({ a: ['array', ['text', texts]], b: ['array', ['text', ['x']]] }, []);
  const reads = /** @type {[number, number][]} */ ([]);
  const file = { ...openBytes(bytes), size: bytes.length };
  const source = {
    ...file,
    /** @param {number} from @param {number} to @param {AbortSignal} [signal] */
    stream: (from, to, signal) => {
      reads.push([from, to]);
      return openBytes(bytes).stream(from, to, signal);
    },
  };
  const { metadata } = await readHeader(/** @type {any} */ (source), bytes.subarray(0, 24));
  assert.deepEqual([...metadata.a], texts);
  assert.deepEqual([...metadata.b], ['x']);
  assert.ok(reads.length);
});

/** @param {Buffer} file @param {string} code @param {RegExp} says */
const refused = (file, code, says) =>
  assert.rejects(
    readHeader(openBytes(file), file.subarray(0, 64)),
    (/** @type {any} */ e) => e.code === code && says.test(e.message) && e.hint !== '',
    `${code} ${says}`,
  );

test('headers with false numbers are refused before memory is allocated for them', async () => {
  const head = (/** @type {Buffer[]} */ ...parts) =>
    Buffer.concat([Buffer.from('GGUF\x03\0\0\0'), ...parts, Buffer.alloc(64)]);
  const key = (/** @type {string} */ name, /** @type {number} */ type) =>
    Buffer.concat([u64(name.length), Buffer.from(name), Buffer.from(Uint32Array.of(type).buffer)]);
  const list = (/** @type {number} */ type, /** @type {number | bigint} */ count) =>
    Buffer.concat([Buffer.from(Uint32Array.of(type).buffer), u64(count)]);
  await refused(head(u64(0), u64(2n ** 60n)), 'FORMAT', /not a possible length or offset/);
  await refused(head(u64(1e9), u64(0)), 'FORMAT', /1000000000 tensors/);
  await refused(head(u64(0), u64(1e9)), 'FORMAT', /declares 1000000000 metadata pairs but only \d+ bytes remain/);
  await refused(head(u64(0), u64(1), u64(70000)), 'FORMAT', /a name has 70000 bytes/);
  await refused(head(u64(0), u64(1), key('a', 8), u64(2 ** 40)), 'FORMAT', /1099511627776 bytes of text/);
  await refused(head(u64(0), u64(1), key('a', 9), list(8, 2 ** 40)), 'FORMAT', /1099511627776 strings/);
  await refused(head(u64(0), u64(1), key('a', 9), list(4, 100)), 'FORMAT', /100 elements/);
  // As many bytes as there are, but no such numbers.
  await refused(head(u64(0), u64(1), key('a', 9), list(4, 30)), 'FORMAT', /30 elements/);
  await refused(head(u64(0), u64(1), key('a', 9), list(9, 1)), 'FORMAT', /an array contains arrays/);
  await refused(head(u64(0), u64(1), key('a', 9), list(13, 1)), 'FORMAT', /unknown type 13/);
  await refused(head(u64(0), u64(1), key('a', 13)), 'FORMAT', /unknown type 13/);
  await refused(head(u64(0), u64(2), key('a', 0), Buffer.from([1]), key('a', 0), Buffer.from([1])), 'FORMAT', /twice/);
  await refused(gguf({}, [], { version: 1 }), 'UNSUPPORTED', /version 1/);
  await refused(gguf({}, [], { version: 4 }), 'UNSUPPORTED', /version 4/);
  await refused(Buffer.concat([Buffer.from('GGUF\0\0\0\x03'), Buffer.alloc(64)]), 'UNSUPPORTED', /big-endian/);
  await refused(gguf({ 'general.alignment': ['u32', 24] }, []), 'FORMAT', /alignment is 24/);
  const one = { name: 'x', dims: [4, 4], type: 0, bytes: new Uint8Array(64) };
  await refused(gguf({}, [one, one]), 'FORMAT', /"x" appears twice/);
  await refused(gguf({}, [{ ...one, dims: [1, 1, 1, 1, 1] }]), 'FORMAT', /5 dimensions/);
  await refused(gguf({}, [{ ...one, dims: [0, 4] }]), 'FORMAT', /0 × 4/);
  const whole = gguf(METADATA, [one]);
  for (let n = 24; n < whole.length - 96; n += 97)
    await assert.rejects(
      readHeader(openBytes(whole.subarray(0, n)), whole.subarray(0, Math.min(n, 64))),
      (/** @type {any} */ e) => ['FORMAT', 'TRUNCATED'].includes(e.code),
      `${n} bytes`,
    );
});

test('unsupported properties are refused by name, with a list of supported ones', async () => {
  const weights = [...randomWeights(config)];
  const tensors = weights.map(([name, tensor]) => ggufTensor(name, tensor, 'q8_0'));
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  /** @param {any} metadata @param {any[]} list @param {string} code @param {RegExp} says @param {RegExp} hint */
  const not = (metadata, list, code, says, hint) =>
    assert.rejects(
      engine.load(fromBytes(gguf({ ...METADATA, ...metadata }, list))),
      (/** @type {any} */ e) => e.code === code && says.test(e.message) && hint.test(e.hint),
      `${says}`,
    );
  await not(
    { 'general.architecture': ['text', 'starcoder9'] },
    tensors,
    'UNSUPPORTED',
    /architecture "starcoder9"/,
    /expected one of llama, .*\bqwen3\b.*\bgemma3\b/,
  );
  await not(
    { 'general.architecture': ['text', 'gpt-oss'] },
    tensors,
    'UNSUPPORTED',
    /architecture "gpt-oss"/,
    /^its smallest model has 21 billion weights.*at most 4 GB.*expected one of/,
  );
  await not(
    {},
    [{ ...tensors[0], type: 15 }, ...tensors.slice(1)],
    'UNSUPPORTED',
    /"token_embd.weight" has the unsupported type Q8_K/,
    /^expected one of F32, F16, Q4_0, .*\bQ6_K\b/,
  );
  await not({}, [{ ...tensors[0], type: 99 }, ...tensors.slice(1)], 'UNSUPPORTED', /TYPE 99/, /Q8_0/);
  await not(
    { 'tokenizer.ggml.model': ['text', 'rwkv'] },
    tensors,
    'UNSUPPORTED',
    /unsupported tokenizer "rwkv"/,
    /^expected "gpt2" \(byte-level BPE\), "llama" .*"t5" .*"bert" \(WordPiece\)/,
  );
  await not(
    { 'tokenizer.ggml.pre': ['text', 'rwkv'] },
    tensors,
    'UNSUPPORTED',
    /unsupported pre-tokenizer "rwkv"/,
    /^expected one of .*\bgpt-2\b.*\bllama-bpe\b/,
  );
  await not(
    {},
    [...tensors, { ...tensors[0], name: 'blk.0.ssm_a' }],
    'UNSUPPORTED',
    /unknown tensor "blk.0.ssm_a"/,
    /not supported yet/,
  );
  await not({}, tensors.slice(1), 'SHAPE', /"token_embd.weight" is missing/, /incomplete/);
  await not({}, tensors.slice(0, -1), 'SHAPE', /"ln_f.weight" is missing/, /does not fit/);
  await not({ 'llama.block_count': ['text', 'two'] }, tensors, 'FORMAT', /"layers" is "two"/, /./);
  const { 'llama.block_count': _, ...without } = METADATA;
  await assert.rejects(
    engine.load(fromBytes(gguf(without, tensors))),
    (/** @type {any} */ e) => e.code === 'FORMAT' && /no metadata value "llama.block_count"/.test(e.message),
  );
  await engine.close();
});

test('changed, truncated and doubled headers give a plan or a typed error, within limits of time and memory', async () => {
  const whole = gguf(
    { ...METADATA, 'tokenizer.ggml.tokens': METADATA['tokenizer.ggml.tokens'] },
    [...randomWeights(config)].map(([name, tensor]) => ggufTensor(name, tensor, 'q8_0')),
  );
  const { end } = await readHeader(openBytes(whole), whole);
  const next = random(7);
  const below = (/** @type {number} */ n) => Math.floor(Math.abs(next()) * n);
  const seen = new Set();
  const mutations = [
    (/** @type {Buffer} */ b) => (b[below(end)] ^= 1 << below(8)),
    (/** @type {Buffer} */ b) => (b[below(64)] = below(256)),
    (/** @type {Buffer} */ b) => b.writeUInt32LE([0, 1, 0x7fffffff, 0xffffffff][below(4)], below(end - 4)),
    (/** @type {Buffer} */ b) => b.copy(b, below(end - 64), below(end - 64), end - below(64)),
  ];
  for (let i = 0; i < 1200; i++) {
    let bytes = Buffer.from(whole);
    for (let n = 1 + below(3); n > 0; n--) mutations[below(mutations.length)](bytes);
    if (i % 5 === 0) bytes = bytes.subarray(0, below(bytes.length));
    // The start is what leads here at all.
    bytes.write('GGUF');
    try {
      await openGguf(openBytes(bytes), bytes.subarray(0, 64));
      seen.add('a plan');
    } catch (error) {
      const { name, code, message } = /** @type {any} */ (error);
      assert.equal(name, 'BqError', `change ${i}: ${/** @type {any} */ (error).stack}`);
      assert.ok(message.length < 2000);
      seen.add(code);
    }
  }
  for (const code of ['a plan', 'FORMAT', 'UNSUPPORTED']) assert.ok(seen.has(code), `${code} of ${[...seen].join()}`);
});

test('tensors are at multiples of 64 bytes without gaps', () => {
  const f32 = typeNamed('f32').id;
  const placed = placeTensors(
    [3, 16, 17, 1].map((n, i) => [`v${i}`, [n], f32, f32, 1000 * i]),
    4100,
  );
  assert.deepEqual(
    placed.map(({ offset, bytes }) => [offset, bytes]),
    [
      [4160, 12],
      [4224, 64],
      [4288, 68],
      [4416, 4],
    ],
  );
  assert.equal(endOfTensors(placed), 4420);
});
