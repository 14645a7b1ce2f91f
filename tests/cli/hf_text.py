# SPDX-License-Identifier: Apache-2.0
"""What tests of language models from Hugging Face's files begin with: a folder of their own, a text
as bytes in it, and a config.json that is given."""
import json
import os
import tempfile
import unittest

import shoal

SEED = int(os.environ.get("SHOAL_TEST_SEED", "20181"))


class Text(unittest.TestCase):
    """Classes say LENGTH, a sample's tokens, and CONFIG."""

    LENGTH, CONFIG = 16, {}

    @classmethod
    def setUpClass(cls):
        print(f"seed {SEED}")
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-test-"))
        cls.data, cls.file = cls.at("data"), cls.at("model.safetensors")
        with open(cls.at("a.txt"), "w", encoding="ascii") as file:
            file.write("".join(f"{i} and {i * i}, " for i in range(300)))
        made = shoal.run("data", "text", "--out", cls.data, "--tokens", "bytes", "--length",
                         cls.LENGTH, cls.at("a.txt"))  # fmt: skip
        assert made.returncode == 0, made.stderr

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    def write_config(self, **other):
        with open(self.at("config.json"), "w", encoding="ascii") as file:
            json.dump({**self.CONFIG, **other}, file)
        return self.at("config.json") + ":parts"
