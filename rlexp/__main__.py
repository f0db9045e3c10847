"""`python -m rlexp`."""

from rlexp.cli import main

main()
