"""The storage to which a sweep is copied must not be an SQLite file in a shared folder."""

from pathlib import Path

import pytest
from quick_parts import quick_parts
from stored_runs import console
from stored_sweeps import stored_sweep

from rlexp.app.commands.sweep import SweepOptions
from rlexp.cli.sweep import execute as sweep
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_parts)


def test_a_sqlite_file_in_a_shared_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes before anything is written and names alternatives."""
    monkeypatch.setenv("RLEXP_SHARED", "1")
    made, file = stored_sweep(tmp_path), tmp_path / "study.db"
    said = f"sweep.storage: {file} is in a folder that several machines share, where SQLite files"
    with pytest.raises(ConfigError, match=said):
        sweep(
            None,
            [*made.words, f"sweep.storage=sqlite:///{file}"],
            SweepOptions(),
            made.study,
            console(),
        )
    assert (False, False) == (file.exists(), made.paths.folder.exists())
