"""The README shows what the program prints, and links to what there is."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_screen_in_the_readme_is_what_the_demo_prints(tmp_path: Path) -> None:
    shown = re.search(r"<!-- demo -->\n```text\n(.*?)```\n<!-- /demo -->", README, re.DOTALL)
    assert shown, "README.md has no demo block"
    (tmp_path / "sample_logs").symlink_to(ROOT / "sample_logs")
    command = [sys.executable, "-m", "llmdoctor", "analyze", "sample_logs/queueing", "-o", "demo-report.html"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert shown.group(1) == printed


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
