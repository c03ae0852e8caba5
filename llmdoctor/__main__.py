"""`python -m llmdoctor`, and the console script: Ctrl-C while modules are still loading ends in one line, too."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line."""
    try:
        from llmdoctor.cli import main as run  # noqa: PLC0415 - within the try
    except KeyboardInterrupt:
        sys.stderr.write("llmdoctor: interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
