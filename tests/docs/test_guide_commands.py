"""The commands of the guides work. See page_commands.py."""

from pathlib import Path

import pytest
from page_commands import GUIDES, execute_page, make_experiments


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the experiments that most pages name."""
    folder = tmp_path_factory.mktemp("experiments")
    make_experiments(folder)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", GUIDES)
def test_commands_of_a_guide_work(name: str, experiments: Path, tmp_path: Path) -> None:
    """Each command of a guide succeeds after those before it, with a tiny budget."""
    execute_page(name, experiments, tmp_path / "workspace")
