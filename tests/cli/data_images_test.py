# SPDX-License-Identifier: Apache-2.0
"""shoal data images, shoal data check: folders, arrays and tables of one's own beside what NumPy,
PyTorch and a writer of PNG here say of them; and what is wrong with them, by name."""
import base64
import io
import json
import os
import shutil
import struct
import sys
import tempfile
import unittest
import zlib

import shoal
import train_test

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: no {missing.name} for Python", file=sys.stderr)
    sys.exit(shoal.SKIP)

CLASSES, SIDE = ("cat", "dog", "owl"), 12
# 16 x 16, red 200, green 8 times the row, blue 100: of libjpeg's encoder, quality 90.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4R"
    "DgsLEBYQERMUFRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU"
    "FBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBT/wAARCAAQABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAA"
    "AAf/xAAYEAADAQEAAAAAAAAAAAAAAAAAFmIBof/EABUBAQEAAAAAAAAAAAAAAAAAAAQI/8QAFhEAAwAAAAAAAAAA"
    "AAAAAAAAABVh/9oADAMBAAIRAxEAPwCJqkcCpHCyqkaFSNCuKVk/p//Z")


def png(pixels, kind=None):
    """[h][w] grey, [h][w][2] with alpha, [h][w][3], [h][w][4] with alpha; uint8 or uint16."""
    pixels = np.atleast_3d(pixels)
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[pixels.shape[2]] if kind is None else kind
    big = pixels.astype(">u2") if pixels.dtype == np.uint16 else pixels

    def chunk(name, data):
        return (struct.pack(">I", len(data)) + name + data
                + struct.pack(">I", zlib.crc32(name + data)))

    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8 * pixels.itemsize, kind,
                       0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in big)))
            + chunk(b"IEND", b""))


def read_idx(path):
    with open(path, "rb") as f:
        zero, kind, dims = struct.unpack(">HBB", f.read(4))
        assert zero == 0
        sizes = struct.unpack(f">{dims}I", f.read(4 * dims))
        return np.frombuffer(f.read(), {8: np.uint8, 12: ">i4"}[kind]).reshape(sizes)


def read_set(folder):
    return [read_idx(os.path.join(folder, name)) for name in (
        "train-images-idx4-ubyte", "train-labels-idx1-int", "t10k-images-idx4-ubyte",
        "t10k-labels-idx1-int")]


