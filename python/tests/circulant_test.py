#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CirculantLinear against the dense product of its own matrix, forward and backward."""

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


if __name__ == "__main__":
    unittest.main()
