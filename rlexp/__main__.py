"""Starts the command line: `rlexp` and `python -m rlexp`."""

import sys

MISTAKE = 2
"""The exit code of a command that cannot be carried out as it was given."""
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""


def main() -> None:
    """Execute a command, where the operating system can fork processes."""
    # Before any other import: modules for file locks do not exist on Windows.
    if sys.platform == "win32":
        sys.stderr.write("rlexp: Windows cannot fork processes; use WSL instead\n")
        sys.exit(MISTAKE)
    # The imports take a while. The command line itself reports a later Ctrl-C.
    try:
        from rlexp.interrupts import remember_interrupts

        remember_interrupts()
        from rlexp import cli

        cli.main()
    except KeyboardInterrupt:
        _end_interrupted()
    except Exception:
        from rlexp.interrupts import was_interrupted

        if not was_interrupted():
            raise
        _end_interrupted()


def _end_interrupted() -> None:
    sys.stderr.write("rlexp: interrupted\n")
    sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
