"""Functions that components in records name are imported only if they are allowed."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from finished_runs import finish

from rlexp.app.commands.judge.evaluate import EvaluationRequest, evaluate
from rlexp.app.execution.checks.import_permission import foreign_modules
from rlexp.app.observer import SilentObserver
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError

SOURCE = """
from pathlib import Path

Path({sign!r}).touch()


def height(observation):
    return 3 * float(observation[0])
"""
SHAPED = "environment.components.shaping.function=foreign_potential:height"


def test_a_function_of_a_run_is_imported_only_when_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rlexp evaluate` needs --allow-import for the module of a reward-shaping function."""
    import_marker = tmp_path / "sign"
    (tmp_path / "foreign_potential.py").write_text(SOURCE.format(sign=str(import_marker)))
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ("component=shaping", SHAPED, "environment.imports=[foreign_potential]")
    run = finish(tmp_path, "algorithm=ppo", "algorithm.n_steps=64", *arguments)
    import_marker.unlink()
    monkeypatch.delitem(sys.modules, "foreign_potential")

    with pytest.raises(RecordError, match=r"--allow-import foreign_potential$"):
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())
    assert not import_marker.exists()
    allowed = Workspace(tmp_path, run.study.layout, ("foreign_potential",))
    assert 2 == evaluate(run.name, EvaluationRequest(episodes=2), allowed, SilentObserver()).n
    assert import_marker.exists()


@pytest.mark.parametrize(
    ("components", "modules"),
    [
        ({"shaping": {"function": "somewhere.else:f"}}, {"somewhere.else"}),
        ({"shaping": {"function": "somewhere"}}, {"somewhere"}),
        ({"shaping": {"function": None}, "other": ["function"]}, set()),
        (["shaping"], set()),
    ],
)
def test_invalid_function_names_in_records_do_no_harm(components: Any, modules: set[str]) -> None:
    """Records with missing or invalid names of functions are read without an error."""
    environment = {"_target_": "rlexp.x.Y", "id": "CartPole-v1", "components": components}
    assert modules == foreign_modules(
        SimpleNamespace(agent={}, algorithm={}, environment=environment, replay=None, dataset=None)
    )
