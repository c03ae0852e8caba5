"""The report in a real browser: narrow, dark, printed, in a frame without scripts, without a request to anywhere."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUIET = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--allow-file-access-from-files",
]  # fmt: skip
HARNESS = """<!doctype html><meta charset="utf-8"><iframe id="report" sandbox="allow-same-origin" src="report.html"
style="width:{width}px;height:900px;border:0"></iframe><pre id="measured"></pre><script>
report.onload = () => {{
  const page = report.contentDocument, seen = page.documentElement;
  measured.textContent = JSON.stringify({{
    width: seen.scrollWidth, headings: page.querySelectorAll("h1, h2").length, words: page.body.innerText.length,
    requests: report.contentWindow.performance.getEntriesByType("resource").length,
    unlabelled: [...page.querySelectorAll("svg[role=img]")].filter(s => !s.querySelector("title")).length,
  }});
}};
</script>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    command = [sys.executable, "-m", "llmdoctor", "analyze", "sample_logs/proxy_buffering", "-o"]
    subprocess.run([*command, str(folder / "report.html")], cwd=ROOT, check=True, capture_output=True)
    return folder / "report.html"


def chromium(folder: Path, *arguments: str) -> str:
    command = ["chromium", *QUIET, f"--user-data-dir={folder / 'profile'}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.parametrize("width", [380, 1100])
def test_nothing_is_wider_than_the_window_and_nothing_is_fetched(report: Path, width: int) -> None:
    harness = report.parent / f"harness{width}.html"
    harness.write_text(HARNESS.format(width=width))
    page = chromium(report.parent, "--virtual-time-budget=8000", "--dump-dom", harness.as_uri())
    measured = re.search(r'<pre id="measured">(\{.*?\})</pre>', page)
    assert measured, page[-2000:]
    found = json.loads(measured.group(1))
    assert found["width"] <= width
    assert found["requests"] == 0
    assert found["unlabelled"] == 0
    assert found["headings"] >= 8
    assert found["words"] > 2000


def test_dark_and_light_are_two_pictures_and_print_has_pages(report: Path) -> None:
    shots = []
    for scheme in ("0", "1"):  # 0 dark, 1 light
        shot = report.parent / f"scheme{scheme}.png"
        chromium(
            report.parent, f"--blink-settings=preferredColorScheme={scheme}", "--window-size=1000,1400",
            f"--screenshot={shot}", report.as_uri(),
        )  # fmt: skip
        shots.append(shot.read_bytes())
    assert all(shot.startswith(b"\x89PNG") and len(shot) > 50_000 for shot in shots)
    assert shots[0] != shots[1]
    printed = report.parent / "report.pdf"
    chromium(report.parent, f"--print-to-pdf={printed}", report.as_uri())
    assert printed.read_bytes().startswith(b"%PDF")
