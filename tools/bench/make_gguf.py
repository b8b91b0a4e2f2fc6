"""Writes a GGUF file with random weights, in a shape of tools/make_random.mjs.

    python make_gguf.py OUT.gguf --quant q4_0 --embed q8_0 --shape '{"hidden": 288, ...}'

Weights have a normal distribution with a standard deviation of 0.02, gains are 1; embedding and LM head are one
tensor. llama-quantize writes the types of `--quant q4_0 --embed q8_0` by default (the LM head is Q8_0 if 256 does
not divide the number of columns), and those of `--embed q4_0` with its option --pure.

`--quant q4_k_m` is llama.cpp's mix of types: Q6_K for half of the value matrices and of the down projections, Q4_K
for all others. If 256 does not divide the number of columns, Q8_0 and Q5_0 take their place.

Each token of the vocabulary is one code point. So a text of these code points has as many tokens as code points, and
the output of a model with random weights is valid UTF-8. With `--bpe` the vocabulary is byte-level with random
merges. With `--vocabulary tokenizer.json` it is that of a byte-level BPE in Hugging Face's format.
"""
import argparse
import json
import os

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType
MIX = "q4_k_m"
TYPES = {"q4_0": Q.Q4_0, "q4_1": Q.Q4_1, "q5_0": Q.Q5_0, "q8_0": Q.Q8_0, "f16": Q.F16,
         "q2_k": Q.Q2_K, "q3_k": Q.Q3_K, "q4_k": Q.Q4_K, "q5_k": Q.Q5_K, "q6_k": Q.Q6_K}
FILE_TYPES = {"q4_0": gguf.LlamaFileType.MOSTLY_Q4_0, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
              "f16": gguf.LlamaFileType.MOSTLY_F16, MIX: gguf.LlamaFileType.MOSTLY_Q4_K_M}
# The package does not quantize to K types. Their blocks are random bytes, except for the f16 scales. For each type: offset of
# each scale in a block, and its mean value.
K_SCALES = {"q2_k": {80: 0.0025, 82: 0.0025}, "q3_k": {108: 0.0005}, "q4_k": {0: 0.0002, 2: 0.0014}, "q5_k": {0: 0.0001, 2: 0.0014}, "q6_k": {208: 0.00002}}
SPECIAL_TOKENS = 3
# Ranges of code points: ideographs, then the private planes.
RANGES = [(0x4E00, 0x9FA6), (0x20000, 0x2A6D7), (0xF0000, 0xFFFFE), (0x100000, 0x10FFFE)]


def code_points(size):
    """Returns tokens and their types: three special tokens, a newline (which llama.cpp's tokenizer requires), code points, pairs."""
    points = [chr(c) for first, end in RANGES for c in range(first, end)]
    pairs = [first + second for first, second in zip(points, points[1:])]  # used if there are too few code points
    tokens = (["<unk>", "<s>", "</s>", "\n"] + points + pairs)[:size]
    assert len(tokens) == size, f"expected a vocabulary of at most {len(tokens)} tokens, found {size}"
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (size - SPECIAL_TOKENS)
    return tokens, kinds


def byte_level(size, rng):
    """Returns tokens, their types and merges: the 256 letters of GPT-2's alphabet, random merges of two tokens, three control tokens."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = [chr(c) for c in printable] + [chr(0x100 + i) for i in range(256 - len(printable))]
    tokens, known_tokens, merges = letters, set(letters), []
    while len(tokens) < size - SPECIAL_TOKENS:
        left, right = tokens[rng.integers(min(len(tokens), 2000))], tokens[rng.integers(len(tokens))]
        if left + right in known_tokens or len(left) + len(right) > 16:
            continue
        known_tokens.add(left + right)
        tokens.append(left + right)
        merges.append(f"{left} {right}")
    tokens += ["<unk>", "<s>", "</s>"]
    return tokens, [gguf.TokenType.NORMAL] * (size - SPECIAL_TOKENS) + [gguf.TokenType.CONTROL] * SPECIAL_TOKENS, merges


def read_vocabulary(path, size):
    """Returns tokens, types and merges of tokenizer.json. Rows of the embedding without a token have unused tokens, as in llama.cpp's converter."""
    with open(path, encoding="utf-8") as file:
        vocabulary = json.load(file)
    tokens = [f"[PAD{i}]" for i in range(size)]
    kinds = [gguf.TokenType.UNUSED] * size
    for text, i in vocabulary["model"]["vocab"].items():
        tokens[i], kinds[i] = text, gguf.TokenType.NORMAL
    for token in vocabulary["added_tokens"]:
        tokens[token["id"]] = token["content"]
        kinds[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in vocabulary["model"]["merges"]]
    return tokens, kinds, merges


