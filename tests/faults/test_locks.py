"""A file system that refuses locks: one line is printed, and no run begins."""

from pathlib import Path

import pytest
from studies import new_study
from tracing import injecting, traced


@traced
@pytest.mark.parametrize(
    ("error", "message"),
    [("ENOLCK", "No locks available"), ("ESTALE", "Stale file handle")],
)
def test_a_file_system_without_locks_is_named(tmp_path: Path, error: str, message: str) -> None:
    """Where `flock` fails, the command names the error and suggests a local disk."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        before = injecting("flock", f"error={error}", "1+", tmp_path / "trace")
        code, output = study.give("run", "experiment=x", "budget.steps=3000", before=before)
        assert (2, 1) == (code, len(output.splitlines())), output
        assert message in output
        assert output.rstrip().endswith("set RLEXP_RUNS to a folder on a local disk")
        assert [] == list((study.folder / "runs").glob("x/*/attempts"))
