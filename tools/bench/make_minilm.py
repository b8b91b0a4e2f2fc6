"""Converts a sentence-transformers folder of the BERT family to int8 ONNX, in the folder layout of transformers.js.

    python make_minilm.py MODEL_FOLDER OUT_FOLDER
    python make_minilm.py MODEL_FOLDER OUT_FOLDER --reranker

With --reranker, the output is a cross-encoder with one label and random weights, with the shape and the tokenizer of the given folder:
model.safetensors, and ONNX files in f32 and int8.

The graph has onnxruntime's fastest operators for CPUs: Q, K and V in one product, MultiHeadAttention, BiasGelu and fused
SkipLayerNormalization. Products are MatMulInteger with DynamicQuantizeLinear and a scale for each output, as onnxruntime's
quantize_dynamic writes them (per_channel). The embedding is f32, since it takes no time.
"""
import argparse
import json
import os
import shutil

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

COPIED_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def read_safetensors(path):
    """Returns the tensors of a file by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = np.frombuffer(file.read(), np.uint8)
    header.pop("__metadata__", None)
    types = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
    return {name: data[slice(*entry["data_offsets"])].view(types[entry["dtype"]]).reshape(entry["shape"]) for name, entry in header.items()}


def write_safetensors(path, tensors):
    """Writes f32 tensors."""
    header, offset = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(np.ascontiguousarray(v).tobytes() for v in tensors.values()))


def random_reranker(weights, hidden):
    """Returns random weights with the shapes of an encoder's, and those of a classifier with one label."""
    rng = np.random.default_rng(1)

    def random(shape, mean=0.0, deviation=0.05):
        return (mean + deviation * rng.standard_normal(shape)).astype(np.float32)

    shapes = {name: values.shape for name, values in weights.items() if values.dtype != np.int64 and not name.startswith("pooler")}
    shapes |= {"pooler.dense.weight": (hidden, hidden), "pooler.dense.bias": (hidden,)}
    encoder = {name: random(shape, 1.0 if name.endswith("LayerNorm.weight") else 0.0) for name, shape in shapes.items()}
    return encoder, {"classifier.weight": random((1, hidden), deviation=0.2), "classifier.bias": random((1,))}


class Graph:
    """Collects the nodes and weights of a graph. `is_quantized`: whether products are in int8."""

    def __init__(self, is_quantized):
        self.nodes, self.weights, self.quantized, self.is_quantized = [], [], {}, is_quantized

    def node(self, op, inputs, output, domain="", **attributes):
        """Adds a node and returns the names of its outputs."""
        outputs = output if isinstance(output, list) else [output]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"{outputs[0]}/{op}", domain=domain, **attributes))
        return output

    def microsoft(self, op, inputs, output, **attributes):
        """Adds a node with an operator of onnxruntime."""
        return self.node(op, inputs, output, "com.microsoft", **attributes)

    def constant(self, name, values):
        """Adds weights and returns their name."""
        self.weights.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def matmul(self, x, name, weight):
        """Adds the product of x [.., k] and the transpose of weight [n, k]."""
        if not self.is_quantized:
            return self.node("MatMul", [x, self.constant(f"{name}.weight", weight.T)], name)
        if x not in self.quantized:
            self.quantized[x] = self.node("DynamicQuantizeLinear", [x], [f"{x}/u8", f"{x}/scale", f"{x}/zero"])
        data, scale, zero = self.quantized[x]
        step = (np.abs(weight).max(1) / 127).astype(np.float32)
        quantized = self.constant(f"{name}.weight", np.clip(np.rint(weight.T / step), -127, 127).astype(np.int8))
        zero_point = self.constant(f"{name}.zero", np.zeros((), np.int8))
        factor = self.node("Mul", [scale, self.constant(f"{name}.scale", step)], f"{name}/factor")
        product = self.node("MatMulInteger", [data, quantized, zero, zero_point], f"{name}/i32")
        return self.node("Mul", [self.node("Cast", [product], f"{name}/f32", to=TensorProto.FLOAT), factor], name)


