"""Opens a page in headless Chromium and prints, as JSON, what a reader would meet there.

    python browser.py PAGE [DIRECTORY_FOR_SCREENSHOTS]

Speaks the DevTools protocol over two pipes, with nothing but the standard library; the accessibility rules are axe-core's.
"""

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec

CHARTS = """
[...document.querySelectorAll('figure.chart')].map(figure => ({
  kind: figure.dataset.chart,
  caption: figure.querySelector('figcaption').textContent,
  marks: [...figure.querySelectorAll('.mark')].filter(mark => {
    const box = mark.getBoundingClientRect();
    return box.width > 0 || box.height > 0;
  }).length,
  named: !!figure.querySelector('svg[role=img][aria-label]'),
  wild: /NaN|inf|undefined/.test(figure.outerHTML.replace(/>[^<]*</g, '><').replace(/(data-t|aria-label)="[^"]*"/g, '')),
}))
"""

# Texts of one drawing that lie over each other.
OVERLAPS = """
[...document.querySelectorAll('figure.chart svg[role=img]')].flatMap(svg => {
  const boxes = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim() && !text.hasAttribute('transform'))
    .map(text => [text.textContent, text.getBoundingClientRect()]);
  const found = [];
  boxes.forEach(([one, a], index) => boxes.slice(index + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1.5 && high > 3) found.push(svg.getAttribute('aria-label') + ': ' + one + ' / ' + other);
  }));
  return found;
})
"""

# Tables that do not fit their place.
CUT = """
[...document.querySelectorAll('.scroll')].filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
  .map(box => box.textContent.slice(0, 80) + ': ' + box.scrollWidth + ' of ' + box.clientWidth)
"""

SORT = """
(() => {
  const tables = [...document.querySelectorAll('table.sortable')].filter(table => table.tBodies[0].rows.length > 1);
  return tables.map(table => {
    const button = [...table.querySelectorAll('thead th.n button')].pop() || table.querySelector('thead button');
    const column = button.closest('th').cellIndex;
    const keys = () => [...table.tBodies[0].rows].map(row => row.cells[column].dataset.v)
      .filter(key => key !== undefined).map(Number);
    const ordered = sign => keys().every((key, at, all) => at === 0 || sign * (key - all[at - 1]) >= 0);
    button.click();
    const up = ordered(1) && button.closest('th').getAttribute('aria-sort') === 'ascending';
    button.click();
    return { up, down: ordered(-1) && button.closest('th').getAttribute('aria-sort') === 'descending' };
  });
})()
"""

# The middle of a mark that lies on top of whatever else is there.
MARK = """
(() => {
  for (const mark of document.querySelectorAll('figure.chart .mark[data-t]')) {
    mark.scrollIntoView({ block: 'center' });
    const box = mark.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    const over = document.elementFromPoint(x, y);
    if (over && over.closest('[data-t]') === mark) return { x, y, words: mark.dataset.t };
  }
  return null;
})()
"""

HOVER = "(() => { const box = document.getElementById('hover'); return getComputedStyle(box).visibility === 'visible' ? box.textContent : null; })()"

AXE = """
axe.run(document, { resultTypes: ['violations'] }).then(result => result.violations
  .filter(found => ['serious', 'critical'].includes(found.impact))
  .map(found => found.id + ': ' + found.nodes.slice(0, 3).map(node => node.target.join(' ') + ' ' + node.failureSummary).join(' | ')))
"""


class Browser:
    """One page in one Chromium."""

    def __init__(self, directory):
        program = shutil.which("chromium") or sys.exit("chromium is not installed; `make setup` installs it")
        to_browser, self.out = os.pipe()
        self.back, from_browser = os.pipe()

        def wire():
            # Chromium reads commands from descriptor 3 and answers on 4.
            reader, writer = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command = [program, *options, *quiet, "--remote-debugging-pipe", f"--user-data-dir={directory}", "about:blank"]
        self.process = subprocess.Popen(
            command,
            preexec_fn=wire,
            close_fds=False,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.rest, self.session = 0, b"", None
        self.console, self.requests, self.loaded = [], [], False
        pages = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Network", "Log"]:
            self.call(f"{domain}.enable")

    def receive(self):
        while b"\0" not in self.rest:
            piece = os.read(self.back, 1 << 16)
            if not piece:
                sys.exit("Chromium ended before it answered")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(message)
        self.note(message)
        return message

    def note(self, message):
        event, details = message.get("method"), message.get("params", {})
        if event == "Runtime.consoleAPICalled":
            self.console.append(f"{details['type']}: {details['args']}")
        elif event == "Runtime.exceptionThrown":
            self.console.append(f"exception: {details['exceptionDetails']}")
        elif event == "Log.entryAdded":
            self.console.append(f"{details['entry']['level']}: {details['entry']['text']}")
        elif event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif event == "Page.loadEventFired":
            self.loaded = True

    def call(self, method, **details):
        self.number += 1
        message = {"id": self.number, "method": method, "params": details}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]

    def ask(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            sys.exit(f"{expression[:80]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def look(self, width, scheme, media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, page):
        self.loaded = False
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not self.loaded:
            self.receive()

    def shot(self, path):
        high = self.ask("document.documentElement.scrollHeight")
        wide = self.ask("document.documentElement.clientWidth")
        clip = {"x": 0, "y": 0, "width": wide, "height": min(high, 16000), "scale": 1}
        picture = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self):
        # Its helpers, too: they are in its session.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def visit(browser, page, shots):
    browser.look(1280, "light")
    browser.open(page)
    found = {"charts": browser.ask(CHARTS), "overlaps": browser.ask(OVERLAPS), "overflow": [], "violations": []}
    axe = pathlib.Path(find_spec("axe_playwright_python").origin).with_name("axe.min.js").read_text()
    for name, width, scheme in [("desktop-light", 1280, "light"), ("phone-light", 390, "light"), ("desktop-dark", 1280, "dark"), ("phone-dark", 390, "dark")]:
        browser.look(width, scheme)
        if browser.ask("document.documentElement.scrollWidth") > width:
            found["overflow"].append(name)
        if name == "desktop-light":
            found["cut"] = browser.ask(CUT)
        if shots:
            browser.shot(shots / f"{page.stem}-{name}.png")
        browser.ask(axe + ";0")
        found["violations"] += [f"{name}: {violation}" for violation in browser.ask(AXE)]
    browser.look(1280, "light")
    found["sorted"] = browser.ask(SORT)
    mark = browser.ask(MARK)
    # Scrolling hides what hovering shows; it is over after a frame.
    browser.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")
    if mark:
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=mark["x"], y=mark["y"])
        found["hover"] = {"wanted": mark["words"], "shown": browser.ask(HOVER)}
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
        found["hover"]["gone"] = browser.ask(HOVER) is None
    browser.look(900, "light", media="print")
    found["print_overflow"] = browser.ask("document.documentElement.scrollWidth") > 900
    found["injected"] = browser.ask("!!window.injected")
    own = page.resolve().as_uri()
    found["requests"] = [url for url in browser.requests if not url.startswith("data:") and url.split("#")[0] != own]
    found["console"] = browser.console
    return found


if __name__ == "__main__":
    # A helper of the browser may still be writing when it is told to end.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        browser = Browser(directory)
        try:
            shots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
            print(json.dumps(visit(browser, pathlib.Path(sys.argv[1]), shots)))
        finally:
            browser.close()
