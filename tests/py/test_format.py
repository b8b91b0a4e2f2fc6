"""The reader written from docs/FORMAT.md and the C loader read the same bits from the same files."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

import bq4_reader
from bq4_reader import FormatError, parse, read, xxh64

ROOT = Path(__file__).resolve().parents[2]
WRITER = ROOT / "build" / "native" / "write_fixtures"


def as_bits(values):
    return np.ascontiguousarray(values, dtype="<f4").view("<u4")


class Fixtures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not WRITER.exists():
            raise AssertionError(f"{WRITER} is missing: make -f emscripten.mk native")
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([WRITER, cls.folder.name], check=True)
        cls.files = sorted(Path(cls.folder.name).glob("*.bq4"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return Path(self.folder.name) / f"{name}.bq4"

    def test_every_kind_of_file_is_there(self):
        names = {p.stem for p in self.files}
        for kind in bq4_reader.TYPES:
            if kind.specified:
                self.assertTrue(any(n.startswith(f"v2-{kind.name}-rows") for n in names), kind.name)
                self.assertTrue(any(n.startswith(f"v2-{kind.name}-tiled") for n in names), kind.name)
        for block in (16, 32, 64):
            self.assertEqual(sum(n.startswith(f"v1-{block}-") for n in names), 6)
        n_specified = sum(kind.specified for kind in bq4_reader.TYPES)
        self.assertEqual(len(names), 4 * n_specified + 2 + 4 + 2 + 18)

    def test_values_agree(self):
        layouts, types = set(), set()
        for path in self.files:
            with self.subTest(path.stem):
                model = read(path)
                lines = [json.loads(line) for line in path.with_suffix(".expect").read_text().splitlines()]
                values = np.fromfile(path.with_suffix(".f32"), "<f4")
                self.assertEqual({t["name"] for t in lines}, set(model.tensors))
                for t in lines:
                    count = int(np.prod(t["dims"]))
                    expected = values[t["at"] // 4 : t["at"] // 4 + count].reshape(t["dims"])
                    tensor = model.tensors[t["name"]]
                    self.assertEqual(tensor.shape, expected.shape)
                    # A quantized 0 times a scale is 0 for both; its sign is compared, too.
                    np.testing.assert_array_equal(as_bits(tensor), as_bits(expected), err_msg=t["name"])
                layouts |= set(model.stored.values())
                types |= {name for name, _ in model.stored.values()}
        self.assertEqual(types, {k.name for k in bq4_reader.TYPES if k.specified})
        self.assertTrue({(k.name, bq4_reader.TILED) for k in bq4_reader.TYPES if k.step} <= layouts)

    def test_hashes_are_checked(self):
        for name in ("v2-chunks", "v2-sha256"):
            path = self.path(name)
            self.assertEqual(read(path).verified_chunks, 3)
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            with self.assertRaisesRegex(FormatError, "chunk 2"):
                parse(bytes(data))

    def test_sections_and_tokenizer(self):
        model = read(self.path("v2-chunks"))
        self.assertEqual(model.sections["LICE"], b"MIT")
        self.assertEqual(model.sections["NAME"], b"fixture")
        self.assertIn("roles", json.loads(model.sections["CHAT"]))
        tokens = model.tokenizer["tokens"]
        self.assertEqual(len(tokens), model.config["tokens"])
        self.assertEqual([t[0] for t in tokens[:5]], [b"<unk>", b"<s>", b"</s>", b" ", b"!"])
        self.assertEqual([t[2] for t in tokens[:4]], [1, 2, 2, 0])

    def test_damage_is_refused(self):
        """Any changed byte of a v2 file is refused."""
        data = bytearray(next(p for p in self.files if p.stem.startswith("v2-bq4_16-rows")).read_bytes())
        (prefix,) = np.frombuffer(data[24:32], "<u8")
        places = [*range(0, 64), *range(64, int(prefix), 37), *range(int(prefix), len(data), 997), len(data) - 1]
        for at in places:
            data[at] ^= 0x10
            with self.assertRaises(FormatError, msg=at):
                parse(bytes(data))
            data[at] ^= 0x10
        parse(bytes(data))

    def test_both_readers_agree_on_damaged_files(self):
        """Both readers accept or refuse the same files with some bytes changed and correct checksums."""
        data = (Path(self.folder.name) / "hostile.bin").read_bytes()
        verdicts = {True: 0, False: 0}
        at = 0
        while at < len(data):
            accepted, size = data[at] == 1, int.from_bytes(data[at + 1 : at + 5], "little")
            file = data[at + 5 : at + 5 + size]
            try:
                parse(file)
                is_valid, message = True, ""
            except FormatError as error:
                is_valid, message = False, str(error)
            self.assertEqual(is_valid, accepted, f"file at {at}: {message}")
            verdicts[accepted] += 1
            at += 5 + size
        self.assertEqual(sum(verdicts.values()), 1500)
        self.assertGreater(min(verdicts.values()), 100)

    def test_truncation_is_refused(self):
        data = next(p for p in self.files if p.stem.startswith("v2-f32-tiled")).read_bytes()
        v1 = self.path("v1-32-64")
        companion = json.loads(v1.with_suffix(".json").read_text())
        v1 = v1.read_bytes()
        for n in [*range(0, 3000, 13), len(data) - 1]:
            with self.assertRaises(FormatError):
                parse(data[:n])
        for n in [*range(0, 2000, 13), len(v1) - 1]:
            with self.assertRaises(FormatError):
                parse(v1[:n], companion)
        parse(v1, companion)
        with self.assertRaises(FormatError):
            parse(v1)

    def test_committed_models(self):
        """Files of other writers of this repository."""
        for path in sorted((ROOT / "models").glob("*.bq4")):
            with self.subTest(path.name):
                model = read(path)
                self.assertEqual(model.version, 2)
                self.assertEqual(model.verified_chunks, -(-(os.path.getsize(path) - self.prefix(path)) // (1 << 20)))

    @staticmethod
    def prefix(path):
        with open(path, "rb") as file:
            return int.from_bytes(file.read(32)[24:], "little")


class Hashes(unittest.TestCase):
    def test_xxh64(self):
        """Values that the xxHash project publishes for its self-test."""
        prime, step, mask = 2654435761, 11400714785074694797, (1 << 64) - 1
        data, g = bytearray(), prime
        for _ in range(222):
            data.append(g >> 56)
            g = g * step & mask
        for n, seed, hash in [
            (0, 0, 0xEF46DB3751D8E999), (0, prime, 0xAC75FDA2929B17EF), (1, 0, 0xE934A84ADB052768),
            (1, prime, 0x5014607643A9B4C3), (4, 0, 0x9136A0DCA57457EE), (14, 0, 0x8282DCC4994E35C8),
            (14, prime, 0xC3BD6BF63DEB6DF0), (222, 0, 0xB641AE8CB691C174), (222, prime, 0x20CB8AB7AE10C14A),
        ]:
            self.assertEqual(xxh64(data[:n], seed), hash)


if __name__ == "__main__":
    unittest.main()
