# SPDX-License-Identifier: Apache-2.0
"""Charts and pages against kept pictures (pictures/*.png): of runs in virtual time, which are the
same on every machine, and of jobs that stand still. Pictures are compared as if seen from afar, an
eighth as large: letters of another font are the same grey, a line that is missing is not. A chart
that was meant to change: SHOAL_PICTURES=write make check-browser T=pictures, and look at what git
shows."""

import base64
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import browser as chromium  # noqa: E402
import shoal  # noqa: E402
import status_fake  # noqa: E402
from status_fake import rank  # noqa: E402
from watch_browser import Server  # noqa: E402

WHY = chromium.reason()
KEPT = os.path.join(chromium.HERE, "pictures")
WRITE = os.environ.get("SHOAL_PICTURES") == "write"
FAR = 8  # so many times smaller
LIKE = 24  # levels of grey, of 255: such cells are the same
MOST_OTHER = 0.02  # of the cells
MOST_SIZE = 0.03  # by which a side may be longer or shorter

# Two pictures as grey cells of one size: [[width, height] of each, share of cells that differ].
COMPARE = """
const [one, other, far, like, done] = arguments;
const load = (bytes) => new Promise((good) => {
  const image = new Image();
  image.onload = () => good(image);
  image.src = "data:image/png;base64," + bytes;
});
const cells = (image, width, height) => {
  const canvas = document.createElement("canvas");
  canvas.width = width, canvas.height = height;
  const on = canvas.getContext("2d");
  on.imageSmoothingQuality = "high";
  on.drawImage(image, 0, 0, width, height);
  const { data } = on.getImageData(0, 0, width, height), grey = [];
  for (let i = 0; i < data.length; i += 4)
    grey.push([data[i], data[i + 1], data[i + 2]]);
  return grey;
};
Promise.all([load(one), load(other)]).then(([a, b]) => {
  const width = Math.ceil(b.width / far), height = Math.ceil(b.height / far);
  const x = cells(a, width, height), y = cells(b, width, height);
  const differ = x.filter((c, i) => c.some((v, k) => Math.abs(v - y[i][k]) > like)).length;
  done([[a.width, a.height], [b.width, b.height], differ / x.length]);
});"""


class Still(chromium.Browser):
    """What is drawn, as PNG in base64. Pictures are compared in a tab of their own, as pages of
    ours show none but their own."""

    def __enter__(self):
        super().__enter__()
        self.first = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        self.aside = self.driver.current_window_handle
        self.driver.switch_to.window(self.first)
        return self

    def take(self, what, number=0):
        found = self.driver.find_elements("css selector", what)[number]
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        return found.screenshot_as_base64

    def compare(self, now, kept):
        self.driver.switch_to.window(self.aside)
        try:
            return self.driver.execute_async_script(COMPARE, now, kept, FAR, LIKE)
        finally:
            self.driver.switch_to.window(self.first)


@unittest.skipIf(WHY, WHY)
class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-pictures-"))
        cls.browser = cls.enterClassContext(Still())
        for name, more in (("first", ("--seed", 1)), ("second", ("--seed", 2, "--codec", "int8"))):
            cls.sim(name, *more)
        for name, runs in (("one", ["first"]), ("two", ["first", "second"])):
            done = shoal.run("report", *runs, "--out", name + ".html", cwd=cls.folder)
            assert done.returncode == 0, done.stderr

    @classmethod
    def sim(cls, name, *more):
        words = ("--workers", 4, "--params", 20000, "--problem", "quadratic:lr=0.05,noise=0.1",
                 "--compute", "fixed:ms=20,jitter=0.1,slow=2:2x", "--iterations", 200, "--network",
                 "links:rate=100mbit,hosts=4,slow=1:4x", "--no-mixing", "--quiet")  # fmt: skip
        done = shoal.run("sim", *words, *more, "--out", name, cwd=cls.folder)
        assert done.returncode == 0, done.stderr

    def is_as_kept(self, name, picture):
        path = os.path.join(KEPT, name + ".png")
        if WRITE:
            with open(path, "wb") as file:
                file.write(base64.b64decode(picture))
        with open(path, "rb") as file:
            kept = base64.b64encode(file.read()).decode()
        now_size, kept_size, differ = self.browser.compare(picture, kept)
        for now, before in zip(now_size, kept_size):
            self.assertLess(abs(now / before - 1), MOST_SIZE, f"{name}: {now_size}, {kept_size}")
        return differ <= MOST_OTHER, f"{name}: {100 * differ:.1f} % of the cells are others"

    def check(self, name, picture):
        self.assertTrue(*self.is_as_kept(name, picture))

    def open(self, page, *screen):
        self.browser.open(pathlib.Path(self.folder, page).as_uri(), *screen)
        return len(self.browser.driver.find_elements("css selector", "figure svg"))

    def test_charts_of_one_run(self):
        for dark in (False, True):
            charts = self.open("one.html", 1280, dark)
            self.assertGreaterEqual(charts, 3)
            for i in range(charts):
                with self.subTest(chart=i, dark=dark):
                    self.check(f"one-{i}{'-dark' * dark}", self.browser.take("figure svg", i))

    def test_charts_of_two_runs(self):
        charts = self.open("two.html", 1280)
        self.assertGreaterEqual(charts, 1)
        for i in range(min(charts, 3)):
            with self.subTest(chart=i):
                self.check(f"two-{i}", self.browser.take("figure svg", i))

    def test_on_a_telephone_and_a_wall(self):
        for width in (390, 2560):
            self.open("one.html", width)
            self.check(f"one-0-at-{width}", self.browser.take("figure svg"))

    def test_what_is_missing_is_seen(self):
        """Each line and bar of a chart counts, and so do its colours."""
        charts = self.open("one.html", 1280)
        for i in range(charts):
            drawn = self.browser.driver.execute_script("""
                const chart = document.querySelectorAll("figure svg")[arguments[0]];
                const parts = [...chart.querySelectorAll("polyline, path, polygon, rect, use")]
                  .filter((e) => !e.closest("defs"));
                parts.forEach((e) => { e.style.visibility = "hidden" });
                return parts.length""", i)
            self.assertGreater(drawn, 0)
            if WRITE:
                continue
            self.assertFalse(self.is_as_kept(f"one-{i}", self.browser.take("figure svg", i))[0], i)

    def job(self, name, ranks, notes=""):
        job = status_fake.Job(os.path.join(self.folder, "run"), name, ranks, notes)
        self.addCleanup(job.close)

    def test_a_live_page(self):
        self.job("night", [
            rank(ended=3000, sends=12_912_500, receives=86_087_500),
            rank(host="b", cause="network", slow_s=42, last=0.33, receives=13_200_000),
            rank("dead", host="d", seen_s=9.5, operation="all-reduce 1999"),
        ])  # fmt: skip
        server = Server(os.path.join(self.folder, "run"), interval=3600)
        self.addCleanup(server.close)
        for width, dark in ((390, True), (1280, False), (2560, False)):
            self.browser.open(server.url, width, dark)
            shoal.wait_until(lambda: self.browser.driver.execute_script(
                "return document.querySelectorAll('#jobs .ranks tbody tr').length == 3"))
            with self.subTest(width=width):
                self.check(f"live-{width}", self.browser.take("#jobs section .ranks"))


if __name__ == "__main__":
    shoal.main()
