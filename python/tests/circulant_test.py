#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Circulant layers against the dense ones of their own matrices, forward and backward; networks
converted to them."""

import copy
import pickle
import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import shoal  # noqa: E402


def dense_of(weight, n_out, n_in):
    """The matrix by the definition: entry (i, j) of a block is w[(i - j) mod k]."""
    p, q, k = weight.shape
    i = torch.arange(k)
    blocks = weight[:, :, (i[:, None] - i[None, :]) % k]  # p, q, k, k
    return blocks.permute(0, 2, 1, 3).reshape(p * k, q * k)[:n_out, :n_in]


class CirculantTest(unittest.TestCase):
    def test_forward_and_gradients(self):
        torch.manual_seed(1)
        for n_in, n_out, k in ((32, 24, 8), (30, 21, 4), (10, 7, 3), (16, 16, 1)):
            layer = shoal.CirculantLinear(n_in, n_out, k)
            self.assertTrue(torch.equal(dense_of(layer.weight, n_out, n_in), layer.dense()))
            x = torch.randn(2, 5, n_in, requires_grad=True)
            y = layer(x)
            seed = torch.randn_like(y)
            found = torch.autograd.grad((y * seed).sum(), (x, layer.weight, layer.bias))
            matrix = dense_of(layer.weight, n_out, n_in)
            dense = torch.nn.functional.linear(x, matrix, layer.bias)
            wanted = torch.autograd.grad((dense * seed).sum(), (x, layer.weight, layer.bias))
            self.assertTrue(torch.allclose(y, dense, atol=1e-5))
            for got, want in zip(found, wanted):
                self.assertTrue(torch.allclose(got, want, atol=1e-4), (n_in, n_out, k))

    def test_one_layer_twice_in_a_network(self):
        layer, x = shoal.CirculantLinear(8, 8, 4), torch.randn(3, 8)
        loss = layer(torch.tanh(layer(x))).sum()
        loss.backward()
        matrix = dense_of(layer.weight, 8, 8).detach().requires_grad_()
        inner = torch.tanh(torch.nn.functional.linear(x, matrix, layer.bias.detach()))
        torch.nn.functional.linear(inner, matrix, layer.bias.detach()).sum().backward()
        i = torch.arange(8)
        folded = torch.stack(
            [
                torch.stack(
                    [
                        matrix.grad[p * 4 : p * 4 + 4, q * 4 : q * 4 + 4][
                            (i[:4, None] - i[None, :4]) % 4 == t
                        ].sum()
                        for t in range(4)
                    ]
                )
                for p in range(2)
                for q in range(2)
            ]
        ).view(2, 2, 4)
        self.assertTrue(torch.allclose(layer.weight.grad, folded, atol=1e-4))

    def test_it_trains_copies_and_is_saved(self):
        torch.manual_seed(2)
        net = torch.nn.Sequential(shoal.CirculantLinear(16, 16, 8), torch.nn.Tanh())
        target = torch.randn(64, 16).sign() * 0.5
        x = torch.randn(64, 16)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        losses = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = ((net(x) - target) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        self.assertLess(losses[-1], 0.9 * losses[0])
        for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            self.assertTrue(torch.equal(net(x), other(x)))

    def test_projection_and_refusals(self):
        layer = shoal.CirculantLinear(8, 8, 4, bias=False)
        matrix = torch.randn(8, 8)
        layer.project(matrix)
        i = torch.arange(4)
        mean = matrix[:4, :4][(i[:, None] - i[None, :]) % 4 == 1].mean()
        self.assertAlmostEqual(float(mean), float(layer.weight[0, 0, 1]), places=6)
        with self.assertRaises(ValueError):
            layer.project(torch.randn(3, 8))
        with self.assertRaises(shoal.InvalidArgument):
            shoal.CirculantLinear(8, 8, 5000)
        with self.assertRaisesRegex(TypeError, "float64"):
            layer(torch.randn(1, 8, dtype=torch.float64))

    def test_convolutions(self):
        torch.manual_seed(3)
        for n_in, n_out, kernel, stride, pad, k in ((8, 12, 3, 2, 1, 4), (5, 6, 2, 1, 0, 3),
                                                    (4, 4, 1, 1, 0, 1)):  # fmt: skip
            layer = shoal.CirculantConv2d(n_in, n_out, kernel, stride, pad, block=k)
            taps = torch.stack([dense_of(tap, n_out, n_in) for tap in layer.weight], -1)
            whole = taps.reshape(n_out, n_in, kernel, kernel)
            self.assertTrue(torch.equal(whole, layer.dense()))
            for side in (7, 6):  # of another size: memory is made anew
                x = torch.randn(2, n_in, side, 5, requires_grad=True)
                dense = torch.nn.functional.conv2d(x, whole, layer.bias, stride, pad)
                y, seed = layer(x), torch.randn_like(dense)
                self.assertTrue(torch.allclose(y, dense, atol=1e-5))
                of = (x, layer.weight, layer.bias)
                found = torch.autograd.grad((y * seed).sum(), of)
                wanted = torch.autograd.grad((dense * seed).sum(), of, retain_graph=True)
                for got, want in zip(found, wanted):
                    self.assertTrue(torch.allclose(got, want, atol=1e-4), (n_in, kernel, k))
            for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
                self.assertTrue(torch.equal(layer(x), other(x)))
            before = layer.weight.detach().clone()
            layer.project(layer.dense())
            self.assertTrue(torch.allclose(before, layer.weight, atol=1e-6))
        with self.assertRaises(shoal.InvalidArgument):
            shoal.CirculantConv2d(4, 4, 3, block=5000)
        with self.assertRaisesRegex(ValueError, "height"):
            layer(torch.randn(4, 5, 5))

    def test_whole_networks(self):
        torch.manual_seed(4)
        nn = torch.nn
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, groups=2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.Sequential(nn.ReLU(), nn.Flatten()),
            nn.Linear(8 * 16, 32),
            nn.Linear(32, 32),
            nn.Linear(32, 10),
        )
        shared = net[6]
        net.add_module("again", nn.Sequential(shared, nn.Linear(32, 10)))
        whole, bias = net[5].weight.detach().clone(), net[5].bias.detach().clone()
        got = shoal.convert(net, 8, 4, keep=lambda name, layer: name == "6")
        self.assertIs(got, net)
        kinds = [type(m).__name__ for m in net]
        linear = ["CirculantLinear", "Linear", "CirculantLinear"]
        convolutions = ["Conv2d", "ReLU", "Conv2d", "CirculantConv2d"]
        self.assertEqual(kinds, [*convolutions, "Sequential", *linear, "Sequential"])
        self.assertIs(net.again[0], shared)
        self.assertIs(type(net.again[1]), nn.Linear)  # the last of all gives the scores
        self.assertTrue(torch.equal(net[5].bias, bias))
        twin = shoal.CirculantLinear(8 * 16, 32, 8)
        twin.project(whole)
        self.assertTrue(torch.equal(twin.weight, net[5].weight))
        with self.assertRaisesRegex(ValueError, "no linear"):
            shoal.convert(nn.ReLU())


if __name__ == "__main__":
    unittest.main()
