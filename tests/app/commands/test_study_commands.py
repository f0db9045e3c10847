"""Commands with study files: the same runs as typed words, labels, and what is refused."""

from pathlib import Path

import pytest
from command_line import give, give_json, rlexp
from quick_parts import quick_parts

from rlexp.app.commands.setup.configuration import show_configuration, show_study
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.sweeps.request import read_sweep
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.store.layout import Layout
from rlexp.store.runs import write_experiment

quick = pytest.fixture(autouse=True)(quick_parts)
STUDY = """\
name: pair
words: [environment=acrobot]
variants:
  fast: [algorithm=ppo, algorithm.learning_rate=0.01]
  other: [algorithm=a2c]
seeds: {test: 2}
budget: {steps: 4096}
"""


def study(folder: Path) -> Workspace:
    """The workspace in a folder."""
    return Workspace(folder, Layout(folder / "runs"))


def planned(folder: Path, *words: str) -> RunRequest:
    """The request that these words make."""
    return read_request(words, study(folder))


def labels_by_run(request: RunRequest) -> dict[str, str]:
    """The label of each planned run, by its identity."""
    return {s.id: c.label for c, s in request.experiment.specs(request.phase)}


def test_variants_are_the_labels_of_the_same_runs_as_typed_words(tmp_path: Path) -> None:
    """Each variant plans the runs of its words, under its own label."""
    (tmp_path / "s.yaml").write_text(STUDY)
    shared = ("environment=acrobot", "seeds.test=2", "budget.steps=4096")
    fast = planned(tmp_path, *shared, "algorithm=ppo", "algorithm.learning_rate=0.01")
    other = planned(tmp_path, *shared, "algorithm=a2c")
    request = planned(tmp_path, "s.yaml")
    assert "pair" == request.experiment.name
    assert {
        **dict.fromkeys(labels_by_run(fast), "fast"),
        **dict.fromkeys(labels_by_run(other), "other"),
    } == labels_by_run(request)


def test_a_grid_inside_a_variant_extends_its_label(tmp_path: Path) -> None:
    """Choices of a grid follow the label of the variant, the algorithm among them."""
    (tmp_path / "s.yaml").write_text(STUDY.replace("algorithm=a2c", '"algorithm=a2c,trpo"'))
    labels = set(labels_by_run(planned(tmp_path, "s.yaml", "algorithm.gamma=0.9,0.95")).values())
    assert {
        f"{variant} gamma={gamma}" if "=" not in variant else variant.replace("+", f"{gamma}")
        for gamma in (0.9, 0.95)
        for variant in ("fast", "other algorithm=a2c gamma=+", "other algorithm=trpo gamma=+")
    } == labels


def test_equal_variants_are_refused(tmp_path: Path) -> None:
    """Two variants that the command makes equal are refused, because one would have no runs."""
    (tmp_path / "s.yaml").write_text(STUDY.replace(", algorithm.learning_rate=0.01", ""))
    with pytest.raises(ConfigError, match="variants fast and other are the same configuration"):
        planned(tmp_path, "s.yaml", "algorithm=ppo")


def test_a_value_out_of_range_names_its_line(tmp_path: Path) -> None:
    """A value that validation refuses is named with its line in the file."""
    (tmp_path / "s.yaml").write_text(STUDY.replace("learning_rate=0.01", "gamma=7"))
    with pytest.raises(ConfigError, match=r"^s\.yaml, line 4: algorithm\.gamma=7"):
        planned(tmp_path, "s.yaml")


def test_several_values_out_of_range_name_their_lines(tmp_path: Path) -> None:
    """Each value that validation refuses is named with its own line."""
    text = STUDY.replace("steps: 4096", "steps: 4096, final_episodes: 0")
    (tmp_path / "s.yaml").write_text(text.replace("test: 2", "test: -2"))
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, "s.yaml")
    message = str(caught.value)
    assert "s.yaml, line 6: seeds.test=-2" in message
    assert "; s.yaml, line 7: budget.final_episodes=0" in message


def test_a_trial_of_a_sweep_takes_no_study_file(tmp_path: Path) -> None:
    """`rlexp run --from-sweep` takes words only, and says so."""
    (tmp_path / "s.yaml").write_text(STUDY)
    with pytest.raises(ConfigError, match="--from-sweep takes words and no study file"):
        rlexp(tmp_path, "run", "--from-sweep", "tuned", "s.yaml")


