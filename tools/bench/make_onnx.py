"""ONNX files with random weights, in a shape of tools/make_random.mjs, laid out as transformers.js wants a model.

    python make_onnx.py FOLDER --quant q4 --shape '{"hidden": 288, ...}'

The graph is the one that onnxruntime-genai's builder writes for CPUs: packed Q, K, V, rotary position in
GroupQueryAttention, fused norms, logits of the last position only. `--quant`:
  fp32  MatMul
  q8    MatMulInteger with DynamicQuantizeLinear, as onnxruntime's quantize_dynamic writes it
  q4    MatMulNBits, blocks of 32, accuracy level 4
The embedding stays f32 in all (transformers.js's runtime can't read an int4 one); it costs no time.
"""
import argparse
import json
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

FILES = {"fp32": "model.onnx", "q8": "model_quantized.onnx", "q4": "model_q4.onnx"}
BLOCK = 32


class Graph:
    """Nodes and weights under construction."""

    def __init__(self, quant, seed=1):
        self.quant = quant
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.quantized = [], [], {}

    def node(self, op, inputs, outputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, outputs, name=outputs[0] + "/" + op, **attributes))
        return outputs[0]

    def microsoft(self, op, inputs, outputs, **attributes):
        return self.node(op, inputs, outputs, domain="com.microsoft", **attributes)

    def constant(self, name, values):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def normal(self, rows, cols):
        return self.random.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.02)

    def matmul(self, x, name, n, k):
        """x [.., k] times a random matrix [k, n]."""
        return {"fp32": self._fp32, "q8": self._q8, "q4": self._q4}[self.quant](x, name, n, k)

    def _fp32(self, x, name, n, k):
        return self.node("MatMul", [x, self.constant(name + ".weight", self.normal(k, n))], [name])

    def _q8(self, x, name, n, k):
        if x not in self.quantized:
            self.quantized[x] = [x + "/u8", x + "/scale", x + "/zero"]
            self.node("DynamicQuantizeLinear", [x], self.quantized[x])
        data, scale, zero = self.quantized[x]
        values = self.normal(k, n)
        step = np.float32(np.abs(values).max() / 127)
        weight = self.constant(name + ".weight", np.clip(np.rint(values / step), -127, 127).astype(np.int8))
        nothing = self.constant(name + ".zero", np.zeros((), np.int8))
        factor = self.node("Mul", [scale, self.constant(name + ".scale", step)], [name + "/factor"])
        whole = self.node("MatMulInteger", [data, weight, zero, nothing], [name + "/i32"])
        return self.node("Mul", [self.node("Cast", [whole], [name + "/f32"], to=TensorProto.FLOAT), factor], [name])

    def _q4(self, x, name, n, k):
        blocks = k // BLOCK
        data = self.random.integers(0, 256, (n, blocks, BLOCK // 2), dtype=np.uint8)
        # Uniform in ±8 steps: a deviation of 0.02 is a step of 0.02 / 4.6.
        scales = (self.random.uniform(0.8, 1.2, n * blocks) * 0.02 / 4.6).astype(np.float32)
        inputs = [x, self.constant(name + ".weight", data), self.constant(name + ".scale", scales)]
        return self.microsoft("MatMulNBits", inputs, [name], K=k, N=n, bits=4, block_size=BLOCK, accuracy_level=4)


def build(shape, quant):
    g = Graph(quant)
    hidden, ffn, vocab, layers, heads = (shape[k] for k in ("hidden", "ffn", "vocab", "layers", "heads"))
    kv_heads = shape.get("kv_heads", heads)
    size = hidden // heads
    eps = shape["norm_eps"]

    def value(name, kind, dims):
        return helper.make_tensor_value_info(name, kind, dims)

    inputs = [value("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
              value("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])]
    outputs = [value("logits", TensorProto.FLOAT, ["batch_size", 1, vocab])]
    one = g.constant("one", np.array([1], np.int64))
    g.node("ReduceSum", ["attention_mask", one], ["held"], keepdims=0)
    g.node("Cast", [g.node("Sub", ["held", one], ["last"])], ["seqlens_k"], to=TensorProto.INT32)
    g.node("Shape", ["attention_mask"], ["mask/shape"])
    g.node("Gather", ["mask/shape", g.constant("axis1", np.array(1, np.int64))], ["total64"])
    g.node("Cast", ["total64"], ["total_length"], to=TensorProto.INT32)
    angle = np.outer(np.arange(shape["context"]), float(shape.get("rope_theta", 10000.0)) ** (-np.arange(0, size, 2) / size))
    g.constant("cos", np.cos(angle).astype(np.float32))
    g.constant("sin", np.sin(angle).astype(np.float32))

    def gain(name):
        return g.constant(name, np.ones(hidden, np.float32))

    stream = g.node("Gather", [g.constant("embed", g.normal(vocab, hidden)), "input_ids"], ["embedded"])
    x = g.node("SimplifiedLayerNormalization", [stream, gain("norm0")], ["x0"], epsilon=eps, axis=-1, stash_type=1)
    for i in range(layers):
        at = f"layer{i}."
        past, present = ([f"{w}.{i}.{k}" for k in ("key", "value")] for w in ("past_key_values", "present"))
        for names, where, length in ((past, inputs, "past"), (present, outputs, "total")):
            where += [value(name, TensorProto.FLOAT, ["batch_size", kv_heads, length + "_sequence_length", size]) for name in names]
        qkv = g.matmul(x, at + "qkv", (heads + 2 * kv_heads) * size, hidden)
        g.microsoft("GroupQueryAttention", [qkv, "", "", *past, "seqlens_k", "total_length", "cos", "sin"], [at + "attention", *present],
                    num_heads=heads, kv_num_heads=kv_heads, scale=size ** -0.5, do_rotary=1, rotary_interleaved=0)
        for part, name in ((g.matmul(at + "attention", at + "out", hidden, hidden), "mid"), (None, "end")):
            if part is None:
                gate = g.matmul(x, at + "gate", ffn, hidden)
                up = g.matmul(x, at + "up", ffn, hidden)
                silu = g.node("Mul", [gate, g.node("Sigmoid", [gate], [at + "sigmoid"])], [at + "silu"])
                part = g.matmul(g.node("Mul", [silu, up], [at + "product"]), at + "down", hidden, ffn)
            sums = [at + name, "", "", at + name + "/sum"]
            x = g.microsoft("SkipSimplifiedLayerNormalization", [stream, part, gain(at + name + "/gain")], sums, epsilon=eps)
            stream = sums[3]
    g.node("Gather", [x, g.constant("lastof", np.array([-1], np.int64))], ["final"], axis=1)
    g.node("Identity", [g.matmul("final", "head", vocab, hidden)], ["logits"])
    graph = helper.make_graph(g.nodes, "random", inputs, outputs, g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)], ir_version=9)


def config(shape):
    """What transformers.js reads of a model."""
    heads = shape["heads"]
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": shape["hidden"], "num_hidden_layers": shape["layers"],
            "num_attention_heads": heads, "num_key_value_heads": shape.get("kv_heads", heads), "intermediate_size": shape["ffn"],
            "vocab_size": shape["vocab"], "max_position_embeddings": shape["context"], "tie_word_embeddings": True,
            "rms_norm_eps": shape["norm_eps"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--shape", required=True, type=json.loads)
    parser.add_argument("--quant", required=True, choices=FILES)
    options = parser.parse_args()
    os.makedirs(os.path.join(options.folder, "onnx"), exist_ok=True)
    for name, data in (("config.json", config(options.shape)), ("generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})):
        with open(os.path.join(options.folder, name), "w", encoding="utf-8") as file:
            json.dump(data, file)
    out = os.path.join(options.folder, "onnx", FILES[options.quant])
    save(build(options.shape, options.quant), out + ".part")
    os.replace(out + ".part", out)
