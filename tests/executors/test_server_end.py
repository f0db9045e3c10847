"""The server that starts runs ends without the last words of the libraries that it imported."""

from pathlib import Path

import pytest

from rlexp.executors.local import Local

LIBRARY = """
import atexit, os
os.write(2, b"imported")
atexit.register(os.write, 2, b"leaked 4 instances")
"""
"""A library that reports on standard error at the end of the interpreter, like Triton's bindings."""


def test_a_library_prints_nothing_at_the_end_of_the_server(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a preloaded library would print over the results of a command is not printed."""
    (tmp_path / "leaking_library.py").write_text(LIBRARY)
    executor = Local(workers=1, hang_timeout=60, grace=5, log_limit=1000)
    with executor.open("os:getpid", ("leaking_library",), threads=1, folder=tmp_path) as session:
        session._wait_until_ready()
    assert "imported" == capfd.readouterr().err
