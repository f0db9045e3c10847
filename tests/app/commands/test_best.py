"""`rlexp best` shows the winner of a sweep and writes its hyperparameters for reuse."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from command_line import give, give_json, rlexp, typed
from quick_parts import quick_parts
from stored_sweeps import StoredSweep, finished_sweep, stored_sweep

from rlexp.api import best as best_in_python
from rlexp.app.commands.judge.best import BestFormat, BestRequest, best
from rlexp.app.commands.setup.import_hyperparameters import (
    HyperparametersRequest,
    import_hyperparameters,
)
from rlexp.app.execution.request import read_request
from rlexp.app.reporting.build import make_report
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.cli.judge.best import short_range
from rlexp.config.report_settings import read_report
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase
from rlexp.records.selection import configuration_name
from rlexp.reports.drawing.blocks import Table
from rlexp.store.sweeps import read_selection, read_trials

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def stored(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredSweep:
    """A finished sweep."""
    return finished_sweep(tmp_path, tmp_path_factory)


@pytest.fixture
def searching(tmp_path: Path) -> StoredSweep:
    """A sweep that has not selected its winner."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on(runs=5)
    return sweep


def winner(sweep: StoredSweep) -> Configuration:
    """The configuration of the winner."""
    selection = read_selection(sweep.paths)
    assert selection is not None
    configuration = read_trials(sweep.paths)[selection.winner].configuration
    assert configuration is not None
    return configuration


def reached(sweep: StoredSweep, *overrides: str) -> Configuration:
    """The configuration that overrides lead to."""
    (configuration,) = read_request(overrides, sweep.study).experiment.configurations
    return configuration


def written(sweep: StoredSweep, form: BestFormat) -> str:
    """The hyperparameters in a form."""
    text = best(BestRequest(sweep="made_up", form=form), sweep.study).text
    assert text is not None
    return text


def test_the_scores_are_those_of_the_report(stored: StoredSweep) -> None:
    """Scores, intervals and optimism are the same numbers as in the report of the sweep."""
    result = best(BestRequest(sweep="made_up"), stored.study)
    evidence = collect_evidence(["made_up"], Phase.TEST, stored.study)
    folder = stored.study.folder
    report = make_report(evidence, read_report(["section=[winner]"], folder, ()))
    tables = {b.name: b for part in report.parts for b in part.blocks if isinstance(b, Table)}
    rows = [(m.label, m.trial, m.phase, len(m.scores), m.planned, m.mean) for m in result.scores]
    assert rows == [row[:6] for row in tables["winner-scores"].rows]
    assert ("optimism", result.optimism) == tables["winner-optimism"].rows[0][:2]
    assert {"tuning", "selection", "test"} == {m.phase for m in result.scores}
    assert (True, None) == (result.selected, result.caution)


def test_the_hyperparameters_stand_beside_the_defaults(stored: StoredSweep) -> None:
    """Each searched parameter has its exact value in the winner and in the default."""
    result = best(BestRequest(sweep="made_up"), stored.study)
    default = read_trials(stored.paths)[0].configuration
    assert default is not None
    rows = {row.parameter.removeprefix("algorithm."): row for row in result.parameters}
    assert {"learning_rate", "n_epochs"} == set(rows)
    for key, row in rows.items():
        values = (default.algorithm[key], winner(stored).algorithm[key])
        assert values == (row.default, row.value)
    printed = give(stored.study.folder, "best", "made_up")
    assert repr(rows["learning_rate"].value) in printed
    assert f"{configuration_name(result.trial, result.trial)} was chosen from 8 trials" in printed


def test_the_scores_are_one_table(stored: StoredSweep) -> None:
    """Each mean stands beside every score of few runs, and the method of the intervals stands once."""
    printed = give(stored.study.folder, "best", "made_up")
    result = best(BestRequest(sweep="made_up"), stored.study)
    for measured in result.scores:
        assert measured.mean is not None
        runs = ", ".join(f"{v:.{measured.mean.digits}f}" for v in measured.mean.runs[0])
        seeds = rf"{len(measured.scores)} of {measured.planned} {measured.phase}"
        name = configuration_name(measured.trial, result.winner, measured.label)
        assert re.search(rf"^{re.escape(name)} +{seeds} .*  {runs}$", printed, re.MULTILINE)
    assert 1 == printed.count("95 % interval: t with bootstrap standard error, seed 0.")


