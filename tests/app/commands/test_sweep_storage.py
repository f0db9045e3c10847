"""A sweep is not copied to an SQLite file in a folder that several machines share."""

from pathlib import Path

import pytest
from quick_parts import quick_parts
from stored_runs import console
from stored_sweeps import stored_sweep

from rlexp.app.commands.train.sweep import SweepOptions
from rlexp.cli.train.sweep import execute as sweep
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_parts)


def test_a_sqlite_file_in_a_shared_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage is refused before the file or the folder of the sweep is written."""
    monkeypatch.setenv("RLEXP_SHARED", "1")
    stored, file = stored_sweep(tmp_path), tmp_path / "study.db"
    message = (
        f"sweep.storage: {file} is in a folder that several machines share, where SQLite files"
    )
    with pytest.raises(ConfigError, match=message):
        sweep(
            None,
            [*stored.words, f"sweep.storage=sqlite:///{file}"],
            SweepOptions(),
            stored.study,
            console(),
        )
    assert (False, False) == (file.exists(), stored.paths.folder.exists())
