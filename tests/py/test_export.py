"""Tests of tools/export_bq4.py: it reads checkpoints, executes nothing of them, and bq4_reader.py reads the written files."""

import base64
import contextlib
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CHECKPOINTS = os.path.join(HERE, "checkpoints")
SHARED = os.path.join(os.environ.get("BQ4_SHARED", os.path.join(os.path.dirname(ROOT), "shared")), "data")
sys.path.insert(0, os.path.join(ROOT, "tools"))

import bq4_reader  # noqa: E402
import export_bq4  # noqa: E402
from bq4_export import encode, unpickle, xxh64  # noqa: E402
from bq4_export.errors import ExportError  # noqa: E402
from checkpoint_weights import GPT, LLAMA, weights  # noqa: E402

JSON_CONFIG = {"arch": "llama", "heads": 2, "context": 24}


def checkpoint(name):
    return os.path.join(CHECKPOINTS, name)


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    def check_refused(self, code, call, *args, **kwargs):
        with self.assertRaises(ExportError) as caught:
            call(*args, **kwargs)
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        return str(caught.exception)

    def export(self, checkpoint_name, **options):
        """Exports a checkpoint and reads the file back."""
        source = checkpoint_name if os.path.isabs(checkpoint_name) else checkpoint(checkpoint_name)
        out = self.path("out.bq4")
        self.lines = []
        self.exports = export_bq4.export(source, out, out=self.lines.append, **options)
        return bq4_reader.read(out)

    def check_weights(self, model, expected):
        self.assertEqual(set(model.tensors), set(expected))
        for name, values in expected.items():
            np.testing.assert_array_equal(model.tensors[name], values, name)


class Reading(Folder):
    def test_zip_legacy_and_plain_pickles(self):
        expected = weights(LLAMA)
        state = unpickle.read_checkpoint(checkpoint("plain.pkl"))["state_dict"]
        for name, tensor in state.items():
            np.testing.assert_array_equal(tensor.rows(), expected[name])
        for name in ("hf-f16.bin", "hf-bf16-legacy.bin"):
            state = unpickle.read_checkpoint(checkpoint(name))
            np.testing.assert_array_equal(state["model.layers.1.mlp.up_proj.weight"].rows(), expected["h.1.mlp.up.weight"])
            np.testing.assert_array_equal(state["lm_head.weight"].rows(3, 7), expected["lm_head.weight"][3:7])

    def test_views_and_types(self):
        state = unpickle.read_checkpoint(checkpoint("views.pt"))
        base = np.arange(24, dtype=np.float32).reshape(4, 6)
        for name, expected in {
            "transposed": base.T, "columns": base[:, 1:5:2], "row": base[2], "parameter": base + 0.5, "empty": np.zeros((0, 3)),
            "i64": np.arange(5), "bool": [1, 0], "f64": [0.25], "u8": np.arange(4), "scalar": 2.5,
        }.items():
            np.testing.assert_array_equal(state[name].rows(), np.asarray(expected, np.float32), name)
        np.testing.assert_array_equal(state["transposed"].rows(2, 5), base.T[2:5])

    def test_pickled_arrays_of_every_protocol(self):
        arrays = {"c": np.arange(6.0).reshape(2, 3), "f": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
                  "h": np.ones(3, np.float16), "i": np.arange(4)}
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            state = unpickle.read_checkpoint(self.path("a.pkl", pickle.dumps({"deep": arrays}, protocol)))["deep"]
            for name, values in arrays.items():
                np.testing.assert_array_equal(state[name].rows(), values.astype(np.float32), f"{name}, protocol {protocol}")

    @unittest.skipUnless(os.path.isdir(SHARED), "no shared data")
    def test_files_of_other_programs(self):
        state = unpickle.read_checkpoint(os.path.join(SHARED, "import/fortran_tensor_3d.pth"))
        np.testing.assert_array_equal(state["tensor_fortran"].rows(), np.arange(1, 25).reshape(2, 3, 4))
        for name, key in (("test.pt", None), ("test_with_key.pt", "model_state_dict")):
            state = export_bq4.find_state(unpickle.read_checkpoint(os.path.join(SHARED, "import", name)), key)
            np.testing.assert_array_equal(state["test"].rows(), np.arange(1, 9).reshape(2, 4))

    def test_every_truncation_is_a_typed_error(self):
        for name in ("plain.pkl", "views.pt", "hf-bf16-legacy.bin"):
            with open(checkpoint(name), "rb") as file:
                data = file.read()
            for n in range(0, len(data), 37):
                path = self.path("cut", data[:n])
                with self.assertRaises(ExportError, msg=f"{name} cut at {n}"):
                    unpickle.read_checkpoint(path)

    def test_damaged_bytes_give_typed_errors(self):
        rng = np.random.default_rng(1)
        for name in ("plain.pkl", "views.pt", "hf-bf16-legacy.bin"):
            with open(checkpoint(name), "rb") as file:
                data = np.frombuffer(file.read(), np.uint8)
            for _ in range(150):
                damaged = data.copy()
                damaged[rng.integers(0, min(len(damaged), 3000), 3)] = rng.integers(0, 256, 3)
                with contextlib.suppress(ExportError):
                    state = unpickle.read_checkpoint(self.path("bad", damaged.tobytes()))
                    if isinstance(state, dict):
                        for tensor in state.values():
                            if isinstance(tensor, unpickle.Tensor):
                                tensor.rows()


