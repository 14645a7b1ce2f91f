# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium without a window, by WebDriver: screens, colour schemes, paper, and a record of
what a page asked for. `reason` says why there is none here."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains

    MISSING = []
except ImportError:
    MISSING = ["python3-selenium"]

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = {"chromium": "chromium", "chromedriver": "chromium-driver", "pdftotext": "poppler-utils"}
MISSING += [package for name, package in PROGRAMS.items() if shutil.which(name) is None]
A4_POINTS = (595, 842)
PAPER_PIXELS = 688  # A4 less 14 mm on each side, at 96 pixels an inch
DEADLINE_S = 120


def reason():
    """Why no browser can be asked, or None."""
    return f"no browser to ask: packages {', '.join(MISSING)} are missing" if MISSING else None


class Browser:
    """One window; `with Browser() as b`."""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="shoal-browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--hide-scrollbars", "--disable-background-networking", "--no-first-run",
                     f"--user-data-dir={self.profile.name}"):  # fmt: skip
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        self.driver = webdriver.Chrome(
            service=Service(shutil.which("chromedriver")), options=options
        )
        self.driver.get("about:blank")  # it begins with a page of its own, which asks for much
        self.driver.set_page_load_timeout(DEADLINE_S)
        self.driver.set_script_timeout(DEADLINE_S)
        with open(os.path.join(HERE, "page_checks.js"), encoding="utf-8") as file:
            self.checks = file.read()
        return self

    def __exit__(self, *_):
        self.driver.quit()
        self.profile.cleanup()

    def command(self, name, **words):
        return self.driver.execute_cdp_cmd(name, words)

    def media(self, dark=False, paper=False):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", media="print" if paper else "",
                     features=[scheme])  # fmt: skip

    def open(self, url, width=1280, dark=False, zoom=1, paper=False):
        """A page on a screen so many pixels wide. As in a window, zooming leaves it fewer, larger
        pixels; a narrow screen is a telephone's."""
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.command("Emulation.setDeviceMetricsOverride", width=width // zoom,
                     height=900 // zoom, deviceScaleFactor=zoom, mobile=width < 600)  # fmt: skip
        self.media(dark, paper)
        self.driver.get(url)
        self.driver.execute_script(self.checks)

    def ask(self, question):
        return self.driver.execute_script(f"return pageChecks.{question}()")

    def press(self, key):
        ActionChains(self.driver).send_keys(key).perform()

    def asked_for(self):
        """Addresses that were asked for since open(), and what the browser complained of."""
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            asked = message["method"] == "Network.requestWillBeSent"
            if asked and not message["params"].get("documentURL", "").startswith("chrome"):
                urls.append(message["params"]["request"]["url"])
        return urls, [entry["message"] for entry in self.driver.get_log("browser")]

    def print(self):
        """[(width, height, [(left, right, word)])] of each printed page, in points."""
        made = self.command("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        path = os.path.join(self.profile.name, "page.pdf")
        with open(path, "wb") as file:
            file.write(base64.b64decode(made["data"]))
        boxes = subprocess.run(["pdftotext", "-bbox", path, "-"], capture_output=True, text=True,
                               check=True, timeout=DEADLINE_S).stdout  # fmt: skip
        pages = []
        number = r'"([\d.-]+)"'
        for part in boxes.split("<page ")[1:]:
            size = re.match(rf"width={number} height={number}", part).groups()
            word = rf"<word xMin={number} yMin={number} xMax={number} yMax={number}>(.*?)</word>"
            words = [(float(w[0]), float(w[2]), w[4]) for w in re.findall(word, part)]
            pages.append((*map(float, size), words))
        return pages
