# SPDX-License-Identifier: Apache-2.0
"""The page of `shoal watch --http` in Chromium: what is asked of every page, and what only a live
one does: it lets in, follows jobs without being loaded anew, and says that it was left."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import browser as chromium  # noqa: E402
import page_checks  # noqa: E402
import shoal  # noqa: E402
import status_fake  # noqa: E402
from status_fake import rank  # noqa: E402
from watch_browser import Server  # noqa: E402

WHY = chromium.reason()
TEXT = "return document.querySelector(arguments[0]).innerText"
HOSTILE = "<img src=x>\u202e\x1b[31m"


def busy(**more):
    return rank(ended=3000, busy=True, doing_s=2.5, operation="all-reduce 2999",
                sends=12_912_500, receives=86_087_500, **more)  # fmt: skip


class Live(chromium.Browser):
    """A page is there when it has been told something."""

    def open(self, url, *screen, **more):
        super().open(url, *screen, **more)
        shoal.wait_until(lambda: self.driver.execute_script(
            "return document.querySelectorAll('#jobs section').length > 0"))  # fmt: skip
        self.driver.get_log("browser")  # of the page before

    def text(self, what="body"):
        return self.driver.execute_script(TEXT, what)

    def until(self, text, what="body"):
        shoal.wait_until(lambda: text in self.text(what))


@unittest.skipIf(WHY, WHY)
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(Live())

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="shoal-pages-"))
        self.run = os.path.join(self.folder, "run")

    def job(self, name, ranks, notes=""):
        job = status_fake.Job(self.run, name, ranks, notes)
        self.addCleanup(lambda: job.thread.is_alive() and job.close())
        return job

    def serve(self, **kwargs):
        server = Server(self.run, **kwargs)
        self.addCleanup(server.close)
        return server

    def enter(self, server):
        """With the address that was printed; from then on the cookie lets it in."""
        self.browser.driver.get("about:blank")
        self.browser.open(server.url)
        self.assertEqual(self.browser.driver.current_url, server.url.split("#")[0])
        return server.url.split("#")[0]

    def check(self, url):
        answers = page_checks.everything(self.browser, url, same_server=True)
        for name, found in answers.items():
            with self.subTest(check=name):
                if found is None:
                    self.skipTest("axe-core is not here: make check-browser fetches it")
                self.assertFalse(found, f"{len(found)}: " + "\n".join(map(str, found[:25])))

    def test_two_jobs_that_stand_still(self):
        self.job("night", [
            busy(), rank(host="b", cause="network", slow_s=42, last=0.33, receives=13_200_000),
            rank("unresponsive", host="a-very-long-name.example.org", seen_s=1.4),
            rank("dead", host="d", seen_s=9.5, operation="all-reduce 1999"),
        ], "rank 0 to rank 1 (b): link 10.0.0.2 is not used any more\n")  # fmt: skip
        self.job("day", [rank(ended=100), rank(ended=100)])
        self.check(self.enter(self.serve(interval=3600)))

    def test_a_job_that_trains(self):
        """Its loss is drawn as it comes, with a table; a job that does not train has no picture."""
        def ranks(step, loss):
            return [rank(step=step, epoch=2, loss=loss, accuracy=81.25, ended=step)] * 2
        job = self.job("night", ranks(10, 2.0))
        self.job("day", [rank()])
        server = self.serve()
        url = self.enter(server)
        for step, loss in ((20, 1.0), (30, 0.5)):
            self.browser.until(f"step {step - 10}, epoch 2", ".about")
            job.ranks = ranks(step, loss)
        self.browser.until("step 30, epoch 2, loss 0.5, accuracy 81.25 %", ".about")
        drawn = self.browser.driver.execute_script("""
            return [...document.querySelectorAll("section")].map((s) => [
              s.querySelector("h2").textContent, s.querySelector(".learning").hidden,
              s.querySelectorAll("svg.loss polyline").length &&
                s.querySelector("svg.loss polyline").getAttribute("points").split(" ")
                  .map((p) => Number(p.split(",")[1])),
              [...s.querySelectorAll(".losses tbody tr")].map((r) => r.textContent)])""")
        one = dict((name, rest) for name, *rest in drawn)
        self.assertEqual(one["job day"][0], True)
        self.assertEqual(one["job night"][0], False)
        self.assertEqual(one["job night"][1], [10, 80, 115])  # of 140 from 10 on: 2, 1 and 0.5
        self.assertEqual(one["job night"][2], ["102.000", "201.000", "300.5000"])
        self.check(url)

    def test_one_job_without_a_past(self):
        self.job(HOSTILE, [rank(host=HOSTILE, operation=HOSTILE, busy=True)])
        url = self.enter(self.serve(interval=3600))
        self.assertIn("<img src=x>?", self.browser.text("h2"))
        self.check(url)

    def test_it_follows_without_being_loaded_anew(self):
        job = self.job("night", [busy(), rank(host="b", ended=2999, doing_s=2)])
        server = self.serve()
        self.enter(server)
        self.browser.driver.execute_script("window.here = true")
        self.browser.until("rank 1 (b) has been computing for 2.0 s; 1 waits for it", ".verdict")
        job.ranks = [busy(), rank("dead", host="b", ended=2999, seen_s=3)]
        self.browser.until("rank 1 (b) is dead, was running", ".changes")
        self.browser.until("2 ranks, 1 running, 1 dead", ".about")
        job.ranks = [rank(ended=1), rank(ended=1, cause="compute", slow_s=9, caused_ms=4)]
        self.browser.until("the ranks have met anew", ".changes")
        self.browser.until("running, slow: compute", ".ranks")
        other = self.job("day", [rank()])
        self.browser.until("day", "#list")
        other.close()
        self.browser.until("over", "#list")
        self.assertTrue(self.browser.driver.execute_script("return window.here"))
        server.process.kill()
        self.browser.until("nobody answers at this address", "#link")
        self.assertIn("job night", self.browser.text())

    def test_it_asks_for_the_token(self):
        self.job("night", [rank()])
        server = self.serve()
        self.browser.driver.get(server.url.split("#")[0])
        self.browser.until("Token", "#door")
        self.assertNotIn("night", self.browser.text())
        for token, said in (("wrong", "That is another token."), (server.token, "job night")):
            self.browser.driver.execute_script("document.getElementById('token').focus()")
            self.browser.press(token + page_checks.ENTER)
            self.browser.until(said)


if __name__ == "__main__":
    shoal.main()
