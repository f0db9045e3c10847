"""The progress of a notebook: throttled, small, and harmless when it fails."""

import pytest

from rlexp.notebook.kernel import CellOutput, in_kernel
from rlexp.notebook.progress import ProgressDisplay


class Recorder(CellOutput):
    """An output that keeps what it was told to show."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[str, str]] = []

    def show(self, html: str, text: str) -> None:
        """Keep what is shown."""
        self.shown.append((html, text))


def test_updates_are_at_most_two_a_second() -> None:
    """A thousand updates in ten seconds are shown twenty times."""
    output, now = Recorder(), [0.0]
    progress = ProgressDisplay(output, lambda *_: "7/9 done", lambda: now[0])
    for k in range(1000):
        now[0] = 1 + k / 100
        progress.update((), 0)
    assert 20 == len(output.shown)


def test_the_end_leaves_a_line_and_the_failures() -> None:
    """At the end, failures and one line are left; the first ten failures are listed."""
    output = Recorder()
    progress = ProgressDisplay(output, lambda *_: "9/9 done")
    for k in range(100):
        progress.add(f"run {k} completed")
        progress.add(f"run {k} failed: <b>", failed=True)
    progress.finish()
    html, text = output.shown[-1]
    expected = [f"run {k} failed: <b>" for k in range(10)]
    assert [*expected, "and 90 more failures", "9/9 done"] == text.splitlines()
    assert "<b>" not in html


def test_a_display_that_fails_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A display that raises an error does not end the call."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the notebook is closed")

    monkeypatch.setattr("IPython.display.display", fail)
    CellOutput().show("<p>", "text")


def test_a_program_is_no_kernel() -> None:
    """Outside of a notebook nothing is displayed."""
    assert not in_kernel()