@pytest.mark.parametrize(
    ("whole", "shown"),
    [
        ("0.9 to 0.999, flipped log", "0.9 to 0.999, flipped log"),
        ("one of 128, 256, 512, 1024, 2048", "one of 128, 256, 512, 1024, 2048"),
        (
            "one of [64, 64], [256, 256], [400, 300], [32, 32, 32], [16], [512, 512]",
            "one of [64, 64], [256, 256], [400, 300] and 3 more",
        ),
        (f"one of {'a' * 60}, b", f"one of {'a' * 60} and 1 more"),
        ("a" * 60, "a" * 60),
        ("one of " + "a," * 40, "one of " + "a," * 40),
        (
            "one of [[64, 64], [32, 32]], [[256, 256], [128, 128]], [[400, 300], [200, 100]]",
            "one of [[64, 64], [32, 32]] and 2 more",
        ),
        (
            "one of {shape: linear, initial: 0.001}, {shape: constant, initial: 0.01}, 0.1",
            "one of {shape: linear, initial: 0.001} and 2 more",
        ),
    ],
)
def test_a_long_list_of_values_is_shortened(whole: str, shown: str) -> None:
    """A table has the first values of a long list, never a part of a value, and the number of others."""
    assert shown == short_range(whole)


def test_before_the_selection_the_incumbent_is_called_no_result(searching: StoredSweep) -> None:
    """The best trial so far has tuning scores only, which are called too optimistic."""
    result = best(BestRequest(sweep="made_up"), searching.study)
    assert (False, {"tuning"}) == (result.selected, {m.phase for m in result.scores})
    assert result.caution is not None
    for text in (
        "not selected a winner",
        "1 of 3 tuning seeds",
        "too optimistic",
        "no test scores",
    ):
        assert text in result.caution
    assert (None, None) == (result.optimism, result.improvement)
    assert result.caution in give(searching.study.folder, "best", "made_up")


def test_a_trial_that_was_not_selected_is_called_so(stored: StoredSweep) -> None:
    """`--trial N` shows the parameters and the scores of that trial, without a test score."""
    trials, chosen = read_trials(stored.paths), read_selection(stored.paths)
    assert chosen is not None
    other = next(n for n in (1, 2) if n != chosen.winner)
    result = best(BestRequest(sweep="made_up", trial=other), stored.study)
    assert (other, False, chosen.winner) == (result.trial, result.selected, result.winner)
    assert trials[other].parameters == {row.parameter: row.value for row in result.parameters}
    assert "test" not in {m.phase for m in result.scores if m.trial == other}
    assert (None, None) == (result.optimism, result.improvement)
    folder = stored.study.folder
    printed = give(folder, "best", "made_up", "--trial", str(other))
    assert f"Trial {other} was not selected: made_up selected trial {chosen.winner}." in printed
    assert "It has no test scores" in printed
    assert re.search(rf"^trial {other} +1 of 3 tuning ", printed, re.MULTILINE)
    assert "was chosen from" not in printed
    assert f"rlexp run --from-sweep made_up --trial {other}" in printed
    words = ["made_up", "--trial", str(other), "--format"]
    assert f"It was not selected: the winner is trial {chosen.winner}." in give(
        folder, "best", *words, "yaml"
    )
    configuration = trials[other].configuration
    assert configuration is not None
    args = shlex.split(give(folder, "best", *words, "args"))
    assert configuration.fingerprint == reached(stored, *args).fingerprint


def test_the_winner_and_the_default_can_be_named(stored: StoredSweep) -> None:
    """`--trial` with the winner shows what is shown without it, and the default has test scores."""
    usual = best(BestRequest(sweep="made_up"), stored.study)
    named = best(BestRequest(sweep="made_up", trial=usual.trial), stored.study)
    assert (usual.scores, usual.optimism, True) == (named.scores, named.optimism, named.selected)
    default = best(BestRequest(sweep="made_up", trial=0), stored.study)
    assert {"tuning", "test"} <= {m.phase for m in default.scores if m.trial == 0}
    assert "is the default configuration, which is tested" in (default.caution or "")


