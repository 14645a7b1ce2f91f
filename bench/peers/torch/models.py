# SPDX-License-Identifier: Apache-2.0
"""What is trained: a small convolutional net on generated digits, a small transformer on the bytes
of this project's own pages. Batches depend on seed, step and rank alone."""

import gzip
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).resolve().parents[3]


class Digits:
    """`shoal data digits` in --data."""

    rate, batch_size = 1e-3, 8
    files = {"train": "train", "test": "t10k"}

    def __init__(self, options):
        self.seed = options.seed
        self.sets = {name: self.read(Path(options.data), file) for name, file in self.files.items()}

    @staticmethod
    def read(folder, part):
        def raw(kind, header):
            path = folder / f"{part}-{kind}-ubyte"
            whole = path.read_bytes() if path.exists() else gzip.open(f"{path}.gz").read()
            return torch.frombuffer(bytearray(whole[header:]), dtype=torch.uint8)

        images = raw("images-idx3", 16).view(-1, 1, 28, 28).float() / 255 - 0.5
        return images, raw("labels-idx1", 8).long()

    def model(self):
        def block(before, after):
            return [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]

        layers = block(1, 32) + block(32, 64) + block(64, 128)
        head = [nn.Flatten(), nn.Linear(9 * 128, 256), nn.ReLU(), nn.Linear(256, 10)]
        return Net(nn.Sequential(*layers, *head), cross_entropy)

    def batch(self, step, rank, ranks):
        g = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        x, y = self.sets["train"]
        mine = torch.randint(len(x), (ranks, self.batch_size), generator=g)[rank]
        return x[mine], y[mine]

    @torch.no_grad()
    def test_loss(self, model):
        x, y = (part[:256] for part in self.sets["test"])
        return float(model(x, y))


class Text(Digits):
    """Bytes of docs/*.md; every tenth page is for the test."""

    rate, batch_size, context = 1e-3, 4, 64

    def __init__(self, options):
        self.seed = options.seed
        pages = sorted((ROOT / "docs").glob("*.md"))
        parts = {"test": pages[::10], "train": [p for p in pages if p not in pages[::10]]}
        self.sets = {
            name: torch.frombuffer(
                bytearray(b"".join(page.read_bytes() for page in those)), dtype=torch.uint8
            ).long()
            for name, those in parts.items()
        }

    def model(self):
        return Net(Transformer(256, 96, self.context, 4, 3), language_loss)

    def cut(self, part, starts):
        rows = torch.stack([self.sets[part][s : s + self.context + 1] for s in starts.tolist()])
        return rows[:, :-1], rows[:, 1:]

    def batch(self, step, rank, ranks):
        g = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        last = len(self.sets["train"]) - self.context - 1
        return self.cut(
            "train", torch.randint(last, (ranks, self.batch_size), generator=g)[rank]
        )

    @torch.no_grad()
    def test_loss(self, model):
        g = torch.Generator().manual_seed(7)
        last = len(self.sets["test"]) - self.context - 1
        return float(model(*self.cut("test", torch.randint(last, (32,), generator=g))))


def language_loss(logits, y):
    return cross_entropy(logits.flatten(0, 1), y.flatten())


class Net(nn.Module):
    """A network and its loss in one forward(), which is all that the ways need to know."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y):
        return self.loss(self.net(x), y)


class Transformer(nn.Module):
    def __init__(self, tokens, width, context, heads, layers):
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens)
        mask = torch.full((context, context), float("-inf")).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        h = self.token(x) + self.place.weight[: x.shape[1]]
        return self.head(self.norm(self.body(h, mask=self.mask)))


TASKS = {"conv": Digits, "transformer": Text}