def test_a_changed_study_under_the_same_name_is_refused(tmp_path: Path) -> None:
    """A name stands for one question: a changed study file is refused with the difference."""
    (tmp_path / "s.yaml").write_text(STUDY)
    request = planned(tmp_path, "s.yaml")
    write_experiment(study(tmp_path).layout.experiment("pair"), request.experiment)
    give(tmp_path, "run", "s.yaml", "--dry-run")
    (tmp_path / "s.yaml").write_text(STUDY.replace("0.01", "0.02"))
    with pytest.raises(RecordError, match=r"learning_rate: existing 0\.01, requested 0\.02"):
        rlexp(tmp_path, "run", "s.yaml", "--dry-run")


def test_another_label_for_recorded_runs_is_refused(tmp_path: Path) -> None:
    """The label of recorded runs stays: a renamed or swapped variant is refused."""
    (tmp_path / "s.yaml").write_text(STUDY)
    request = planned(tmp_path, "s.yaml")
    write_experiment(study(tmp_path).layout.experiment("pair"), request.experiment)
    (tmp_path / "s.yaml").write_text(STUDY.replace("fast:", "slow:"))
    with pytest.raises(RecordError, match="'slow' is recorded in pair under the label 'fast'"):
        rlexp(tmp_path, "run", "s.yaml", "--dry-run")


def test_more_seeds_extend_a_study(tmp_path: Path) -> None:
    """A larger number of seeds on the command line keeps the runs of the file and adds some."""
    (tmp_path / "s.yaml").write_text(STUDY)
    few = labels_by_run(planned(tmp_path, "s.yaml"))
    many = labels_by_run(planned(tmp_path, "s.yaml", "seeds.test=3"))
    assert few.items() < many.items()
    assert 6 == len(many)


