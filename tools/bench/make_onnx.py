"""Writes ONNX files with random weights, in a shape of tools/make_random.mjs and in the folder layout of transformers.js.

    python make_onnx.py FOLDER --quant q4 --shape '{"hidden": 288, ...}'

The graph is that of onnxruntime-genai's builder for CPUs: packed Q, K and V, rotary positions in
GroupQueryAttention, fused norms, logits of the last position only. `--quant`:
  fp32  MatMul
  q8    MatMulInteger with DynamicQuantizeLinear, as onnxruntime's quantize_dynamic writes it
  q4    MatMulNBits, blocks of 32, accuracy level 4
The embedding is always f32, since it takes no time and the runtime of transformers.js cannot read int4 embeddings.
"""
import argparse
import json
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

FILES = {"fp32": "model.onnx", "q8": "model_quantized.onnx", "q4": "model_q4.onnx"}
BLOCK = 32
"""Weights of a block of MatMulNBits."""


class Graph:
    """Collects the nodes and weights of a graph."""

    def __init__(self, quant, seed=1):
        self.quant = quant
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.quantized = [], [], {}

    def node(self, op, inputs, outputs, **attributes):
        """Adds a node and returns the name of its first output."""
        self.nodes.append(helper.make_node(op, inputs, outputs, name=outputs[0] + "/" + op, **attributes))
        return outputs[0]

    def microsoft(self, op, inputs, outputs, **attributes):
        """Adds a node with an operator of onnxruntime."""
        return self.node(op, inputs, outputs, domain="com.microsoft", **attributes)

    def constant(self, name, values):
        """Adds weights and returns their name."""
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def normal(self, rows, cols):
        """Returns a random matrix."""
        return self.random.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.02)

    def matmul(self, x, name, n, k):
        """Adds the product of x [.., k] and a random matrix [k, n]."""
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
        zero_point = self.constant(name + ".zero", np.zeros((), np.int8))
        factor = self.node("Mul", [scale, self.constant(name + ".scale", step)], [name + "/factor"])
        product = self.node("MatMulInteger", [data, weight, zero, zero_point], [name + "/i32"])
        return self.node("Mul", [self.node("Cast", [product], [name + "/f32"], to=TensorProto.FLOAT), factor], [name])

    def _q4(self, x, name, n, k):
        blocks = k // BLOCK
        data = self.random.integers(0, 256, (n, blocks, BLOCK // 2), dtype=np.uint8)
        # Values are uniformly distributed in -8 to 7 steps, so a standard deviation of 0.02 requires a step of 0.02 / 4.6.
        scales = (self.random.uniform(0.8, 1.2, n * blocks) * 0.02 / 4.6).astype(np.float32)
        inputs = [x, self.constant(name + ".weight", data), self.constant(name + ".scale", scales)]
        return self.microsoft("MatMulNBits", inputs, [name], K=k, N=n, bits=4, block_size=BLOCK, accuracy_level=4)


def build(shape, quant):
    """Returns the ONNX model."""
    g = Graph(quant)
    hidden, ffn, vocab, layers, heads = (shape[k] for k in ("hidden", "ffn", "vocab", "layers", "heads"))
    kv_heads = shape.get("kv_heads", heads)
    size = hidden // heads
    eps = shape["norm_eps"]

    def value(name, kind, dims):
        """Returns the declaration of an input or an output."""
        return helper.make_tensor_value_info(name, kind, dims)

    inputs = [value("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
              value("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])]
    outputs = [value("logits", TensorProto.FLOAT, ["batch_size", 1, vocab])]
    one = g.constant("one", np.array([1], np.int64))
    g.node("ReduceSum", ["attention_mask", one], ["length"], keepdims=0)
    g.node("Cast", [g.node("Sub", ["length", one], ["last"])], ["seqlens_k"], to=TensorProto.INT32)
    g.node("Shape", ["attention_mask"], ["mask/shape"])
    g.node("Gather", ["mask/shape", g.constant("axis1", np.array(1, np.int64))], ["total64"])
    g.node("Cast", ["total64"], ["total_length"], to=TensorProto.INT32)
    angle = np.outer(np.arange(shape["context"]), float(shape.get("rope_theta", 10000.0)) ** (-np.arange(0, size, 2) / size))
    g.constant("cos", np.cos(angle).astype(np.float32))
    g.constant("sin", np.sin(angle).astype(np.float32))

    def gain(name):
        """Adds the gains of a norm and returns their name."""
        return g.constant(name, np.ones(hidden, np.float32))

    stream = g.node("Gather", [g.constant("embed", g.normal(vocab, hidden)), "input_ids"], ["embedded"])
    x = g.node("SimplifiedLayerNormalization", [stream, gain("norm0")], ["x0"], epsilon=eps, axis=-1, stash_type=1)
    for i in range(layers):
        prefix = f"layer{i}."
        past, present = ([f"{group}.{i}.{kind}" for kind in ("key", "value")] for group in ("past_key_values", "present"))
        for names, declarations, length in ((past, inputs, "past"), (present, outputs, "total")):
            declarations += [value(name, TensorProto.FLOAT, ["batch_size", kv_heads, length + "_sequence_length", size]) for name in names]
        qkv = g.matmul(x, prefix + "qkv", (heads + 2 * kv_heads) * size, hidden)
        g.microsoft("GroupQueryAttention", [qkv, "", "", *past, "seqlens_k", "total_length", "cos", "sin"], [prefix + "attention", *present],
                    num_heads=heads, kv_num_heads=kv_heads, scale=size ** -0.5, do_rotary=1, rotary_interleaved=0)
        for part, name in ((g.matmul(prefix + "attention", prefix + "out", hidden, hidden), "mid"), (None, "end")):
            if part is None:
                gate = g.matmul(x, prefix + "gate", ffn, hidden)
                up = g.matmul(x, prefix + "up", ffn, hidden)
                silu = g.node("Mul", [gate, g.node("Sigmoid", [gate], [prefix + "sigmoid"])], [prefix + "silu"])
                part = g.matmul(g.node("Mul", [silu, up], [prefix + "product"]), prefix + "down", hidden, ffn)
            sums = [prefix + name, "", "", prefix + name + "/sum"]
            x = g.microsoft("SkipSimplifiedLayerNormalization", [stream, part, gain(prefix + name + "/gain")], sums, epsilon=eps)
            stream = sums[3]
    g.node("Gather", [x, g.constant("lastof", np.array([-1], np.int64))], ["final"], axis=1)
    g.node("Identity", [g.matmul("final", "head", vocab, hidden)], ["logits"])
    graph = helper.make_graph(g.nodes, "random", inputs, outputs, g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)], ir_version=9)


def config(shape):
    """Returns the properties of a model that transformers.js reads."""
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
    path = os.path.join(options.folder, "onnx", FILES[options.quant])
    save(build(options.shape, options.quant), path + ".part")
    os.replace(path + ".part", path)
