"""`rlexp show` prints the scores and the definition of an experiment or a run."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import (
    PROVENANCE,
    STARTED,
    Stored,
    completed,
    configuration,
    ended,
    evaluated,
    failed,
    stored,
    study,
)

from rlexp.app.commands.look.plot import PlotRequest, plot
from rlexp.app.commands.look.show import ExperimentDetails, ShowPart, show
from rlexp.app.commands.look.show_curves import small_curves
from rlexp.engine.run_in_flight import PROGRESS
from rlexp.errors import RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, Failure
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold
from rlexp.text import as_yaml

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Seed 0 crashed once and then completed, seed 1 failed, seed 2 never started."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.attempt(0, failed(Failure.CRASHED, "killed by signal 11"))
    alpha.complete(0, 100.0)
    alpha.attempt(1, failed())
    return alpha


OPTIONS = {
    ShowPart.RESULT: ("--full",),
    ShowPart.CONFIG: ("--config",),
    ShowPart.PROVENANCE: ("--provenance",),
}


def text_output(target: str, folder: Path, part: ShowPart = ShowPart.RESULT) -> str:
    """The text output of `rlexp show`, with every detail."""
    return rlexp(folder, "show", target, *OPTIONS[part]).out


def json_of(
    target: str, folder: Path, schema: str = "run-details", part: ShowPart = ShowPart.RESULT
) -> Any:
    """The JSON document of `rlexp show`."""
    return rlexp(folder, "show", target, *OPTIONS[part], "--json").document(schema)


def test_an_experiment_is_shown_as_after_its_command(alpha: Stored, tmp_path: Path) -> None:
    """The output has scores by seed, failures with reasons, the folder and the next command."""
    output = text_output("alpha", tmp_path)
    assert "  seed 0        100.00\n" in output
    assert "n = 1 of 3 runs (1 failed, 1 missing)" in output
    assert f"  {alpha.run(1).folder.name} failed (nan) at step 60: a loss is NaN\n" in output
    assert f"Records: {alpha.paths.folder}\n" in output
    assert "nothing to run" not in output
    assert output.endswith("To see every run: rlexp ls alpha\nTo continue: rlexp resume alpha\n")


def test_a_run_has_a_small_learning_curve(alpha: Stored, tmp_path: Path) -> None:
    """A run with two evaluations in training has a curve of eight lines; one has none."""
    lines = text_output(f"alpha/{alpha.run(0).folder.name}", tmp_path).splitlines()
    first = lines.index("learning curve: mean return of an evaluation")
    assert 8 == lines.index("", first) - first
    assert "environment steps" == lines[first + 7].strip()
    assert any("⣀" <= character <= "⣿" for line in lines[first:] for character in line)
    assert "learning curve" not in text_output(f"alpha/{alpha.run(1).folder.name}", tmp_path)


def test_an_experiment_has_a_small_curve_of_each_label(tmp_path: Path) -> None:
    """A small figure of 80 columns has the lines that `rlexp plot` draws, one for each label."""
    alpha = stored(Layout(tmp_path / "runs"), "alpha", configuration(), configuration("a2c"))
    for label, height in (("ppo", 1.0), ("a2c", 5.0)):
        for seed in (0, 1):
            curve = [evaluated(step, height * step + seed) for step in (25, 50)]
            final = evaluated(100, 1.0, final=True)
            alpha.attempt(seed, [*curve, final, ended(Ending.COMPLETED)], label=label)
    details = show("alpha", ShowPart.RESULT, study(tmp_path))
    assert isinstance(details, ExperimentDetails)
    (figure,) = small_curves(details, study(tmp_path)).figures
    (task,) = plot(PlotRequest(targets=("alpha",)), study(tmp_path)).tasks
    aggregates = [line for line in task.figure.lines if not line.faint]
    assert [(e.label, e.x, e.y) for e in aggregates] == [(f.label, f.x, f.y) for f in figure.lines]
    assert [("ppo", (25.5, 50.5)), ("a2c", (125.5, 250.5))] == [
        (f.label, f.y) for f in figure.lines
    ]
    printed = text_output("alpha", tmp_path)
    drawn = printed[printed.index("CartPole-v1: mean return") :].splitlines()
    assert max(map(len, drawn)) <= 80
    assert {"a ppo: 2 of 3 runs", "b a2c: 2 of 3 runs"} <= set(drawn)
    assert "Line: interquartile mean over runs. With bands: rlexp plot alpha" in drawn
    assert "CartPole-v1: mean return" not in rlexp(tmp_path, "show", "alpha", "--json").out


def test_an_experiment_without_two_evaluations_has_no_curve(tmp_path: Path) -> None:
    """Runs that were evaluated once in training give no figure and no word about one."""
    alpha = stored(Layout(tmp_path / "runs"))
    final = evaluated(100, 2.0, final=True)
    alpha.attempt(0, [evaluated(50, 1.0), final, ended(Ending.COMPLETED)])
    assert "With bands" not in text_output("alpha", tmp_path)


def test_every_phase_is_shown_separately(alpha: Stored, tmp_path: Path) -> None:
    """Each phase is shown separately with its scores."""
    (test,) = json_of("alpha", tmp_path, "experiment-details")["phases"]
    assert test["phase"] == "test"
    alpha.complete(0, 3.0, phase=Phase.TUNING)
    tuning, test = json_of("alpha", tmp_path, "experiment-details")["phases"]
    assert {"0": 3.0} == tuning["cells"][0]["scores"]
    assert {"0": 100.0} == test["cells"][0]["scores"]
    assert "ppo on CartPole-v1, tuning seeds" in text_output("alpha", tmp_path)


def test_damaged_runs_are_named(alpha: Stored, tmp_path: Path) -> None:
    """A damaged run counts as missing, and its problem is named."""
    alpha.run(0).spec.write_text("{")
    output = text_output("alpha", tmp_path)
    assert "n = 0 of 3 runs (1 failed, 2 missing)" in output
    assert f"Damaged: {alpha.run(0).folder.name}: spec.json cannot be read" in output


def test_a_run_is_shown_with_its_evaluations_and_attempts(alpha: Stored, tmp_path: Path) -> None:
    """The output has every evaluation and every attempt of the run."""
    name = alpha.run(0).folder.name
    value = json_of(f"alpha/{name}", tmp_path)
    assert ("completed", 100.0, 2) == (value["state"], value["score"], value["attempts"])
    expected = {"step": 50, "mean": 37.5, "min": 25.0, "max": 50.0, "episodes": 2}
    assert {**expected, "policy": "in training"} == value["evaluations"][0]
    assert [50, 100, 100] == [e["step"] for e in value["evaluations"]]
    assert "final" == value["evaluations"][-1]["policy"]
    assert [("failed", "crashed", "killed by signal 11"), ("completed", None, None)] == [
        (a["state"], a["failure"], a["reason"]) for a in value["history"]
    ]
    assert {"spec.json", "attempts/2/events.jsonl", "attempts/2/provenance.json"} <= {
        f["file"] for f in value["files"]
    }
    output = text_output(name, tmp_path)
    assert output.startswith(
        f"alpha/{name}\n  ppo on CartPole-v1, test phase, seed 0\n  completed"
    )
    assert "score 100.00, mean return of the final policy" in output
    assert "killed by signal 11" in output
    assert f"rlexp logs alpha/{name}" in output


def test_a_running_attempt_differs_from_a_lost_one(alpha: Stored, tmp_path: Path) -> None:
    """An attempt without an end is running while its lease is held, and lost otherwise."""
    run = alpha.attempt(2, [evaluated(50, 1.0)])
    run.attempt(1).progress.write_bytes(PROGRESS.pack(70, 9))
    name = f"alpha/{run.folder.name}"
    value = json_of(name, tmp_path)
    assert ("lost", "lost", 50) == (value["state"], value["history"][0]["state"], value["step"])
    with hold(run.lease, "the run", now=STARTED):
        value = json_of(name, tmp_path)
    (attempt,) = value["history"]
    assert ("running", 70) == (value["state"], value["step"])
    assert ("running", 70) == (attempt["state"], attempt["step"])


def test_long_histories_are_shortened_only_in_text(alpha: Stored, tmp_path: Path) -> None:
    """The text has only the last evaluations, and the JSON document has all."""
    evaluations = [evaluated(step, 1.0) for step in range(1, 101)]
    run = alpha.attempt(2, [*evaluations, ended(Ending.INTERRUPTED)])
    assert len(json_of(run.folder.name, tmp_path)["evaluations"]) == 100
    assert "the last 40 of 100; --json shows all" in text_output(run.folder.name, tmp_path)


def test_the_configuration_is_yaml(alpha: Stored, tmp_path: Path) -> None:
    """The printed specification and definition are valid YAML."""
    name = alpha.run(0).folder.name
    spec = json.loads(json.dumps(alpha.spec(0).plain()))
    assert spec == yaml.safe_load(text_output(name, tmp_path, ShowPart.CONFIG))
    document = json_of(name, tmp_path, "recorded-configuration", ShowPart.CONFIG)
    assert {"experiment": "alpha", "run": name, "content": spec} == document
    definition = yaml.safe_load(text_output("alpha", tmp_path, ShowPart.CONFIG))
    assert ("alpha", "ppo") == (definition["name"], definition["configurations"][0]["label"])


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": {}, "b": [], "c": None, "d": ""},
        {"text": ["yes", "no", "null", "1", "1e3", "- x", "a: b", "a #b", "é", "\x1b[31m", "~"]},
        {"12": {"nested": [{"deep": [1, 2.5]}, {"a": [[], {}]}]}, "y": True},
        {"long": "two words and\na line", "path": "/a b/c.d@e", "=": "=", "-": "--flag"},
    ],
)
def test_the_outline_of_any_value_is_yaml(value: dict[str, Any]) -> None:
    """Strings that YAML would read as another type are quoted."""
    assert value == (yaml.safe_load(as_yaml(value)) or {})


def test_provenance_is_that_of_the_last_attempt_with_packages_last(
    alpha: Stored, tmp_path: Path
) -> None:
    """The provenance of the last attempt ends with the packages, and secrets are masked."""
    provenance = {
        **PROVENANCE,
        "command": ["rlexp", "run", "API_TOKEN=abcdefgh"],
        "python": "3.12.0",
    }
    run = alpha.attempt(1, completed(1.0), provenance=provenance, patch="diff --git a/x b/x\n")
    output = text_output(run.folder.name, tmp_path, ShowPart.PROVENANCE)
    assert output.splitlines()[-2:] == ['  numpy: "2.1.0"', '  torch: "2.8.0"']
    assert "abcdefgh" not in output
    value = json_of(run.folder.name, tmp_path, "provenance", ShowPart.PROVENANCE)
    content = value["content"]
    assert (2, "3.12.0") == (value["attempt"], content["python"])
    assert "a" * 40 == content["code"]["commit"]
    assert value["patch"] == str(run.attempt(2).patch)
    assert "abcdefgh" not in str(content)


def test_the_provenance_of_an_experiment_is_that_of_its_newest_run(
    alpha: Stored, tmp_path: Path
) -> None:
    """The provenance of an experiment names the run that it belongs to."""
    assert "run: ppo-test-" in text_output("alpha", tmp_path, ShowPart.PROVENANCE)


def test_a_run_that_never_started_has_no_provenance(alpha: Stored, tmp_path: Path) -> None:
    """A run that never started can be shown, and its provenance is refused."""
    from rlexp.store.runs import write_run

    write_run(alpha.run(2), alpha.spec(2))
    name = alpha.run(2).folder.name
    assert "planned\n  0 of 100 environment steps\n" in text_output(name, tmp_path)
    with pytest.raises(RecordError, match="has not started yet"):
        show(name, ShowPart.PROVENANCE, study(tmp_path))


def test_an_exact_experiment_wins_over_a_part_of_a_run(alpha: Stored, tmp_path: Path) -> None:
    """The exact name of an experiment is preferred to a part of the name of a run."""
    stored(Layout(tmp_path / "runs"), "ppo-test-0")
    for target in ("ppo-test-0", "runs/ppo-test-0/", str(tmp_path / "runs" / "ppo-test-0")):
        assert json_of(target, tmp_path, "experiment-details")["experiment"] == "ppo-test-0"
    name = alpha.run(0).folder.name
    for target in (f"runs/alpha/{name}", str(alpha.run(0).folder), name[:-3]):
        assert json_of(target, tmp_path)["run"] == name


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("alpa", "no experiment and no run under .* matches 'alpa'; did you mean 'alpha'"),
        ("alpha/nothing", "no run under .* matches 'alpha/nothing'"),
        ("ppo-test", "'ppo-test' is ambiguous, because it fits 2 runs: alpha/ppo-test-0"),
        ("", "name an experiment or a run"),
        ("/", "name an experiment or a run"),
        ("alpha/..", "no run under .* matches"),
        ("../runs/alpha", "there is no experiment '../runs'"),
    ],
)
def test_an_unknown_target_is_refused(
    alpha: Stored, tmp_path: Path, target: str, message: str
) -> None:
    """An unknown or ambiguous target is refused."""
    with pytest.raises(RecordError, match=message):
        show(target, ShowPart.RESULT, study(tmp_path))


def test_an_experiment_in_place_of_a_run_is_named_as_such(alpha: Stored, tmp_path: Path) -> None:
    """Where a run is needed, the name of an experiment is not called unknown, and its runs are listed."""
    expected = (
        "alpha is an experiment, and a run is needed: name one as alpha/RUN; .*rlexp ls alpha"
    )
    with pytest.raises(RecordError, match=expected):
        study(tmp_path).run("alpha")


def test_same_names_in_two_experiments_are_told_apart(alpha: Stored, tmp_path: Path) -> None:
    """A whole name that two experiments have is refused with a name that fits one run."""
    beta = stored(Layout(tmp_path / "runs"), "beta")
    beta.complete(0, 1.0)
    name = beta.run(0).folder.name
    assert name == alpha.run(0).folder.name
    with pytest.raises(RecordError, match=f"fits 2 runs: .* as in alpha/{name}"):
        study(tmp_path).run(name)
    assert beta.run(0).folder == study(tmp_path).run(f"beta/{name}").folder


def test_an_unreadable_neighbour_hides_no_run(alpha: Stored, tmp_path: Path) -> None:
    """A circular link beside an experiment does not hide its runs."""
    (tmp_path / "runs" / "circle").symlink_to("circle")
    name = alpha.run(0).folder.name
    assert json_of(name, tmp_path)["run"] == name


def test_a_missing_definition_is_a_one_line_error(alpha: Stored, tmp_path: Path) -> None:
    """The error about a damaged definition names the command that lists the runs."""
    alpha.paths.definition.write_text("{")
    with pytest.raises(RecordError, match=r"experiment\.json cannot be read.*rlexp ls alpha"):
        show("alpha", ShowPart.RESULT, study(tmp_path))


def test_many_scores_are_summarised_in_a_line(tmp_path: Path) -> None:
    """The text has the lowest and the highest of many scores, and the JSON document has all."""
    experiment = stored(study(tmp_path).layout, "alpha", configuration("ppo"), test=51)
    for seed in range(51):
        experiment.complete(seed, 100.0 + seed)
    output = text_output("alpha", tmp_path)
    assert "  51 scores from 100.00 to 150.00; to see each: rlexp ls alpha\n" in output
    assert "seed 0  " not in output
    (phase,) = json_of("alpha", tmp_path, "experiment-details")["phases"]
    assert 51 == len(phase["cells"][0]["scores"])


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_what_could_be_found_is_shown_if_it_is_known(tmp_path: Path, step: float) -> None:
    """Four runs that differ end with what a comparison could find; four equal runs do not."""
    experiment = stored(study(tmp_path).layout, "four", configuration(), test=4)
    for seed in range(4):
        experiment.complete(seed, 100.0 + step * seed)
    output = text_output("four", tmp_path)
    expected = "compared with another label of this spread: with 4 seeds a difference of about "
    assert (step > 0) == (expected in output)
    assert (step > 0) == ("compared with" in output)
