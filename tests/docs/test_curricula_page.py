"""The page about curricula lists every teacher, and its example teacher works."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shown_commands import write_files

from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.environments import Stage
from rlexp.environments.composed import at_stage

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "curricula.md").read_text()


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page."""
    write_files(PAGE, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return tmp_path


def test_the_example_teacher_works(study: Path) -> None:
    """The teacher acts only in training, on the page's environment, and widens its range."""
    (composed,) = compose(["environment=cartpole_contexts", "teacher=widening"], study)
    _, parts = validate(composed.plain, ("my_teachers",))
    del sys.modules["my_teachers"]
    environment: Any = parts.environment.make()
    teacher = parts.environment.components["teacher"]
    assert teacher.shared
    low, high = environment.get_wrapper_attr("task_box")
    generator = np.random.default_rng(1)
    lessons = teacher.begin(low, high, generator)
    for outcome in (float("nan"), 0.0, *[200.0] * 30):
        lessons.learn(lessons.propose(), outcome)
    assert lessons.share == 1.0
    proposed = np.stack([lessons.propose() for _ in range(100)])
    assert ((low <= proposed) & (proposed <= high)).all()
    other = teacher.begin(low, high, generator)
    other.restore(lessons.state())
    assert other.share == 1.0
    evaluated = at_stage(parts.environment, Stage.EVALUATION).make()
    assert not evaluated.has_wrapper_attr("task_box")


def test_every_teacher_has_a_row() -> None:
    """The table lists exactly the teachers of `conf/teacher`."""
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert {path.stem for path in (ROOT / "conf" / "teacher").glob("*.yaml")} == rows


@pytest.mark.parametrize(
    ("benchmark", "teacher"),
    [
        ("teachers", "random"),
        ("teachers", "alp_gmm"),
        ("more_teachers", "random"),
        ("more_teachers", "mbtl"),
        ("more_teachers", "success_rate"),
    ],
)
def test_benchmark_composes(benchmark: str, teacher: str, tmp_path: Path) -> None:
    """The benchmark of a teacher tests each context once, and counts those below the bound of the page."""
    (composed,) = compose([f"+benchmark={benchmark}", f"teacher={teacher}"], tmp_path)
    root, parts = validate(composed.plain)
    context = parts.environment.components["context"]
    assert root.budget.final_episodes == len(context.test_contexts())
    catastrophe = parts.environment.components["catastrophe"]
    assert f"A context is mastered where the return reaches {catastrophe.below:.0f}." in PAGE
    parts.environment.make()


def test_iwocs_is_scored_by_the_catastrophes_of_the_page(tmp_path: Path) -> None:
    """The benchmark of `iwocs` plays each context of a grid equally often, and counts the returns that the page names."""
    (composed,) = compose(["+benchmark=iwocs", "teacher=iwocs"], tmp_path)
    root, parts = validate(composed.plain)
    components = parts.environment.components
    contexts = components["context"].test_contexts()
    assert root.budget.score == "catastrophe"
    assert root.budget.final_episodes == 4 * len(contexts)
    assert f"of four episodes in each of {len(contexts)} contexts" in PAGE
    assert f"a return below\n{components['catastrophe'].below:.0f}," in PAGE
