# SPDX-License-Identifier: Apache-2.0
"""What every page of Shoal has to be in a real browser, whatever is on it: a list of sentences that
say what is wrong. The page is a URL: a file, or a server's."""

import glob
import html
import os
import urllib.parse

import browser as chromium

ROOT = os.path.dirname(os.path.dirname(chromium.HERE))
AXE = glob.glob(os.path.join(ROOT, "build", "browser", "axe_playwright_python", "axe.min.js"))
SCREENS = [(width, dark, 1) for width in (390, 1280, 2560) for dark in (False, True)]
SCREENS += [(1280, False, 2), (640, False, 2)]
BROKEN = 12  # characters of a word that lines may break
TAB, ENTER, RIGHT = "\ue004", "\ue007", "\ue014"


def on_screens(browser, url):
    """Telephone, desk and wall, light and dark, and twice as large."""
    found = []
    for width, dark, zoom in SCREENS:
        browser.open(url, width, dark, zoom)
        for opened in (False, True):
            if opened:
                browser.driver.execute_script(
                    "document.querySelectorAll('details').forEach(d => { d.open = true })"
                )
            asked = ["wide", "overlaps", "cut", "stuck"] + ["contrast"] * (width == 1280)
            for question in asked:  # colours are the same at every width
                where = f"{width} px{', dark' * dark}{', twice as large' * (zoom > 1)}"
                where += ", tables opened" * opened
                found += [f"{where}: {said}" for said in browser.ask(question)]
    return found


def structure(browser, url):
    browser.open(url)
    return browser.ask("structure")


def asks_nobody(browser, url, same_server=False):
    """It asks for itself and for nothing else (or for more of its own server)."""
    browser.open(url)
    urls, complaints = browser.asked_for()
    home = urllib.parse.urlsplit(url)

    def own(other):
        at = urllib.parse.urlsplit(other)
        same = (at.scheme, at.netloc) == (home.scheme, home.netloc)
        return other == url or at.scheme == "data" or (same_server and same)

    found = [f"it asks for {other}" for other in urls if not own(other)]
    if not urls:
        found.append("no request was seen at all, not even for the page")
    return found + [f"the browser complains: {text}" for text in complaints]


def by_keyboard(browser, url):
    """From stop to stop by Tab alone, opening what can be opened, until the page's end."""
    browser.open(url, 1280)
    found, visited, before = [], 0, -1
    for _ in range(2000):
        browser.press(TAB)
        now = browser.ask("focus")
        if now["at"] < 0:
            break
        if now["at"] != before + 1:
            found.append(f"Tab goes to stop {now['at']} after {before}: {now['name']}")
        found += now["found"]
        before, visited = now["at"], visited + 1
        active = "const e = document.activeElement; return "
        tag = browser.driver.execute_script(active + "e.tagName")
        if tag == "SUMMARY":
            browser.press(ENTER)
            if not browser.driver.execute_script(active + "e.parentElement.open"):
                found.append(f"Enter does not open {now['name']}")
        elif browser.driver.execute_script(active + "e.scrollWidth > e.clientWidth + 1"):
            found += scrolls_by_keys(browser, now["name"])
    if visited < now["count"] or visited == 0:
        found.append(f"Tab reaches {visited} of {now['count']} stops")
    return found + skips(browser, url)


def scrolls_by_keys(browser, name):
    at = "return document.activeElement.scrollLeft"
    browser.press(RIGHT)
    wait = ("const e = document.activeElement, done = arguments[0], end = performance.now() + 20e3;"
            "(function look() { if (e.scrollLeft > 0 || performance.now() > end) done(e.scrollLeft)"
            "; else requestAnimationFrame(look) })()")  # fmt: skip
    moved = browser.driver.execute_async_script(wait) or browser.driver.execute_script(at)
    return [] if moved > 0 else [f"the arrow keys do not scroll {name}"]


def skips(browser, url):
    """The first stop leads past what is the same on every page."""
    browser.open(url)
    browser.press(TAB)
    browser.press(ENTER)
    inside = browser.driver.execute_script(
        "return document.querySelector('main').matches(':target, :focus')"
    )
    return [] if inside else ["the first link does not lead to the content"]


def on_paper(browser, url):
    """A4: nothing is wider than the sheet (Chromium would shrink all of it), and each word that the
    page shows is on a sheet, within its margins."""
    browser.open(url, chromium.PAPER_PIXELS, paper=True)
    found = [f"paper: {said}" for what in ("wide", "overlaps", "cut", "contrast")
             for said in browser.ask(what)]  # fmt: skip
    wanted = browser.ask("texts")
    browser.media()
    pages = browser.print()
    if not pages:
        found.append("paper: no sheet is printed")
    for number, (width, height, words) in enumerate(pages, 1):
        if (round(width), round(height)) != chromium.A4_POINTS:
            found.append(f"sheet {number} is {width} x {height} points, no A4")
        for left, right, word in words:
            if left < 38 or right > width - 38:
                found.append(f'sheet {number} cuts "{html.unescape(word)}" ({left} to {right})')
    printed = "".join(html.unescape(word) for *_, words in pages for *_, word in words)
    for text in wanted:
        found += [f'"{word}" of "{text[:60]}" is on no sheet' for word in text.split()
                  if word[:BROKEN] not in printed]  # fmt: skip
    return found


def by_axe(browser, url):
    """axe-core's findings; None: it is not here."""
    if not AXE:
        return None
    with open(AXE[0], encoding="utf-8") as file:
        axe = file.read()
    found = []
    for width, dark in ((390, True), (1280, False)):
        browser.open(url, width, dark)
        browser.driver.execute_script(axe)
        found += browser.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then("
            "r => done(r.violations.flatMap(v => v.nodes.map(n => `axe, ${v.impact}: ${v.id}: "
            "${v.help}: ${n.html.slice(0, 200)}`))), e => done([`axe: ${e}`]))"
        )
    return found


def everything(browser, url, same_server=False):
    """{name of the check: what is wrong}"""
    return {
        "asks nobody": asks_nobody(browser, url, same_server),
        "structure": structure(browser, url),
        "on screens": on_screens(browser, url),
        "by keyboard": by_keyboard(browser, url),
        "on paper": on_paper(browser, url),
        "axe": by_axe(browser, url),
    }
