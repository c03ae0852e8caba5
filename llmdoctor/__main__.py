"""`python -m llmdoctor`."""

from llmdoctor.cli import main

main()
