#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes together, as the library says it."""

import unittest

import launch  # noqa: F401  (finds the package)

import shoal
from shoal import job


class JobTest(unittest.TestCase):
    def test_what_goes_together_passes(self):
        job.check()
        job.check("diloco:every=4", "eden:bits=2", "direct", workers=3)
        job.check("all_reduce", "topk", "gather", reform=True)
        job.check("hop:backup=1", "eden:bits=4", workers=4)

    def test_a_refusal_names_both(self):
        for specs, options, words in (
            (("ripples", "eden"), {}, ("--sync ripples", "--codec eden")),
            (("auto",), {}, ("--sync auto", "docs/protocols.md")),
            (("param_server",), {"reform": True}, ("--on-loss reform", "--sync param_server")),
            ((None, None, "hierarchical:dims=2/2"), {"workers": 3}, ("hierarchical", "3 workers")),
        ):
            with self.assertRaises(shoal.InvalidArgument) as caught:
                job.check(*specs, **options)
            for word in words:
                self.assertIn(word, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
