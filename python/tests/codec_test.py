#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Codecs on arrays: what the library promises holds for what Python gets."""

import unittest

import launch

numpy = launch.needs("numpy")

import shoal  # noqa: E402


def gaussian(count=4096):
    return numpy.random.default_rng(3).standard_normal(count).astype(numpy.float32)


class CodecTest(unittest.TestCase):
    def test_every_codec_round_trips_within_its_promise(self):
        x = gaussian()
        power = float((x.astype(float) ** 2).sum())
        self.assertIn("terngrad", shoal.codecs())
        for name in shoal.codecs():
            codec = shoal.Codec(name)
            if "transform" in codec.traits:
                continue
            shared = codec.measure(x) if "measure" in codec.traits else None
            y = codec.decode(codec.encode(x, shared=shared), x.size, shared=shared)
            if "lossless" in codec.traits:
                self.assertTrue((x == y).all(), name)
            elif codec.variance != float("inf"):
                error = float(((x.astype(float) - y) ** 2).sum()) / power
                self.assertLess(error, 1.2 * codec.variance + 1e-9, name)

    def test_published_figures(self):
        x = gaussian(1 << 16)
        coded = shoal.Codec("terngrad").encode(x)
        self.assertEqual(x.size // 4, len(coded))  # two bits
        self.assertAlmostEqual(2.0, shoal.Codec("fp16").bytes_per_elem())

    def test_decoding_adds_and_fills_what_it_is_given(self):
        x, codec = gaussian(), shoal.Codec("int8")
        coded = codec.encode(x, seed=5)
        once = codec.decode(coded, x.size, seed=5)
        target = once.copy()
        self.assertIs(target, codec.decode(coded, x.size, seed=5, out=target, add=True))
        self.assertTrue((target == once + once).all())
        self.assertEqual(coded, codec.encode(x, seed=5))
        self.assertNotEqual(coded, codec.encode(x, seed=6))

    def test_hostile_bytes_and_bad_specs(self):
        codec = shoal.Codec("zstd")
        for data in (b"", b"\xff" * 50, codec.encode(gaussian())[:-7]):
            with self.assertRaises(shoal.CorruptData):
                codec.decode(data, 4096)
        with self.assertRaisesRegex(ValueError, "Did you mean"):
            shoal.Codec("terngrat")
        with self.assertRaisesRegex(ValueError, "count is 3"):
            codec.decode(b"", 3, out=numpy.zeros(2, numpy.float32))
        with self.assertRaises(shoal.NotFinite):
            shoal.Codec("int8").encode(numpy.full(8, numpy.nan, numpy.float32))
        self.assertTrue(shoal.Codec("topk").carried_by("gather"))
        self.assertFalse(shoal.Codec("topk").carried_by("ring"))

    def test_bytes_that_are_too_many_and_a_wrong_count_are_refused(self):
        x = gaussian()
        for name in shoal.codecs():
            codec = shoal.Codec(name)
            if "transform" in codec.traits:
                continue
            shared = codec.measure(x) if "measure" in codec.traits else None
            coded = codec.encode(x, shared=shared)
            cases = [(coded + b"\x5a" * 80, x.size), (coded + b"\0", x.size)]
            cases += [(coded, count) for count in (0, 1, x.size // 2, 2 * x.size)]
            for data, count in cases:
                with self.subTest(codec=name, extra=len(data) - len(coded), count=count):
                    with self.assertRaises(shoal.CorruptData):
                        codec.decode(data, count, shared=shared)


if __name__ == "__main__":
    unittest.main()
