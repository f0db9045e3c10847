"""Names that break other tools, folders with hostile names, and very large configurations."""

import resource
from pathlib import Path

import pytest
from in_full import IN_FULL
from studies import new_study

RUN = ("run", "budget.steps=3000", "budget.evaluation_every=1000", "seeds.test=2")
NAMES = ("../x", "-rf", "a:b", "x" * 300, "a\nb")
FOLDERS = ["ü ö/a b", f"line\nbreak/-rf/{'x' * 200}/{'y' * 200}"][: 2 if IN_FULL else 1]


def test_bad_names_are_refused_in_one_line_and_leave_nothing(tmp_path: Path) -> None:
    """Names that leave `runs/`, look like options or are too long are refused in one line."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        before = sorted(tmp_path.rglob("*"))
        for name in NAMES:
            code, output = study.give(*RUN, f"experiment='{name}'")
            assert (2, 1) == (code, len(output.splitlines())), output
            assert "Traceback" not in output
        # Composed configurations are kept in the cache of the user, whatever becomes of a command.
        kept = {"__pycache__", "cache", "runs"}
        left = [p for p in sorted(tmp_path.rglob("*")) if kept.isdisjoint(p.parts)]
        assert [] == [p for p in left if p not in before]
        assert [] == list((study.folder / "runs").rglob("*"))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_study_works_in_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    """Commands work in a folder with spaces, special letters, line breaks or a long path."""
    with new_study(tmp_path / name, quick=True, warm=True) as study:
        code, output = study.give(*RUN, "experiment=x", "algorithm=ppo,a2c")
        assert code == 0, output
        for arguments in (["ls"], ["show", "x"], ["report", "x"]):
            code, output = study.give(*arguments)
            assert (code, "Traceback" in output) == (0, False), output
        assert list(study.folder.glob("**/*.html"))


def test_a_huge_configuration_is_handled_in_seconds(tmp_path: Path) -> None:
    """A value of ten thousand characters and five thousand keys are run, stored and shown."""
    long_value = "z" * 10_000
    environment = ("environment=gymnasium", "environment.id=stuck_environments:Stuck-v0")
    keys = ",".join(f"k{n}:{n}" for n in range(5000))
    arguments = (
        *environment,
        f"+environment.arguments={{text:{long_value},{keys}}}",
        "seeds.test=1",
    )
    with new_study(tmp_path / "study", quick=True) as study:
        start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        code, output = study.give("run", "experiment=x", "budget.steps=3000", *arguments)
        assert code == 0, output
        (run,) = (study.folder / "runs" / "x").glob("*/spec.json")
        assert long_value in run.read_text()
        assert '"k4999": 4999' in run.read_text()
        code, output = study.give("show", f"x/{run.parent.name}")
        assert code == 0, output
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start < 20


def test_a_dry_run_shows_the_size_on_disk(tmp_path: Path) -> None:
    """A dry run shows a rough size on disk."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        code, output = study.give(*RUN, "experiment=x", "--dry-run")
        assert (code, "2 MB" in output) == (0, True), output
