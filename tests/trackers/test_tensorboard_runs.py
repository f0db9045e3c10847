"""TensorBoard shows what each run is, and only the settings that tell runs apart."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard_backend import TensorBoardBackend, _hyperparameters, _points
from tracked_samples import aggregate, experiment_of, push_rows, run_end, run_of, sample_rows

from rlexp.trackers import ExperimentSummary, SyncPosition, TrackedAnswer, TrackedExperiment

pytest.importorskip("tensorboard")


def compared(folder: Path) -> TrackedExperiment:
    """An experiment whose two configurations differ in one hyperparameter."""
    configurations = [
        {
            "label": label,
            "task": "CartPole-v1",
            "algorithm": {"gamma": gamma, "learning_rate": 0.1},
            "budget": {"steps": 4096},
        }
        for label, gamma in (("near", 0.9), ("far", 0.99))
    ]
    return experiment_of(folder, definition={"configurations": configurations})


def test_names_and_settings_tell_runs_apart(tmp_path: Path) -> None:
    """A run is named by label, phase and seed; the settings are those in which labels differ."""
    backend, experiment = TensorBoardBackend(tmp_path), compared(tmp_path)
    algorithm = {"gamma": 0.9, "learning_rate": 0.1}
    run = run_of(experiment, 2, label="near", configuration={"algorithm": algorithm})
    sink = backend.tracker().open(experiment)
    push_rows(sink, run, sample_rows([10]))
    sink.end(run, run_end())
    sink.close()
    (path,) = (tmp_path / experiment.name / "near test seed 2").glob("*tfevents*")
    settings = _hyperparameters(path)
    shown = {"label", "task", "phase", "seed", "algorithm.gamma", "state"}
    assert (shown, "0.9") == (set(settings), settings["algorithm.gamma"])


def test_only_searched_settings_of_a_sweep_are_shown(tmp_path: Path) -> None:
    """A run of a trial is named by its trial, and shows the hyperparameters of the space."""
    definition = {"sweep": {"space": [{"key": "algorithm.gamma"}]}, "configurations": []}
    sweep = experiment_of(tmp_path, definition=definition, is_sweep=True)
    backend, algorithm = TensorBoardBackend(tmp_path), {"gamma": 0.9, "n_steps": 5}
    run = run_of(sweep, phase="tuning", trial=7, configuration={"algorithm": algorithm})
    sink = backend.tracker().open(sweep)
    push_rows(sink, run, sample_rows([10]))
    sink.end(run, run_end())
    sink.close()
    (path,) = (tmp_path / sweep.name / "trial 7 tuning seed 0").glob("*tfevents*")
    settings = _hyperparameters(path)
    assert {"label", "task", "phase", "seed", "trial", "algorithm.gamma", "state"} == set(settings)


def test_a_label_that_becomes_known_renames_the_folder(tmp_path: Path) -> None:
    """A run that was pushed under another label has one folder, with every point once."""
    backend, experiment = TensorBoardBackend(tmp_path), experiment_of(tmp_path)
    early = run_of(experiment)
    first = backend.tracker().open(experiment)
    position = push_rows(first, early, sample_rows([10]))
    first.close()
    late = replace(early, label="tuned")
    second = backend.tracker().open(experiment)
    push_rows(second, late, sample_rows([10, 20]), position)
    second.end(late, run_end())
    second.close()
    folders = [p.parent.name for p in (tmp_path / experiment.name).glob("*/*tfevents*")]
    assert ["tuned test seed 0"] == folders
    (shown,) = backend.shown_runs(experiment, late)
    assert [10, 10, 20, 20] == sorted(step for _, step, _ in shown.points)


def test_a_kill_after_a_folder_was_renamed_costs_nothing(tmp_path: Path) -> None:
    """A process that dies between the new name and its position leaves every point once."""
    backend, experiment = TensorBoardBackend(tmp_path), experiment_of(tmp_path)
    early = run_of(experiment)
    first = backend.tracker().open(experiment)
    position = push_rows(first, early, sample_rows([10, 20]))
    first.close()
    late = replace(early, label="tuned")
    killed = backend.tracker().open(experiment)
    # The folder is renamed and a row is written, but no position is stored.
    killed.begin(late, position)
    killed.push(late, sample_rows([30]))
    killed.close()
    after = backend.tracker().open(experiment)
    assert position == after.begin(late, position)
    after.push(late, sample_rows([30]))
    after.end(late, run_end())
    after.close()
    folders = [p.parent.name for p in (tmp_path / experiment.name).glob("*/*tfevents*")]
    assert ["tuned test seed 0"] == folders
    (shown,) = backend.shown_runs(experiment, late)
    assert [10, 10, 20, 20, 30, 30] == sorted(step for _, step, _ in shown.points)


def test_runs_of_one_title_have_folders_of_their_own(tmp_path: Path) -> None:
    """Two runs with the same label, phase and seed are never written into one file."""
    backend, experiment = TensorBoardBackend(tmp_path), experiment_of(tmp_path)
    first, second = (
        run_of(experiment),
        run_of(experiment, id="e" * 32, name="ppo-test-0-eeeeeeeeee"),
    )
    sink = backend.tracker().open(experiment)
    for run in (first, second):
        sink.begin(run, SyncPosition())
    sink.close()
    folders = {p.parent.name for p in (tmp_path / experiment.name).rglob("*tfevents*")}
    assert {"ppo test seed 0", "ppo test seed 0 eeeeeeeeee"} == folders


def test_aggregates_stand_last_and_at_the_end_of_the_budget(tmp_path: Path) -> None:
    """An aggregate has the step at which its runs are scored, under the name of their scores."""
    backend, experiment = TensorBoardBackend(tmp_path), compared(tmp_path)
    sink = backend.tracker().open(experiment)
    sink.begin(run_of(experiment, label="~"), SyncPosition())
    answer = TrackedAnswer(text="near is better than far by 20")
    summary = ExperimentSummary(
        aggregates=[aggregate(label="near")], groups=["near"], answer=answer
    )
    sink.summarise(summary)
    sink.close()
    (path,) = (tmp_path / experiment.name / "~ aggregates").rglob("*tfevents*")
    points = _points(path)
    assert ("score", 4096, 450.0) in points
    assert {4096} == {step for _, step, _ in points}
    assert answer.text.encode() in path.read_bytes()
    assert f"`rlexp report {experiment.name}`".encode() in path.read_bytes()


def test_runs_are_listed_before_aggregates(tmp_path: Path) -> None:
    """TensorBoard lists runs by their first event: the aggregates, then the columns, are last."""
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

    backend, experiment = TensorBoardBackend(tmp_path), compared(tmp_path)
    first = run_of(experiment)
    second = run_of(experiment, 1, started=first.started + 60.5)
    with closing(backend.tracker().open(experiment)) as sink:
        for run in (second, first):
            push_rows(sink, run, sample_rows([10]))
            sink.end(run, run_end())
        sink.summarise(ExperimentSummary(aggregates=[aggregate(label="ppo")], groups=["ppo"]))
    shown = EventMultiplexer().AddRunsFromDirectory(str(tmp_path)).Reload()
    names = sorted(shown.Runs(), key=shown.FirstEventTimestamp)
    assert [name.split("/")[-1][:10] for name in names] == [
        *("ppo test s", "ppo test s"),
        *("ppo CartPo", "~ columns"),
    ]


def test_the_score_is_the_only_metric_of_the_table(tmp_path: Path) -> None:
    """One declaration has the settings of all experiments of a folder, and the score."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.plugins.hparams import metadata

    backend = TensorBoardBackend(tmp_path)
    for key in ("gamma", "n_steps"):
        experiment = experiment_of(tmp_path)
        run = run_of(experiment, configuration={"algorithm": {key: 5}})
        sink = backend.tracker().open(experiment)
        sink.begin(run, SyncPosition())
        sink.end(run, run_end())
        sink.close()
    (path,) = (tmp_path / "~ columns").iterdir()
    values = [v for event in EventFileLoader(str(path)).Load() for v in event.summary.value]
    (content,) = [value.metadata.plugin_data.content for value in values]
    declared = metadata.parse_experiment_plugin_data(content)
    assert ["score"] == [info.name.tag for info in declared.metric_infos]
    names = [info.name for info in declared.hparam_infos]
    assert ["label", "task", "phase", "seed", "algorithm.gamma", "algorithm.n_steps"] == names