def build(config, weights, classifier=None, is_quantized=True):
    """Returns the ONNX model. With the weights of a classifier its output is `logits`, otherwise `last_hidden_state`."""
    g = Graph(is_quantized)
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]

    def norm(name):
        """Adds the weights of a norm and returns their names."""
        return [g.constant(f"{name}.{kind}", weights[f"{name}.{kind}"]) for kind in ("weight", "bias")]

    def value(name, kind, dims):
        return helper.make_tensor_value_info(name, kind, dims)

    inputs = [value(name, TensorProto.INT64, ["batch_size", "sequence_length"]) for name in ("input_ids", "attention_mask", "token_type_ids")]
    if classifier:
        outputs = [value("logits", TensorProto.FLOAT, ["batch_size", 1])]
    else:
        outputs = [value("last_hidden_state", TensorProto.FLOAT, ["batch_size", "sequence_length", config["hidden_size"]])]
    g.node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    g.node("Shape", ["input_ids"], "length", start=1, end=2)
    zero, one = g.constant("zero", np.array(0)), g.constant("one", np.array(1))
    shape = g.constant("scalar", np.zeros(0, np.int64))
    positions = g.node("Range", [zero, g.node("Reshape", ["length", shape], "count"), one], "positions")
    parts = [g.node("Gather", [g.constant(f"{kind}.table", weights[f"embeddings.{kind}_embeddings.weight"]), ids], kind)
             for kind, ids in (("word", "input_ids"), ("position", positions), ("token_type", "token_type_ids"))]
    sums = g.node("Add", [g.node("Add", [parts[0], parts[2]], "word+type"), parts[1]], "embedded")
    x = g.node("LayerNormalization", [sums, *norm("embeddings.LayerNorm")], "x", epsilon=eps, axis=-1)
    for i in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{i}."
        qkv = [f"{prefix}attention.self.{which}." for which in ("query", "key", "value")]
        product = g.matmul(x, f"{prefix}qkv", np.concatenate([weights[f"{name}weight"] for name in qkv]))
        bias = g.constant(f"{prefix}qkv.bias", np.concatenate([weights[f"{name}bias"] for name in qkv]))
        q, k, v = g.node("Split", [product], [f"{prefix}{which}" for which in "qkv"], axis=-1, num_outputs=3)
        mixed = g.microsoft("MultiHeadAttention", [q, k, v, bias, "mask"], f"{prefix}mixed", num_heads=heads)
        for source, name, output in ((mixed, "attention.output", "mid"), (None, "output", "end")):
            if source is None:
                up = g.matmul(x, f"{prefix}up", weights[f"{prefix}intermediate.dense.weight"])
                source = g.microsoft("BiasGelu", [up, g.constant(f"{prefix}up.bias", weights[f"{prefix}intermediate.dense.bias"])], f"{prefix}gelu")
            product = g.matmul(source, f"{prefix}{output}/product", weights[f"{prefix}{name}.dense.weight"])
            bias = g.constant(f"{prefix}{output}.bias", weights[f"{prefix}{name}.dense.bias"])
            x = g.microsoft("SkipLayerNormalization", [product, x, *norm(f"{prefix}{name}.LayerNorm"), bias], f"{prefix}{output}", epsilon=eps)
    if classifier:
        first = g.node("Gather", [x, zero], "first", axis=1)
        dense = g.matmul(first, "pooler", weights["pooler.dense.weight"])
        pooled = g.node("Tanh", [g.node("Add", [dense, g.constant("pooler.bias", weights["pooler.dense.bias"])], "pooler/sum")], "pooled")
        label = g.node("MatMul", [pooled, g.constant("classifier.weight", classifier["classifier.weight"].T)], "label")
        g.node("Add", [label, g.constant("classifier.bias", classifier["classifier.bias"])], "logits")
    else:
        g.node("Identity", [x], "last_hidden_state")
    graph = helper.make_graph(g.nodes, "minilm", inputs, outputs, g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)], ir_version=9)


def save_model(model, path):
    """Writes an ONNX file. It has its name only when it is complete."""
    save(model, path + ".part")
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--reranker", action="store_true")
    options = parser.parse_args()
    onnx_folder = os.path.join(options.folder, "onnx")
    os.makedirs(onnx_folder, exist_ok=True)
    for name in COPIED_FILES:
        shutil.copy(os.path.join(options.model, name), options.folder)
    with open(os.path.join(options.model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    weights = read_safetensors(os.path.join(options.model, "model.safetensors"))
    if not options.reranker:
        save_model(build(config, weights), os.path.join(onnx_folder, "model_quantized.onnx"))
        return
    weights, classifier = random_reranker(weights, config["hidden_size"])
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    with open(os.path.join(options.folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    write_safetensors(os.path.join(options.folder, "model.safetensors"), {f"bert.{n}": v for n, v in weights.items()} | classifier)
    save_model(build(config, weights, classifier, is_quantized=False), os.path.join(onnx_folder, "model.onnx"))
    save_model(build(config, weights, classifier), os.path.join(onnx_folder, "model_quantized.onnx"))


if __name__ == "__main__":
    main()