class DataImages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shoal-images-")
        self.random = np.random.default_rng(5)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, content, *names):
        os.makedirs(os.path.dirname(self.path(*names)), exist_ok=True)
        with open(self.path(*names), "wb") as f:
            f.write(content)

    def draw(self, *shape):
        return self.random.integers(0, 256, shape, np.uint8)

    def photos(self, counts=(20, 10, 30), root=("photos",)):
        """Files of noise; image n of class c, by its path."""
        made = {}
        for kind, count in zip(CLASSES, counts):
            for n in range(count):
                made[kind, n] = self.draw(SIDE, SIDE, 3)
                self.write(png(made[kind, n]), *root, kind, f"{n:03}.png")
        return made

    def make(self, source, *args, out="out", code=0):
        r = shoal.run("data", "images", "--from", self.path(source), "--out", self.path(out),
                      *args)
        self.assertEqual(r.returncode, code, r.stderr)
        return json.loads(r.stdout) if "--json" in args and code == 0 else r.stderr

    def check(self, source, *args):
        r = shoal.run("data", "check", self.path(source), *args, "--json")
        return r.returncode, json.loads(r.stdout)

    def test_a_folder_per_class_is_divided_by_seed_within_each_class(self):
        made = self.photos()
        said = self.make("photos", "--json", "--test", 0.2)
        self.assertEqual(said, {"train": 48, "test": 12, "classes": 3, "channels": 3,
                                "height": SIDE, "width": SIDE})
        x, y, tx, ty = read_set(self.path("out"))
        self.assertEqual([list(ty).count(c) for c in range(3)], [4, 2, 6])
        with open(self.path("out", "classes.txt"), encoding="ascii") as f:
            self.assertEqual(tuple(f.read().split()), CLASSES)
        left = {key: value.transpose(2, 0, 1) for key, value in made.items()}
        for image, label in zip(np.concatenate([x, tx]), np.concatenate([y, ty])):
            key = next(k for k, v in left.items() if np.array_equal(v, image))
            self.assertEqual(key[0], CLASSES[label])
            del left[key]
        self.assertEqual(left, {})  # each image is there once
        self.make("photos", "--test", 0.2, out="again")
        self.make("photos", "--test", 0.2, "--seed", 2, out="other")
        for a, b in zip(read_set(self.path("out")), read_set(self.path("again"))):
            self.assertTrue(np.array_equal(a, b))
        self.assertFalse(np.array_equal(tx, read_set(self.path("other"))[2]))

    def test_folders_train_and_test_are_kept(self):
        self.photos((5, 6, 7), ("photos", "train"))
        self.photos((1, 2, 3), ("photos", "val"))
        said = self.make("photos", "--json")
        self.assertEqual((said["train"], said["test"], said["classes"]), (18, 6, 3))
        self.write(png(self.draw(SIDE, SIDE, 3)), "photos", "val", "rat", "1.png")
        self.assertIn("has a class rat that the training images lack", self.refused("photos"))

    def refused(self, source, *args):
        """Exit code 1 or 2, and nothing is left."""
        r = shoal.run("data", "images", "--from", self.path(source), "--out", self.path("no"),
                      *args)
        self.assertIn(r.returncode, (1, 2), r.stdout)
        self.assertFalse(os.path.exists(self.path("no")), r.stderr)
        return r.stderr

    def test_kinds_of_png_and_a_jpeg(self):
        grey, alpha = self.draw(16, 16), self.draw(16, 16, 4)
        deep = self.random.integers(0, 65536, (16, 16, 3)).astype(np.uint16)
        for name, content in (("0", png(grey)), ("1", png(alpha)), ("2", png(deep))):
            self.write(content, "photos", "a", name + ".png")
        self.write(JPEG, "photos", "a", "3.jpg")
        self.write(png(grey), "photos", "b", "0.PNG")
        self.write(b"not a picture", "photos", "b", "notes.txt")
        self.write(png(grey), "photos", "b", "1.png")
        self.make("photos", "--channels", 3, "--test", 0.01)
        x, y, tx, ty = read_set(self.path("out"))
        images = list(x[y == 0]) + list(tx[ty == 0])
        want = [np.stack([grey] * 3), alpha[..., :3].transpose(2, 0, 1), None,
                np.stack([np.full((16, 16), 200), np.arange(16)[:, None] * np.full(16, 8),
                          np.full((16, 16), 100)])]
        for expected, slack in ((want[0], 0), (want[1], 0), (want[3], 8)):
            best = min(np.abs(image.astype(int) - expected).max() for image in images)
            self.assertLessEqual(best, slack)

    def test_sizes_as_pytorch_resizes(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no torch for Python")
        tall = self.draw(40, 24, 3)
        for n in range(2):
            self.write(png(tall), "photos", "a", f"{n}.png")
        resize = torch.nn.functional.interpolate
        planes = torch.tensor(tall.transpose(2, 0, 1)[None].astype(np.float32))
        for out, size, args in (("down", (10, 9), ("--fit", "stretch")),
                                ("up", (50, 60), ("--fit", "stretch")), ("crop", (12, 12), ())):
            self.make("photos", "--size", f"{size[0]}x{size[1]}", *args, out=out)
            got = read_set(self.path(out))[0][0].astype(np.float32)
            want = resize(planes, size if args else (20, 12), mode="bilinear", antialias=True)
            want = want if args else want[:, :, 4:16]
            self.assertLessEqual(np.abs(got - want[0].numpy()).max(), 0.51, out)

    def test_what_differs_or_is_broken_is_named_and_nothing_is_left(self):
        self.photos((4, 4, 4))
        self.write(png(self.draw(SIDE, SIDE + 1, 3)), "photos", "dog", "x.png")
        said = self.refused("photos")
        self.assertIn("dog/x.png is 12 x 13", said)
        self.assertIn("--size HEIGHTxWIDTH", said)
        self.write(png(self.draw(SIDE, SIDE)), "photos", "dog", "x.png")
        self.assertIn("dog/x.png is grey", self.refused("photos"))
        self.write(JPEG[:-30], "photos", "dog", "x.jpg")
        self.write(png(self.draw(SIDE, SIDE, 3))[:200], "photos", "dog", "x.png")
        self.write(b"GIF89a and so on", "photos", "owl", "x.jpeg")
        self.assertIn("dog/x.jpg is no whole JPEG", self.refused("photos"))
        self.assertIn("3 classes (cat, dog, owl), 4 were expected",
                      self.refused("photos", "--classes", 4))
        code, said = self.check("photos", "--classes", 4)
        self.assertEqual(code, 1)
        for part in ("x.jpg is no whole JPEG", "x.png is no whole PNG", "x.jpeg is neither",
                     "4 were expected"):
            self.assertEqual(sum(part in problem for problem in said["problems"]), 1, said)
        self.assertEqual(len(said["problems"]), 4)
        os.makedirs(self.path("photos", "rat"))
        self.assertIn("rat holds no .png", self.refused("photos"))
        os.makedirs(self.path("empty"))
        self.assertIn("no folders of images", self.refused("empty"))
        self.assertIn("cannot read", self.refused("nothing"))

    def test_arrays_of_numpy(self):
        x, y = self.draw(30, 7, 9, 3), np.arange(30) % 5
        last = x.transpose(0, 3, 1, 2)
        np.save(self.path("x.npy"), x)
        np.save(self.path("y.npy"), y)
        self.make("x.npy", "--labels", self.path("y.npy"), out="npy")
        np.savez(self.path("a.npz"), x=np.ascontiguousarray(last), y=y.astype(np.uint8))
        self.make("a.npz", out="npz")
        for a, b in zip(read_set(self.path("npy")), read_set(self.path("npz"))):
            self.assertTrue(np.array_equal(a, b))
        got = read_set(self.path("npy"))
        self.assertEqual(got[0].shape, (25, 3, 7, 9))
        for image, label in zip(got[0], got[1]):
            n = next(n for n in range(30) if np.array_equal(last[n], image))
            self.assertEqual(y[n], label)
        grey = self.draw(8, 6, 6)
        np.savez_compressed(self.path("k.npz"), x_train=grey, y_train=[300, 1] * 4,
                            x_test=grey[:2], y_test=[[1], [0]])
        said = self.make("k.npz", "--json", out="keras")
        self.assertEqual((said["train"], said["test"], said["classes"]), (8, 2, 301))
        self.assertTrue(np.array_equal(read_set(self.path("keras"))[0][:, 0], grey))
        self.assertEqual(list(read_set(self.path("keras"))[1]), [300, 1] * 4)

    def test_arrays_that_do_not_fit(self):
        x = self.draw(6, 5, 5)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, x=x, y=np.arange(6))
        whole = buffer.getvalue()
        for change, said in ((whole[:-8], "directory is not there"),
                             (whole[:60] + bytes([whole[60] ^ 255]) + whole[61:], "x.npy")):
            self.write(change, "b.npz")
            self.assertIn(said, self.refused("b.npz"))
        for arrays, said in (
                ({"x": x, "y": np.arange(5)}, "5 labels for 6 images"),
                ({"x": x, "y": np.arange(6) - 1}, "label -1"),
                ({"x": x.astype(np.float32), "y": np.arange(6)}, "type '<f4'"),
                ({"x": x.astype(np.int32), "y": np.arange(6)}, "images are unsigned bytes"),
                ({"a": x, "b": np.arange(6)}, "no pair of arrays")):
            np.savez(self.path("c.npz"), **arrays)
            self.assertIn(said, self.refused("c.npz"))
        np.save(self.path("x.npy"), x)
        self.assertIn("--labels", self.refused("x.npy"))

    def test_tables(self):
        x, y = self.draw(10, 4, 4), np.arange(10) % 2
        rows = np.concatenate([y[:, None], x.reshape(10, -1)], 1)
        head = "label," + ",".join(f"pixel{i}" for i in range(16))
        np.savetxt(self.path("t.csv"), rows, "%d", ",", header=head, comments="")
        self.make("t.csv")
        got = read_set(self.path("out"))
        self.assertEqual(got[0].shape, (8, 1, 4, 4))
        for image, label in zip(got[0], got[1]):
            n = next(n for n in range(10) if np.array_equal(x[n], image[0]))
            self.assertEqual(y[n], label)
        self.write(b"1,2,3\n0,1,999\n", "u.csv")
        self.assertIn("u.csv, row 2, column 3: '999'", self.refused("u.csv"))
        self.write(b"1,2,3\n0,1,9\n", "u.csv")
        self.assertIn("neither a square nor three", self.refused("u.csv"))

    def test_the_trainer_trains_on_them(self):
        for c, kind in enumerate(CLASSES):
            for n in range(40):
                pixels = self.draw(SIDE, SIDE, 3) // 2
                pixels[..., c] += 100
                self.write(png(pixels), "photos", kind, f"{n}.png")
        self.make("photos", "--size", 8, "--test", 0.25)
        self.write(json.dumps({"name": "n", "input": [3, 8, 8], "layers": [
            "conv:out=6,kernel=3", "relu", "flatten", "dense:out=3"]}).encode(), "n.json")
        r = shoal.run("train", "--model", self.path("n.json"), "--data", self.path("out"),
                      "--epochs", 6, "--batch", 10, "--out", self.path("run"), "--json", "--quiet")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(json.loads(r.stdout)["test_accuracy"], 100)
        with open(self.path("run", "run.json"), encoding="utf-8") as f:
            data = json.load(f)["data"]
        x = read_set(self.path("out"))[0] / 255
        self.assertEqual((data["format"], data["classes"]), ("images", 3))
        for c in range(3):
            self.assertAlmostEqual(data["mean"][c], x[:, c].mean(), 5)
            self.assertAlmostEqual(data["deviation"][c], x[:, c].std(), 5)
        code, said = self.check("out")
        self.assertEqual((code, said["format"], said["problems"]), (0, "images", []))
        with open(self.path("out", "t10k-labels-idx1-int"), "r+b") as f:
            f.truncate(20)
        code, said = self.check("out")
        self.assertEqual(code, 1)
        self.assertIn("t10k-labels-idx1-int, byte 8", said["problems"][0])
        self.assertIn("holds classes.txt already", self.refused_into("out"))

    def test_augmented_runs_repeat_and_resume_bit_for_bit(self):
        self.photos()
        self.make("photos")
        self.write(json.dumps({"name": "n", "input": [3, SIDE, SIDE], "layers": [
            "conv:out=4,kernel=3", "relu", "flatten", "dense:out=3"]}).encode(), "n.json")

        def train(out, *args):
            given = () if "--resume" in args else ("--data", self.path("out"), "--model",
                                                   self.path("n.json"), "--batch", 9, "--epochs", 4,
                                                   "--out", self.path(out))
            r = shoal.run("train", *given, *args, "--quiet")
            self.assertEqual(r.returncode, 0, r.stderr)
            return train_test.read_weights(self.path(out))

        how = ("--augment", "crop=3,flip")
        whole = train("whole", *how)
        self.assertEqual(train("again", *how), whole)
        self.assertNotEqual(train("plain"), whole)
        self.assertNotEqual(train("flip", "--augment", "flip"), whole)
        train("part", *how, "--steps", 8)
        part = train("part", "--resume", self.path("part"), "--steps", 24)
        self.assertEqual(part, whole)
        self.assertEqual(train("two", *how, "--workers", 2), train("one", *how, "--simulate", 2))
        r = shoal.run("train", "--data", self.path("out"), "--model", self.path("n.json"),
                      "--augment", "crop=99")
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn("crop", r.stderr)

    def refused_into(self, out):
        r = shoal.run("data", "images", "--from", self.path("photos"), "--out", self.path(out))
        self.assertNotEqual(r.returncode, 0)
        return r.stderr


if __name__ == "__main__":
    unittest.main()