def test_a_named_trial_of_a_search_is_no_result(searching: StoredSweep) -> None:
    """Before the selection, a named trial is not called the best."""
    result = best(BestRequest(sweep="made_up", trial=1), searching.study)
    assert (False, None) == (result.selected, result.winner)
    assert "has not selected a winner yet. Trial 1 has scores on 1 of 3" in (result.caution or "")
    assert "best" not in (result.caution or "")


def test_a_winner_without_test_scores_is_no_result(tmp_path: Path) -> None:
    """After the selection and before the test, the scores are called too optimistic."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on(until=SweepStage.SELECTION)
    result = best(BestRequest(sweep="made_up"), sweep.study)
    assert result.selected
    assert result.caution is not None
    assert "has no test scores yet" in result.caution


def test_the_arguments_lead_to_the_winner(stored: StoredSweep) -> None:
    """The words of `--format args` compose the configuration of the winner."""
    printed = give(stored.study.folder, "best", "made_up", "--format", "args")
    words = shlex.split(printed)
    assert winner(stored).fingerprint == reached(stored, *words).fingerprint
    assert not any(word.startswith("seeds.") for word in words)


def test_a_saved_benchmark_leads_to_the_winner(stored: StoredSweep) -> None:
    """`+benchmark=NAME` composes the winner, and other words change it."""
    result = best(BestRequest(sweep="made_up", save="mine"), stored.study)
    target = stored.study.folder / "conf" / "benchmark" / "mine.yaml"
    assert target == result.file
    assert winner(stored).fingerprint == reached(stored, "+benchmark=mine").fingerprint
    moved = reached(stored, "+benchmark=mine", "environment=acrobot", "algorithm.gamma=0.5")
    assert ("Acrobot-v1", 0.5) == (moved.task, moved.algorithm["gamma"])
    assert target.read_text() == written(stored, BestFormat.YAML)
    assert "rlexp run +benchmark=mine" in [step.command for step in result.next]


def test_a_benchmark_names_its_origin(stored: StoredSweep) -> None:
    """The comment has the sweep, the trial, the scores with n, and the digest of the selection."""
    result = best(BestRequest(sweep="made_up"), stored.study)
    comment = [line for line in written(stored, BestFormat.YAML).splitlines() if line[0] == "#"]
    assert "# @package _global_" == comment[0]
    head = " ".join(comment)
    for text in (f"trial {result.trial} of 8", "sweep made_up", "(n = 3)", "selection.json"):
        assert text in head


def test_an_identical_benchmark_is_kept_and_another_is_refused(stored: StoredSweep) -> None:
    """Saving twice changes nothing; a changed file and a link are never overwritten."""
    request = BestRequest(sweep="made_up", save="mine")
    target = best(request, stored.study).file
    assert target is not None
    before = target.stat().st_mtime_ns
    best(request, stored.study)
    assert before == target.stat().st_mtime_ns
    target.write_text("# mine\n")
    with pytest.raises(ConfigError, match="remove it, or choose another --save"):
        best(request, stored.study)
    assert "# mine\n" == target.read_text()
    link = target.with_name("link.yaml")
    link.symlink_to(target)
    with pytest.raises(ConfigError, match="already exists"):
        best(BestRequest(sweep="made_up", save="link"), stored.study)


def test_the_comment_of_a_saved_benchmark_follows_the_test_scores(tmp_path: Path) -> None:
    """After the test the same `--save` writes the scores anew; other settings are still refused."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on(until=SweepStage.SELECTION)
    request = BestRequest(sweep="made_up", save="mine")
    target = best(request, sweep.study).file
    assert target is not None
    before = target.read_text()
    sweep.go_on()
    best(request, sweep.study)
    after = target.read_text()
    assert (False, True) == (", test " in before, ", test " in after)
    rest = [text[text.index("defaults:") :] for text in (before, after)]
    assert rest[0] == rest[1]
    for changed in (
        after.replace("n_epochs: ", "n_epochs: 1"),
        after.replace("# Mean scores", "# Used in the paper. Mean scores"),
    ):
        target.write_text(changed)
        with pytest.raises(ConfigError, match="already exists with other content"):
            best(request, sweep.study)
        assert changed == target.read_text()