def add_byte_level(writer, size, vocabulary):
    """Adds a byte-level vocabulary: tokens, their types and merges."""
    tokens, kinds, merges = vocabulary
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(size - 2)
    writer.add_eos_token_id(size - 1)
    writer.add_add_bos_token(False)


def k_blocks(rng, rows, cols, kind):
    """Returns a matrix of a K type, as rows of bytes."""
    block, size = gguf.GGML_QUANT_SIZES[TYPES[kind]]
    blocks = rng.integers(0, 256, (rows * cols // block, size), dtype=np.uint8)
    for offset, mean in K_SCALES[kind].items():
        scales = (mean * rng.uniform(0.8, 1.2, len(blocks))).astype(np.float16)
        blocks[:, offset:offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def add_config(writer, shape):
    heads = shape["heads"]
    writer.add_context_length(shape["context"])
    writer.add_embedding_length(shape["hidden"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["ffn"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(shape.get("kv_heads", heads))
    writer.add_layer_norm_rms_eps(shape["norm_eps"])
    writer.add_rope_freq_base(shape.get("rope_theta", 10000.0))
    writer.add_rope_dimension_count(shape["hidden"] // heads)
    writer.add_vocab_size(shape["vocab"])


def add_tokenizer(writer, size):
    tokens, kinds = code_points(size)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(size)])
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)


def type_in_mix(name, layer, layers, cols):
    """Returns the type that llama-quantize chooses for a matrix in Q4_K_M (llama_tensor_get_type of llama.cpp)."""
    eighth = layers // 8
    is_important = layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    kind = "q6_k" if is_important and name in ("attn_v", "ffn_down") else "q4_k"
    return kind if cols % 256 == 0 else {"q6_k": "q8_0", "q4_k": "q5_0"}[kind]


def write_file(path, shape, quant, embed, bpe=False, vocabulary=None, seed=1):
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random weights")
    if quant in FILE_TYPES:
        writer.add_file_type(FILE_TYPES[quant])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_config(writer, shape)
    if bpe or vocabulary:
        tokens = read_vocabulary(vocabulary, shape["vocab"]) if vocabulary else byte_level(shape["vocab"], rng)
        add_byte_level(writer, shape["vocab"], tokens)
    else:
        add_tokenizer(writer, shape["vocab"])

    def add_matrix(name, rows, cols, kind):
        if kind in K_SCALES:
            writer.add_tensor(name, k_blocks(rng, rows, cols, kind), raw_dtype=TYPES[kind])
            return
        values = rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.02)
        writer.add_tensor(name, gguf.quants.quantize(values, TYPES[kind]), raw_dtype=TYPES[kind])

    def add_gains(name, size):
        writer.add_tensor(name, np.ones(size, np.float32))

    hidden, ffn = shape["hidden"], shape["ffn"]
    kv = hidden // shape["heads"] * shape.get("kv_heads", shape["heads"])
    add_matrix("token_embd.weight", shape["vocab"], hidden, embed)
    for i in range(shape["layers"]):
        prefix = f"blk.{i}."
        add_gains(prefix + "attn_norm.weight", hidden)
        add_gains(prefix + "ffn_norm.weight", hidden)
        for name, rows, cols in (("attn_q", hidden, hidden), ("attn_k", kv, hidden), ("attn_v", kv, hidden),
                                 ("attn_output", hidden, hidden), ("ffn_gate", ffn, hidden),
                                 ("ffn_up", ffn, hidden), ("ffn_down", hidden, ffn)):
            add_matrix(f"{prefix}{name}.weight", rows, cols, type_in_mix(name, i, shape["layers"], cols) if quant == MIX else quant)
    add_gains("output_norm.weight", hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--shape", required=True, type=json.loads)
    parser.add_argument("--quant", default="q4_0", choices=[*TYPES, MIX])
    parser.add_argument("--embed", default="q8_0", choices=TYPES)
    parser.add_argument("--bpe", action="store_true")
    parser.add_argument("--vocabulary")
    options = parser.parse_args()
    temporary = options.out + ".part"
    write_file(temporary, options.shape, options.quant, options.embed, options.bpe, options.vocabulary)
    os.replace(temporary, options.out)
