"""Definitions under `runs/` that name code are not executed unless the user allows it."""

import shlex
from typing import Any

import pytest
from canaries import EVIL, hostile_parts, write_modules
from foreign_studies import ForeignStudy, edit_json, edit_lines, foreign_study, redefine

PARTS = dict(hostile_parts("mkdir MARK"))
CALL = {"_target_": "os.system", "command": "mkdir MARK"}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> ForeignStudy:
    """A study with modules that the user did not allow, with names that libraries import."""
    study = foreign_study(tmp_path_factory)
    packages = ("numba", "onnx", "shimmy", "tensorboard", "wandb", "sitecustomize")
    write_modules(study.folder, study.canaries, EVIL, *packages)
    return study


def with_marks(document: Any, study: ForeignStudy) -> Any:
    """A structure in which MARK is replaced by the path that the study checks."""
    if isinstance(document, dict):
        return {key: with_marks(value, study) for key, value in document.items()}
    if isinstance(document, list):
        return [with_marks(value, study) for value in document]
    mark = shlex.quote(str(study.canaries.folder / "shell"))
    return document.replace("MARK", mark) if isinstance(document, str) else document


@pytest.mark.parametrize("what", PARTS)
def test_parts_that_name_code_are_not_built(study: ForeignStudy, what: str) -> None:
    """A part that names code can be shown; playing and resuming it is refused in one line."""
    name = "".join(c if c.isalnum() else "-" for c in what)
    changes = with_marks(PARTS[what], study)
    ended = redefine(study.copy(f"{name}-ended"), changes)
    redefine(study.copy(f"{name}-lost"), changes, ended=False)
    study.check(study.give("show", f"{name}-ended"), 0)
    for arguments in (
        ("evaluate", f"{name}-ended/{ended.folder.name}"),
        ("resume", f"{name}-lost"),
    ):
        result = study.give(*arguments)
        study.check(result, 2)
        assert 1 == len(result.text.strip().splitlines()), result.text


@pytest.mark.parametrize("what", ["imports", "algorithm os.system", "wrapper"])
def test_compare_and_reproduce_refuse_parts_that_name_code(study: ForeignStudy, what: str) -> None:
    """`compare --adaptive` and `reproduce` refuse code of the records and name the option."""
    name = f"further-{what.rsplit(maxsplit=1)[-1]}"
    redefine(study.copy(name), with_marks(PARTS[what], study))
    for arguments in (("compare", name, "--adaptive", "--group", "2"), ("reproduce", name)):
        result = study.give(*arguments)
        study.check(result, 2)
        assert "files under runs/ name code that would be executed" in result.text
        assert "--allow-import" in result.text


def test_what_is_allowed_is_imported(study: ForeignStudy) -> None:
    """A module that `--allow-import` names is imported, so a refusal is not accidental."""
    run = redefine(study.copy("allowed"), {"environment": {"imports": ["allowed_module"]}})
    write_modules(study.folder, study.canaries, "allowed_module")
    arguments = ("evaluate", f"allowed/{run.folder.name}", "--episodes", "1")
    study.check(study.give(*arguments), 2)
    result = study.give(*arguments, "--allow-import", "allowed_module")
    assert 0 == result.code, result.text
    (mark,) = study.canaries.executed
    assert "allowed_module" in mark
    (study.canaries.folder / mark).rmdir()


def test_trials_that_name_code_are_not_trained(study: ForeignStudy) -> None:
    """A trial that names code is refused by `run --from-sweep` and by `resume`."""
    paths = study.copy("trials", of="search")
    call = {"environment": {"imports": [EVIL]}, "agent": with_marks(CALL, study)}
    edit_lines(paths.trials, lambda trial: trial["configuration"].update(call))
    (paths.selection).unlink()
    for arguments in (("show", "trials"), ("status", "trials"), ("report", "trials")):
        study.check(study.give(*arguments), 0, 1)
    for command in ("run --from-sweep trials --trial 1 seeds.test=1", "resume trials"):
        result = study.give(*command.split())
        study.check(result, 2)
        assert "name code that would be executed: evil, os" in result.text


@pytest.mark.parametrize("part", ["tuner", "pruner"])
def test_searchers_that_name_code_are_not_built(study: ForeignStudy, part: str) -> None:
    """No command executes a tuner or pruner that names code."""
    paths = study.copy(f"searched-{part}", of="search")
    call = with_marks(CALL, study)
    edit_json(paths.definition, lambda document: document["sweep"].update({part: call}))
    for arguments in (("status",), ("show",), ("report",), ("resume",), ("ls",), ("verify",)):
        study.check(study.give(*arguments, paths.name), 0, 1, 2)


def test_yaml_of_a_foreign_study_is_only_data(study: ForeignStudy) -> None:
    """YAML tags that name Python are refused, and classes are shown without being imported."""
    tag = with_marks("!!python/object/apply:os.system ['mkdir MARK']", study)
    conf = study.folder / "conf"
    (conf / "agent").mkdir(parents=True)
    (conf / "agent" / "tagged.yaml").write_text(f"_target_: rlexp.agents.mlp.MLP\nx: {tag}\n")
    try:
        for arguments in (
            ("config", "show", "agent=tagged"),
            ("run", "agent=tagged", "--dry-run"),
        ):
            result = study.give(*arguments)
            study.check(result, 2)
            assert "tagged" in result.text
        study.check(study.give("config", "list", "agent"), 0)
    finally:
        (conf / "agent" / "tagged.yaml").unlink()
    (conf / "agent" / "evil.yaml").write_text(f"_target_: {EVIL}.Plug\n")
    for arguments in (("config", "show", "agent=evil"), ("config", "list", "agent")):
        study.check(study.give(*arguments), 0)
    study.check(study.give("run", "agent=evil", "--dry-run"), 2)
