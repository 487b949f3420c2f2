"""Opens a dashboard in headless Chromium and prints, as JSON, what is on it.

    python boards.py superset ADDRESS PASSWORD [DIRECTORY_FOR_SCREENSHOTS]
    python boards.py streamlit ADDRESS RUN [DIRECTORY_FOR_SCREENSHOTS]

A chart that is drawn on a canvas has marks if enough of its pixels are coloured: axes, grid and text are grey.
"""

import base64
import json
import pathlib
import sys
import tempfile
import time
from urllib.parse import urlsplit

from browser import Browser

PATIENCE = 100

# Coloured pixels of the canvases of an element.
COLOURED = """
const coloured = element => [...element.querySelectorAll('canvas')].reduce((sum, canvas) => {
  const context = canvas.width && canvas.height ? canvas.getContext('2d') : null;
  if (!context) return sum;
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
  for (let at = 0; at < data.length; at += 4) {
    const [r, g, b, a] = data.slice(at, at + 4);
    if (a > 128 && Math.max(r, g, b) - Math.min(r, g, b) > 40) sum += 1;
  }
  return sum;
}, 0);
"""

SUPERSET_CHARTS = (
    "(() => {"
    + COLOURED
    + """
  return [...document.querySelectorAll('.dashboard-component-chart-holder')].map(holder => ({
    name: holder.querySelector('[data-test="editable-title"], .header-title')?.textContent.trim() || '',
    coloured: coloured(holder),
    rows: holder.querySelectorAll('tbody tr').length,
    number: holder.querySelector('.header-line')?.textContent.trim() || null,
    text: holder.innerText,
  }));
})()"""
)

# Nothing turns, and every chart shows something.
SUPERSET_READY = """
(() => {
  const holders = [...document.querySelectorAll('.dashboard-component-chart-holder')];
  return holders.length > 0 && !document.querySelector('[data-test="loading-indicator"], .loading')
    && holders.every(holder => holder.querySelector('canvas, tbody tr, .header-line, .ant-empty, [data-test="error"], .alert'));
})()
"""


STREAMLIT_READY = """
(() => {
  const app = document.querySelector('[data-testid="stApp"]');
  const charts = [...document.querySelectorAll('[data-testid="stVegaLiteChart"]')];
  return app && app.getAttribute('data-test-script-state') === 'notRunning' && document.querySelector('h1')
    && !document.querySelector('[data-testid="stSkeleton"], [data-stale="true"]')
    && charts.every(chart => [...chart.querySelectorAll('canvas, svg')].some(drawn => drawn.getBoundingClientRect().width > 50));
})()
"""

STREAMLIT_PAGE = (
    "(() => {"
    + COLOURED
    + """
  const texts = selector => [...document.querySelectorAll(selector)].map(element => element.innerText);
  return {
    charts: [...document.querySelectorAll('[data-testid="stVegaLiteChart"]')].map(chart => ({
      coloured: coloured(chart), marks: chart.querySelectorAll('svg .mark-symbol path, svg .mark-rect path, svg .mark-line path').length,
    })),
    tables: document.querySelectorAll('[data-testid="stDataFrame"]').length,
    figures: Object.fromEntries([...document.querySelectorAll('[data-testid="stMetric"]')].map(metric =>
      ['stMetricLabel', 'stMetricValue'].map(part => metric.querySelector(`[data-testid="${part}"]`).innerText.trim()))),
    problems: texts('[data-testid="stException"], [data-testid="stAlertContentError"]'),
    text: document.querySelector('[data-testid="stMain"]').innerText,
  };
})()"""
)


class Board(Browser):
    """A browser on a server's page."""

    def wait(self, expression, what):
        end = time.monotonic() + PATIENCE
        while not self.ask(expression):
            if time.monotonic() > end:
                sys.exit(f"{what}: nothing after {PATIENCE} s; the page says\n{self.ask('document.body.innerText')[:2000]}")
            time.sleep(0.05)

    def goto(self, address):
        self.loaded = False
        self.call("Page.navigate", url=address)
        while not self.loaded:
            self.receive()

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def type_into(self, selector, text):
        self.wait(f"!!document.querySelector({json.dumps(selector)})", selector)
        self.ask(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def foreign(self, address):
        """Requests to anywhere else."""
        own = urlsplit(address).netloc
        return [url for url in self.requests if urlsplit(url).scheme in ("http", "https", "ws", "wss") and urlsplit(url).netloc != own]

    def picture(self, shots, name):
        """Of what is in view: charts that are not in view are not there."""
        if shots:
            (shots / f"{name}.png").write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def note(self, message):
        super().note(message)
        if message.get("method") == "Log.entryAdded":
            self.console[-1] += f" ({message['params']['entry'].get('url')})"

    def errors(self):
        """What the browser complained of. Streamlit looks for its server below the address of a page first."""
        wrong = [line for line in self.console if line.startswith(("error", "exception"))]
        return [line for line in wrong if not ("404" in line and "/_stcore/" in line)]


def superset(browser, address, password, shots):
    browser.size(1600, 3300)
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(address))
    browser.goto(f"{origin}/login/")
    browser.type_into("#username", "admin")
    browser.type_into("#password", password)
    browser.ask("document.querySelector('form button[type=submit], form input[type=submit]').click()")
    browser.wait("!location.pathname.startsWith('/login')", "logging in")
    browser.console.clear()
    begin = time.monotonic()
    browser.goto(address)
    browser.wait(SUPERSET_READY, "the dashboard")
    seconds = time.monotonic() - begin
    # Bars grow and lines are drawn within a second.
    time.sleep(1.5)
    charts = browser.ask(SUPERSET_CHARTS)
    text = browser.ask("document.body.innerText")
    browser.picture(shots, "superset")
    return {"seconds": seconds, "charts": charts, "text": text}


def streamlit(browser, address, run, shots):
    pages = {}
    browser.size(1400, 2000)
    for name, path in [("", ""), ("run?sweep", f"run?run={run}"), ("run", "run"), ("compare", "compare"), ("scoring", "scoring")]:
        begin = time.monotonic()
        browser.goto(f"{address}/{path}")
        browser.wait(STREAMLIT_READY, f"page {path or 'overview'}")
        seconds = time.monotonic() - begin
        time.sleep(0.5)
        pages[name] = {"seconds": seconds, **browser.ask(STREAMLIT_PAGE)}
        browser.picture(shots, f"streamlit-{name.replace('?', '-') or 'overview'}")
    return {"pages": pages}


if __name__ == "__main__":
    kind, address, *rest = sys.argv[1:]
    detail = rest.pop(0)
    shots = pathlib.Path(rest[0]) if rest else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        browser = Board(directory)
        try:
            found = {"superset": superset, "streamlit": streamlit}[kind](browser, address, detail, shots)
            found["foreign"] = browser.foreign(address)
            found["console"] = browser.errors()
            print(json.dumps(found))
        finally:
            browser.close()