def test_before_the_selection_reuse_keeps_the_test_seeds_unused(searching: StoredSweep) -> None:
    """A benchmark and arguments of an incumbent have another root of seeds."""
    best(BestRequest(sweep="made_up", save="early"), searching.study)
    request = read_request(["+benchmark=early"], searching.study)
    assert 1 == request.experiment.seeds.root
    assert "seeds.root=1" in shlex.split(written(searching, BestFormat.ARGS))
    assert "not selected yet" in written(searching, BestFormat.YAML)


def test_the_zoos_form_is_imported_as_the_winner(stored: StoredSweep) -> None:
    """`rlexp config import` reads what `--format rl-zoo` wrote, with the same hyperparameters."""
    file = stored.study.folder / "ppo.yml"
    file.write_text(written(stored, BestFormat.RL_ZOO))
    import_hyperparameters(HyperparametersRequest(path=str(file), name="zoo"), stored.study)
    tuned, again = winner(stored), reached(stored, "+benchmark=zoo")
    assert (tuned.algorithm, tuned.agent) == (again.algorithm, again.agent)
    assert (tuned.environment, tuned.budget.steps) == (again.environment, again.budget.steps)


def test_json_and_yaml_hold_the_same_settings(stored: StoredSweep) -> None:
    """The settings of `--format json` are those of `--format yaml`, by dotted keys."""
    settings = json.loads(written(stored, BestFormat.JSON))["settings"]
    nested = yaml.safe_load(written(stored, BestFormat.YAML))
    assert winner(stored).algorithm["learning_rate"] == settings["algorithm.learning_rate"]
    for key, value in settings.items():
        section, _, name = key.partition(".")
        assert value == nested[section][name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "there is no experiment 'nothing'"),
        (["made_up", "--format", "yml"], "did you mean 'yaml'"),
        (["made_up", "--trial", "8"], "has no trial 8: it has the trials 0 … 7"),
        (["made_up", "--save", "../mine"], "is not a valid name"),
        (["made_up", "--save", ""], "is not a valid name"),
        (["made_up", "--save", "mine", "--format", "toml"], "there is no format 'toml'"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    stored: StoredSweep, words: list[str], message: str
) -> None:
    """A mistake ends with exit code 2 and one line, and no file is written."""
    printed = typed(stored.study.folder, "best", *words)
    assert (2, 1, "") == (printed.code, printed.err.count("\n"), printed.out)
    assert message in printed.err
    assert not (stored.study.folder / "conf").exists()


def test_a_sweep_without_a_score_and_an_experiment_are_refused(tmp_path: Path) -> None:
    """A folder without trials, and trials without a score, have no best trial."""
    sweep = stored_sweep(tmp_path, score=lambda _: None)
    sweep.go_on(runs=1)
    assert "has a score yet" in typed(tmp_path, "best", "made_up").err
    sweep.paths.trials.unlink()
    printed = typed(tmp_path, "best", "made_up")
    assert "it is not a sweep, or has not started; to see it: rlexp show made_up" in printed.err


def test_json_and_python_have_the_same_result(stored: StoredSweep) -> None:
    """The document of `--json` has the fields of the result of `rlexp.best`."""
    document = give_json(stored.study.folder, "best", "best", "made_up")
    result = best_in_python("made_up", workspace=stored.study.folder)
    assert (result.trial, result.rule) == (document["trial"], document["rule"])
    assert [m.phase for m in result.scores] == [m["phase"] for m in document["scores"]]


def test_suggested_commands_can_be_typed(stored: StoredSweep) -> None:
    """Every command that is printed runs as it is."""
    folder = stored.study.folder
    commands = [
        shlex.split(s.command)[1:] for s in best(BestRequest(sweep="made_up"), stored.study).next
    ]
    assert ["run", "best"] == [words[0] for words in commands]
    for words in commands:
        assert 0 == rlexp(folder, *words, *(["--dry-run"] if words[0] == "run" else [])).code
