// Tests of the Python programs of the benchmarks: model files for peers, and plots. Their packages are installed at the first run.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { figures } from '../../tools/bench/figures.mjs';
import { benchPython } from '../../tools/bench/install.mjs';
import { reportText } from '../../tools/bench/report.mjs';
import { ROOT, setUp } from '../../tools/setup/setup.mjs';
import {
  entry,
  LIMIT,
  LIMIT_FACTS,
  MACHINE,
  NATIVE,
  visitNamed,
  OURS,
  PAYLOAD,
  SHAPE,
  WLLAMA,
} from './bench-entries.mjs';

const folder = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
after(() => rmSync(folder, { recursive: true, force: true }));

test('model files and plots', async (t) => {
  const python = await benchPython(await setUp({ tests: true }));
  const script = (/** @type {string} */ name, /** @type {string[]} */ ...args) =>
    execFileSync(python, [join(ROOT, 'tools/bench', name), ...args], { encoding: 'utf8' });
  const ask = (/** @type {string} */ code, /** @type {string[]} */ ...args) =>
    JSON.parse(execFileSync(python, ['-c', code, ...args], { encoding: 'utf8' }));
  const shape = JSON.stringify(SHAPE);

  await t.test('GGUF: types, shapes, a token per code point', () => {
    for (const [quant, embed] of [
      ['q4_0', 'q8_0'],
      ['q4_0', 'q4_0'],
      ['q8_0', 'q8_0'],
    ]) {
      const path = join(folder, `${quant}-${embed}.gguf`);
      script('make_gguf.py', path, '--shape', shape, '--quant', quant, '--embed', embed);
      const read = ask(
        `import gguf, json, sys, numpy as np
r = gguf.GGUFReader(sys.argv[1])
t = {x.name: x for x in r.tensors}
w = gguf.dequantize(t["blk.1.ffn_down.weight"].data, t["blk.1.ffn_down.weight"].tensor_type)
tokens = r.fields["tokenizer.ggml.tokens"].contents()
print(json.dumps({"embed": t["token_embd.weight"].tensor_type.name, "down": t["blk.1.ffn_down.weight"].tensor_type.name, "n": len(t),
  "kv": r.fields["llama.attention.head_count_kv"].contents(), "deviation": float(w.std()), "shape": list(w.shape), "tokens": len(set(tokens)),
  "long": sum(len(x) > 1 for x in tokens)}))`,
        path,
      );
      assert.ok(Math.abs(read.deviation - 0.02) < 0.002, String(read.deviation));
      delete read.deviation;
      assert.deepEqual(read, {
        embed: embed.toUpperCase(),
        down: quant.toUpperCase(),
        n: 2 + 2 * 9,
        kv: 2,
        shape: [64, 96],
        tokens: 700,
        long: 3,
      });
    }
  });

  await t.test('ONNX: operators, names that transformers.js looks for', () => {
    for (const [quant, file, op] of [
      ['fp32', 'model.onnx', 'MatMul'],
      ['q8', 'model_quantized.onnx', 'MatMulInteger'],
      ['q4', 'model_q4.onnx', 'MatMulNBits'],
    ]) {
      script('make_onnx.py', folder, '--shape', shape, '--quant', quant);
      const read = ask(
        `import onnx, json, sys
g = onnx.load(sys.argv[1]).graph
made = {o for n in g.node for o in n.output} | {i.name for i in g.input} | {w.name for w in g.initializer}
print(json.dumps({"matmuls": sum(n.op_type == sys.argv[2] for n in g.node), "missing": [i for n in g.node for i in n.input if i and i not in made],
  "inputs": [i.name for i in g.input][:3], "outputs": [o.name for o in g.output if o.name in made], "batch": g.input[2].type.tensor_type.shape.dim[0].dim_param}))`,
        join(folder, 'onnx', file),
        op,
      );
      assert.deepEqual(read, {
        matmuls: 2 * 5 + 1,
        missing: [],
        inputs: ['input_ids', 'attention_mask', 'past_key_values.0.key'],
        batch: 'batch_size',
        outputs: ['logits', ...[0, 1].flatMap((i) => [`present.${i}.key`, `present.${i}.value`])],
      });
    }
  });

  await t.test('plots', () => {
    const output = figures(
      [
        entry(visitNamed(OURS), 0, 500, 100),
        entry(visitNamed(NATIVE), 0, 1000, 125),
        entry(visitNamed(WLLAMA), 0, 20, 10),
        entry(visitNamed('^read / '), 0, 1, 1, { read: { ratio: 1.5 } }),
        entry(visitNamed('^llama-wasm .* 1t '), 0, 60, 20),
        entry(visitNamed('135m / automatic threads'), 0, 500, 100),
        entry(visitNamed(LIMIT), 0, 1, 1, LIMIT_FACTS),
      ],
      { machine: MACHINE, payload: PAYLOAD },
    );
    const json = join(folder, 'figures.json');
    writeFileSync(json, JSON.stringify(output));
    script('plots.py', json, join(folder, 'plots'));
    const names = readdirSync(join(folder, 'plots')).sort();
    assert.deepEqual(names, ['context.svg', 'decode.svg', 'load.svg', 'prefill.svg', 'roofline.svg']);
    for (const name of names) {
      const text = readFileSync(join(folder, 'plots', name), 'utf8');
      assert.match(text, /prefers-color-scheme:dark/);
      assert.doesNotMatch(text, /#1f2328(?!;)/i);
      assert.ok(reportText(output).includes(`(../benchmarks/${name})`), name);
    }
  });
});
