#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How large is a page, and how soon is it drawn? For bench/e2e/seeing: drawn.py URL ROWS prints
{"ms": from when it is asked for until a frame with that many rows of tables is drawn, "bytes": all
that came for it, "stream": of it what a live page was told}. Exit 77: no browser is here."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser as chromium  # noqa: E402

DRAWN = """
const wanted = arguments[0], done = arguments[1];
(function look() {
  if (document.readyState === "complete" && document.querySelectorAll("tr").length >= wanted)
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  else requestAnimationFrame(look);
})()"""


def came(browser):
    """Bytes of all answers, and of those the ones that are streams of events."""
    total, stream, streams = 0, 0, set()
    for entry in browser.driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        what, about = message["method"], message["params"]
        if what == "Network.responseReceived" and "event-stream" in about["response"]["mimeType"]:
            streams.add(about["requestId"])
        if what == "Network.dataReceived":
            total += about["dataLength"]
            stream += about["dataLength"] * (about["requestId"] in streams)
    return total, stream


def main():
    if chromium.reason():
        print(chromium.reason(), file=sys.stderr)
        return 77
    url, rows = sys.argv[1], int(sys.argv[2])
    with chromium.Browser() as browser:
        browser.driver.get("about:blank")
        browser.driver.get_log("performance")
        browser.driver.get(url)
        ms = browser.driver.execute_async_script(DRAWN, rows)
        total, stream = came(browser)
        print(json.dumps({"ms": ms, "bytes": total, "stream": stream}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