WORDS = [
    (),
    ("algorithm=a2c", "seeds.test=[3,5]", "experiment=mine", "budget.steps=1e4"),
    ("algorithm=ppo,a2c", "environment=cartpole,acrobot", "agent.network=[8,8]"),
    ("algorithm.gamma=0.9,0.99", "algorithm.learning_rate={shape:linear,initial:0.1}"),
    ("+benchmark=classic_control", "algorithm=ppo,a2c", "seeds.test=2"),
    ("+benchmark=cartpole", "budget.evaluation_every=null", "budget.final_episodes=7"),
    ("environment.arguments.sutton_barto_reward=true,false", "phase=tuning", "seeds.tuning=2"),
    ("environment=gymnasium", "environment.id=CartPole-v1,Acrobot-v1", "failures=missing"),
    ("environment=gymnasium", "environment.id=CartPole-v1", "environment.name='a: b, [c] # d'"),
    ("tracker=[tensorboard]", "seeds.root=7", "budget.timeout=60"),
    ("s.yaml",),
    ("s.yaml", "seeds.test=1", "algorithm.gamma=0.9,0.99"),
]
"""Words of commands, with every kind of grid."""


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_words_and_their_study_file_plan_the_same_runs(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """What `rlexp config show --study` prints, saved, plans the same runs under the same name."""
    (tmp_path / "s.yaml").write_text(STUDY)
    text = give(tmp_path, "config", "show", *words, "--study")
    (tmp_path / "saved.yaml").write_text(text)
    typed, saved = planned(tmp_path, *words), planned(tmp_path, "saved.yaml")
    assert labels_by_run(typed) == labels_by_run(saved)
    assert typed.experiment.name == saved.experiment.name
    assert typed.experiment.fingerprint == saved.experiment.fingerprint
    assert (typed.phase, typed.trackers) == (saved.phase, saved.trackers)
    again = give_json(tmp_path, "study-text", "config", "show", "saved.yaml", "--study")
    assert text == again["text"]


def test_wrong_words_give_no_study_file(tmp_path: Path) -> None:
    """Words that cannot be planned are refused instead of written as a study file."""
    with pytest.raises(ConfigError, match=r"algorithm\.gamma=7"):
        show_study(["algorithm.gamma=7"], study(tmp_path))


def test_the_configurations_of_a_study_name_their_variant(tmp_path: Path) -> None:
    """`rlexp config show` with a study file shows each variant with its label."""
    (tmp_path / "s.yaml").write_text(STUDY)
    shown = show_configuration(["s.yaml"], study(tmp_path)).configurations
    assert ["fast", "other"] == [c.choices["variant"] for c in shown]
    assert "# variant=fast" in give(tmp_path, "config", "show", "s.yaml")


SWEEP = """\
name: searched
words: [tuner=random, algorithm.n_steps=64]
budget: {steps: 512}
seeds: {tuning: 1, selection: 1, test: 1}
sweep:
  trials: 3
  space:
    algorithm:
      gamma: interval(0.9, 0.99)
      n_epochs: {values: "3,4", when: {algorithm.normalize_advantage: true}}
      normalize_advantage: choice(true, false)
"""


def test_the_recorded_command_of_a_sweep_needs_no_file(tmp_path: Path) -> None:
    """The words of a swept study file alone define the same sweep, as `rlexp resume` needs it."""
    (tmp_path / "s.yaml").write_text(SWEEP)
    from_file = read_sweep("s.yaml", ["seeds.test=2"], study(tmp_path))
    (tmp_path / "s.yaml").unlink()
    from_words = read_sweep(None, from_file.words, study(tmp_path))
    assert "searched" == from_words.experiment.name
    assert from_file.experiment.fingerprint == from_words.experiment.fingerprint
    assert from_file.experiment.seeds == from_words.experiment.seeds
    assert {
        "algorithm.gamma",
        "algorithm.n_epochs",
        "algorithm.normalize_advantage",
    } == set(from_file.request.space.keys)


def test_a_study_file_may_start_from_a_definition(tmp_path: Path) -> None:
    """`sweep: NAME` is the sweep of that definition, with the words of the file."""
    (tmp_path / "s.yaml").write_text("name: mine\nsweep: quick\nseeds: {test: 4}\n")
    from_file = read_sweep("s.yaml", [], study(tmp_path))
    typed = read_sweep("quick", ["experiment=mine", "seeds.test=4"], study(tmp_path))
    assert typed.experiment == from_file.experiment
    assert ("quick", "experiment=mine", "seeds.test=4") == from_file.words


def test_a_swept_study_is_planned(tmp_path: Path) -> None:
    """`rlexp sweep FILE --dry-run` shows the plan, and a wrong space names its line."""
    (tmp_path / "s.yaml").write_text(SWEEP)
    assert give(tmp_path, "sweep", "s.yaml", "--dry-run").startswith("searched · ppo")
    (tmp_path / "s.yaml").write_text(SWEEP.replace("trials: 3", "trials: 0"))
    with pytest.raises(ConfigError, match=r"s\.yaml, line 6: sweep\.trials=0"):
        rlexp(tmp_path, "sweep", "s.yaml", "--dry-run")


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ((), "study.yaml"),
        (("mine.yaml",), "mine.yaml"),
        (("new folder",), "new folder/study.yaml"),
    ],
)
def test_a_new_study_file_runs_as_it_is(tmp_path: Path, words: tuple[str, ...], file: str) -> None:
    """`rlexp init --study` writes one commented file, which plans three labels as it is."""
    scaffold = give_json(tmp_path, "scaffold", "init", *words, "--study")
    assert [file] == scaffold["files"]
    text = (tmp_path / file).read_text()
    assert text.count("#") > 8
    request = planned(tmp_path, file)
    assert ["ppo", "ppo-wide", "a2c"] == [c.label for c in request.experiment.configurations]
    assert 0 == rlexp(tmp_path, "run", file, "--dry-run").code


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    """`rlexp init --study` refuses a name that exists, and leaves the file as it is."""
    (tmp_path / "study.yaml").write_text("name: mine\n")
    with pytest.raises(ConfigError, match=r"study\.yaml exists already"):
        rlexp(tmp_path, "init", "--study")
    assert "name: mine\n" == (tmp_path / "study.yaml").read_text()
    assert ["study.yaml"] == [path.name for path in tmp_path.iterdir()]


def test_the_sweep_in_the_comments_of_a_new_file_works(tmp_path: Path) -> None:
    """The commented section of a new study file is a sweep, once the variants are removed."""
    give(tmp_path, "init", "--study")
    before, _, rest = (tmp_path / "study.yaml").read_text().partition("variants:\n")
    lines = rest.partition("\nseeds:")[2].splitlines()
    body = [line.removeprefix("# ") for line in lines]
    sweep = "\n".join(body[body.index("sweep:") :])
    (tmp_path / "sweep.yaml").write_text(f"{before}budget: {{steps: 5000}}\n{sweep}\n")
    assert ["algorithm.learning_rate"] == list(
        read_sweep("sweep.yaml", [], study(tmp_path)).request.space.keys
    )
