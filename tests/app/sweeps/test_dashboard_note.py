"""A sweep ends with the command of Optuna's dashboard, where it is installed."""

from pathlib import Path

import pytest

from rlexp.app.observer import SilentObserver
from rlexp.app.sweeps import progress
from rlexp.app.sweeps.progress import note_dashboard
from rlexp.store.layout import ExperimentPaths


class Notes(SilentObserver):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        """Keep a note."""
        self.texts.append(text)


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        (None, ["optuna: optuna-dashboard 'runs/my sweep/optuna.journal'"]),
        ("sqlite:///studies.db", ["optuna: optuna-dashboard sqlite:///studies.db"]),
        ("postgresql+psycopg://me:secret@there/studies", []),
    ],
    ids=["journal", "database", "database with a password"],
)
def test_the_command_shows_the_mirror(
    storage: str | None, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command names the journal or the database, and no password."""
    notes, paths = Notes(), ExperimentPaths(tmp_path / "runs" / "my sweep")
    monkeypatch.setattr(progress, "find_spec", lambda _: object())
    note_dashboard(paths, storage, tmp_path, notes)
    assert notes.texts == expected
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    note_dashboard(paths, storage, tmp_path, notes)
    assert notes.texts == expected, "the dashboard is not installed"