class Call:
    """An object that is pickled as a call of `function` with `args`."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


class Hostile(Folder):
    """Functions named by a pickle are never called."""

    def attack(self, data, name="attack.pkl"):
        path = self.path(name, data)
        message = self.check_refused("REFUSED", unpickle.read_checkpoint, path)
        self.assertFalse(os.path.exists(self.path("touched")), "the pickle was executed")
        return message

    def payload(self):
        return Call(os.system, f"echo > {self.path('touched')}")

    def test_the_attack_works_with_plain_pickle(self):
        pickle.loads(pickle.dumps(self.payload()))
        self.assertTrue(os.path.exists(self.path("touched")))

    def test_every_protocol(self):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            message = self.attack(pickle.dumps({"weight": self.payload()}, protocol))
            self.assertIn(f"{os.system.__module__}.system", message)

    def test_every_way_to_name_a_function(self):
        command = f"echo > {self.path('touched')}".encode()
        self.attack(b"cos\nsystem\n(V" + command + b"\ntR.")
        self.attack(b"(S'" + command + b"'\nios\nsystem\n.")
        self.attack(b"(cos\nsystem\nV" + command + b"\no.")
        self.attack(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c" + bytes([len(command)]) + command + b"\x85R.")
        for name in (b"builtins\neval", b"builtins\ngetattr", b"torch\nload", b"torch.storage\nload", b"numpy\nload", b"pickle\nloads", b"subprocess\nPopen"):
            self.attack(b"c" + name + b"\n(V1\ntR.")

    def test_within_an_archive_and_within_a_storage(self):
        inner = pickle.dumps(self.payload())
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("archive/data.pkl", inner)
        self.attack(archive.getvalue(), "attack.pt")
        nested = b"\x80\x02ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(inner)) + inner + b"\x85R."
        self.attack(nested)

    def test_attributes_of_what_is_allowed(self):
        # Dots in a name would access attributes of a replacement.
        self.attack(b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.__init__\x93.")
        self.attack(b"\x80\x04\x8c\x05torch\x8c\x16FloatStorage.__class__\x93.")

    def test_a_module_is_refused_with_advice(self):
        with self.assertRaises(ExportError) as caught:
            unpickle.read_checkpoint(checkpoint("module.pt"))
        self.assertEqual(caught.exception.code, "REFUSED")
        self.assertIn("state_dict", caught.exception.hint)

    def test_wrong_sizes(self):
        message = self.check_refused("FORMAT", unpickle.read_checkpoint, self.path("lie.pkl", b"\x80\x02r\xff\xff\xff\x7f."))
        self.assertIn("memo 2147483647", message)
        for data in (b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x00.", b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."):
            self.check_refused("FORMAT", unpickle.read_checkpoint, self.path("lie.pkl", data))

    def archive(self, count, start, shape, strides):
        """A torch archive with one storage of 8 f32 elements, and a pickle with any sizes."""

        def number(n):
            return b"\x8a\x09" + n.to_bytes(9, "little", signed=True)

        def numbers(values):
            return b"(" + b"".join(map(number, values)) + b"t"

        storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu" + number(count) + b"tQ"
        program = b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(start) + numbers(shape) + numbers(strides) + b"\x89}tRs."
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            file.writestr("a/data.pkl", program)
            file.writestr("a/data/0", np.arange(8, dtype="<f4").tobytes())
        return self.path("archive.pt", out.getvalue())

    def test_wrong_tensors(self):
        valid = unpickle.read_checkpoint(self.archive(8, 1, (2, 3), (3, 1)))["w"]
        np.testing.assert_array_equal(valid.rows(), [[1, 2, 3], [4, 5, 6]])
        for lie in (
            (9, 0, (9,), (1,)),  # a storage larger than its data
            (1 << 61, 0, (1,), (1,)),
            (-1, 0, (0,), (1,)),
            (8, 3, (2, 3), (3, 1)),  # a view larger than its storage
            (8, 0, (3,), (4,)),
            (8, 0, (2,), (1 << 61,)),
            (8, 8, (1,), (1,)),
            (8, 7, (2,), (-1,)),
            (8, -1, (1,), (1,)),
            (8, 0, (-2, -2), (1, 1)),
            (8, 0, (1 << 40, 1 << 20), (0, 0)),  # eight elements with stride 0
            (8, 0, (2, 2), (1,)),
            (8, 0, (1,) * 9, (1,) * 9),
        ):
            self.check_refused("FORMAT", unpickle.read_checkpoint, self.archive(*lie))


class Writing(Folder):
    def test_hugging_face_names(self):
        for name in ("hf-f16.bin", "hf-bf16-legacy.bin"):
            model = self.export(name, quant="f32", config=self.path("c.json", JSON_CONFIG))
            self.check_weights(model, weights(LLAMA))
            self.assertEqual((model.config["rope_pairs"], model.config["tied"], model.config["kv_heads"]), (0, 0, 1))

    def test_llama2c_training_checkpoint(self):
        model = self.export("llama2c.pt", quant="f32")
        expected = weights(LLAMA)
        del expected["lm_head.weight"]  # the same storage as the embedding
        self.check_weights(model, expected)
        self.assertEqual([model.config[k] for k in ("rope_pairs", "tied", "heads", "kv_heads", "context", "layers", "ffn")], [1, 1, 2, 1, 24, 2, 12])

    def test_nanogpt(self):
        model = self.export("nanogpt.pt", quant="f32")
        self.check_weights(model, weights(GPT))
        self.assertEqual([model.config[k] for k in ("norm", "position", "activation", "gated", "tied", "context")], [1, 1, 1, 0, 1, 10])

    def test_canonical_names(self):
        state = {"state_dict": weights(LLAMA)}
        path = self.path("model.pkl", pickle.dumps(state))
        self.check_weights(self.export(path, quant="f32", config=self.path("c.json", JSON_CONFIG)), weights(LLAMA))

    def test_types_and_figures(self):
        expected = weights(LLAMA)
        config = self.path("c.json", JSON_CONFIG)
        for quant in encode.TYPES:
            model = self.export("hf-f16.bin", quant=quant, embed=quant, config=config)
            self.assertEqual(model.stored["h.0.attn.q.weight"], (quant, encode.run_layout(quant)))
            for e in self.exports:
                error = np.abs(model.tensors[e.name].astype(np.float64) - expected[e.name])
                np.testing.assert_allclose(e.figures, (error.mean(), error.max(), np.sqrt((error ** 2).mean())), rtol=1e-12, atol=0)
            self.assertRegex(self.lines[-1], r"\d+ weights in \d+ bytes: \d+\.\d\d bits each, \d+\.\d\d times smaller than f32")
            self.assertEqual(len(self.lines), len(expected) + 2)
        model = self.export("hf-f16.bin", config=config)
        self.assertEqual([model.stored[n][0] for n in ("wte.weight", "h.0.mlp.up.weight", "ln_f.weight")], ["bq8_32", "bq4_32", "f32"])

    def test_v1_and_its_companion(self):
        model = self.export("hf-f16.bin", v1=True, config=self.path("c.json", JSON_CONFIG), license="MIT", name="small")
        self.assertEqual(model.version, 1)
        for name, values in weights(LLAMA).items():
            kind = "bq4_32" if values.size % 32 == 0 else "bq4_16" if values.size % 16 == 0 else "f32"
            self.assertEqual(model.stored[name][0], kind, name)
            if kind == "f32":
                np.testing.assert_array_equal(model.tensors[name], values)
            else:
                np.testing.assert_array_less(np.abs(model.tensors[name] - values), 100 / 256 / 7 / 2 * (1 + 1e-5))
        with open(self.path("out.json"), encoding="utf8") as file:
            companion = json.load(file)
        self.assertEqual((companion["license"], companion["name"]), ("MIT", "small"))

    def test_llama2c_bin_and_tokenizer(self):
        expected = weights(LLAMA)
        head = struct.pack("<7i", 8, 12, 2, 2, 1, -20, 24)
        order = ["wte", "ln1", "attn.q", "attn.k", "attn.v", "attn.o", "ln2", "mlp.gate", "mlp.down", "mlp.up", "ln_f"]
        body = b""
        for key in order:
            layered = key not in ("wte", "ln_f")
            for n in range(2 if layered else 1):
                body += expected[f"h.{n}.{key}.weight" if layered else f"{key}.weight"].tobytes()
        body += bytes(4 * 24 * 4) + expected["lm_head.weight"].tobytes()
        texts = [b"<unk>", b"\n<s>\n", b"\n</s>\n", b"<0x41>", *(b" w%d" % i for i in range(16))]
        tokens = struct.pack("<I", 8) + b"".join(struct.pack("<fI", -i, len(t)) + t for i, t in enumerate(texts))
        path = self.path("model.bin", head + body)
        model = self.export(path, quant="f32", tokenizer_path=self.path("tokenizer.bin", tokens))
        self.check_weights(model, expected)
        self.assertEqual(model.config["rope_pairs"], 1)
        t = model.tokenizer
        self.assertEqual((t["kind"], t["flags"], t["bos"], t["eos"], t["eog"]), (1, 13, 1, 2, [1, 2]))
        self.assertEqual(t["tokens"][:5], [(b"<unk>", 0.0, 1), (b"<s>", -1.0, 2), (b"</s>", -2.0, 2), (b"A", -3.0, 5), (b" w0", -4.0, 0)])
        self.check_refused("TRUNCATED", self.export, self.path("cut.bin", (head + body)[:-1]))
        self.check_refused("FORMAT", self.export, path, tokenizer_path=self.path("cut.tok", tokens[:-1]))

    def test_refused_exports(self):
        config = self.path("c.json", JSON_CONFIG)
        names_before = set(os.listdir(self.folder))

        def state(change):
            tensors = weights(LLAMA)
            change(tensors)
            return self.path("model.pkl", pickle.dumps(tensors))

        def poison(tensors):
            tensors["h.1.attn.o.weight"][2, 3] = np.nan

        self.assertIn('"h.1.attn.o.weight": weight 19 is nan', self.check_refused("FORMAT", self.export, state(poison), config=config))
        self.assertIn("is missing", self.check_refused("SHAPE", self.export, state(lambda t: t.pop("h.1.ln2.weight")), config=config))
        self.assertIn("expected only tensors of the configuration", self.check_refused("SHAPE", self.export, state(lambda t: t.update({"h.2.ln1.weight": t["ln_f.weight"]})), config=self.path("c2.json", {**JSON_CONFIG, "layers": 2})))
        self.check_refused("UNSUPPORTED", self.export, state(lambda t: t.update({"q_norm.weight": t["ln_f.weight"]})), config=config)
        self.assertIn("heads, context", self.check_refused("FORMAT", self.export, state(lambda t: None)))
        self.check_refused("FORMAT", self.export, self.path("none.pkl", pickle.dumps({"a": 1})))
        self.check_refused("ARGUMENT", self.export, checkpoint("hf-f16.bin"), quant="q4_k", config=config)
        self.check_refused("READ", self.export, self.path("missing.pt"))
        self.check_refused("UNSUPPORTED", self.export, "hf-f16.bin", config=self.path("hf.json", {"hidden_size": 8, "model_type": "gemma"}))
        self.assertEqual({n for n in os.listdir(self.folder) if n not in names_before and n.startswith("out")}, set(), "nothing half-written")

    def test_the_command(self):
        def run(*args):
            return subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tools/export_bq4.py"), *args], capture_output=True, text=True)

        out = self.path("out.bq4")
        valid = run(checkpoint("llama2c.pt"), out)
        self.assertEqual(valid.returncode, 0, valid.stderr)
        self.assertRegex(valid.stdout, r"h\.0\.mlp\.down\.weight +bq4_32 +\d+ +\d\.\d\de-\d\d +\d\.\d\de-\d\d +\d\.\d\de-\d\d\n")
        listed = run(checkpoint("llama2c.pt"), "--list")
        self.assertIn("_orig_mod.layers.0.attention.wq.weight: float (8, 8)", listed.stdout)
        refused = run(checkpoint("module.pt"), out)
        self.assertEqual(refused.returncode, 1)
        expected = "export_bq4: REFUSED: expected only names of tensors and arrays in the pickle, found training_script.Model"
        self.assertTrue(refused.stderr.startswith(expected), refused.stderr)


class Encoders(unittest.TestCase):
    def test_xxh64(self):
        rng = np.random.default_rng(2)
        self.assertEqual(xxh64.xxh64(b""), 0xEF46DB3751D8E999)
        self.assertEqual(xxh64.xxh64(b"abc"), 0x44BC2CF5AD770999)
        for n in (*range(100), 1000, 4096):
            data = rng.bytes(n)
            self.assertEqual(xxh64.xxh64(data), bq4_reader.xxh64(data))
        blocks = rng.integers(0, 256, (5, 1024), dtype=np.uint8)
        self.assertEqual(xxh64.xxh64_many(blocks), [xxh64.xxh64(b.tobytes()) for b in blocks])

    def test_bytes_agree_with_the_reader(self):
        rng = np.random.default_rng(3)
        for name in encode.TYPES:
            kind = bq4_reader.BY_NAME[name]
            for layout in (encode.ROWS, encode.TILED) if kind.step else (encode.ROWS,):
                for rows, cols in ((1, 1), (3, 31), (8, 64), (9, 33), (17, 100)):
                    values = rng.standard_normal((rows, cols)).astype(np.float32)
                    data, decoded = encode.encode(name, layout, values)
                    self.assertEqual(len(data), bq4_reader.stored_bytes(kind, layout, rows, cols))
                    np.testing.assert_array_equal(bq4_reader.dequantize(kind, layout, data, rows, cols, name), decoded, f"{name} {layout} {rows} x {cols}")

    def test_halves_are_rounded_away_from_zero(self):
        halves = np.array([[7, -6.5, -5.5, -4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 0]], np.float32)
        expected = [[7, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 0]]
        for name in ("bq4_16", "bq4_32", "bq4h_32"):
            np.testing.assert_array_equal(encode.encode(name, encode.ROWS, halves)[1], expected)

    def test_values_outside_a_type(self):
        for name, size in (("f16", 65520), ("bq4h_32", 7 * 65520), ("bq8_32", 127 * 65520), ("bf16", 3.4e38)):
            values = np.ones((2, 32), np.float32)
            values[1, 1] = size
            with self.assertRaisesRegex(ExportError, "weight 33 is"):
                encode.encode(name, encode.ROWS, values)
        for name in encode.TYPES:
            with self.assertRaisesRegex(ExportError, "weight 5 is inf"):
                encode.encode(name, encode.ROWS, np.array([[0, 0, 0, 0, 0, np.inf]], np.float32))


if __name__ == "__main__":
    unittest.main()
