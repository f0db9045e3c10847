"""The page about callbacks lists every callback, and its example acts and continues exactly."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from last_words import last_words
from shown_commands import write_files

from rlexp.app.execution.checks.callback_checks import length_obstacle
from rlexp.app.execution.request import configuration_of
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import validate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "callbacks.md").read_text()


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page."""
    write_files(PAGE, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return tmp_path


def test_every_callback_has_a_row() -> None:
    """The table lists exactly the callbacks of `conf/callback`."""
    rows = set(re.findall(r"^\| \[?`(\w+)`", PAGE.split("## schedule")[0], re.MULTILINE))
    assert {path.stem for path in (ROOT / "conf" / "callback").glob("*.yaml")} == rows


def test_every_setting_has_a_row() -> None:
    """Each setting of our callbacks is explained in a table of the page."""
    import yaml

    named = set(re.findall(r"`(\w+)`", PAGE))
    for path in (ROOT / "conf" / "callback").glob("*.yaml"):
        for part in (yaml.safe_load(path.read_text()) or {}).values():
            assert set() == set(part) - named - {"_target_"}, path.stem


def test_the_example_acts_and_is_refused_for_longer_runs(study: Path) -> None:
    """The example's settings are the arguments of its class, and it says that it depends on the length."""
    words = last_words("callback=patience", "callback.patience.every=100")
    (composed,) = compose(words, study)
    root, parts = validate(composed.plain, ("my_callbacks",))
    configuration = configuration_of(composed, root, parts)
    del sys.modules["my_callbacks.patience"]
    assert configuration.callback is not None
    recorded = configuration.callback["patience"]
    assert (100, 1e-5) == (recorded["every"], recorded["least"])
    assert recorded["plug_in"]["name"] == "my_callbacks.patience:Patience"
    workspace = Workspace.here(("my_callbacks",), folder=study)
    assert length_obstacle(configuration, workspace) == (
        "callback patience depends on the length of training"
    )
