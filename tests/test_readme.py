"""The README shows what the program prints, and links to what there is."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _printed(folder: Path, *command: str) -> str:
    (folder / "sample_logs").symlink_to(ROOT / "sample_logs")
    words = [sys.executable, "-m", "llmdoctor", *command]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_screen_in_the_readme_is_what_the_demo_prints(tmp_path: Path) -> None:
    shown = re.search(r"<!-- demo -->\n```text\n(.*?)```\n<!-- /demo -->", README, re.DOTALL)
    assert shown, "README.md has no demo block"
    assert shown.group(1) == _printed(tmp_path, "analyze", "sample_logs/queueing", "-o", "demo-report.html")


def test_the_comparison_in_the_readme_is_what_compare_prints(tmp_path: Path) -> None:
    shown = re.search(r"llmdoctor compare (\S+) (\S+)\n```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert shown, "README.md has no comparison"
    assert shown.group(3) == _printed(tmp_path, "compare", shown.group(1), shown.group(2))


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
