"""The page about plug-ins of users has examples that can be built or trained as pasted."""

import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from pasted_commands import pasted

from rlexp.app.commands.setup.init import files
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.report_settings import read_report
from rlexp.config.sweep import SweepRequest, compose_sweep
from rlexp.config.sweep_checks import check_sweep
from rlexp.config.validate import build, validate
from rlexp.errors import ConfigError
from rlexp.pruners import PruningPoint
from rlexp.records.trial import Trial, TrialState
from rlexp.stats.task_scores import TaskScores
from rlexp.store.layout import Layout
from rlexp.store.provenance import usable_cores
from rlexp.tuners import Problem

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "extend.md").read_text()
FILES = {
    match["name"]: match["text"]
    for match in re.finditer(
        r"^`(?P<name>[\w/.]+)`:\n\n```\w+\n(?P<text>.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
}
COMMANDS = [shlex.split(line) for line in re.findall(r"^\$ rlexp (.+)$", PAGE, re.MULTILINE)]
PACKAGE = "my_plugins"
ALLOWED = (PACKAGE,)


def forget() -> None:
    """Remove the modules of the page from the imported ones."""
    for name in [name for name in sys.modules if name.partition(".")[0] in {PACKAGE, "corridor"}]:
        del sys.modules[name]


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write files into a folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files of the page."""
    write(tmp_path, FILES)
    forget()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget()


def overrides_of(*start: str) -> list[list[str]]:
    """The overrides of the commands on the page with these first words."""
    return [
        arguments[len(start) + 2 :]
        for arguments in COMMANDS
        if arguments[: len(start) + 2] == [*start, "--allow-import", PACKAGE]
    ]


def request_of(words: Sequence[str], study: Path) -> RunRequest:
    """The request of `rlexp run` with these overrides."""
    return read_request(words, Workspace(study, Layout(study / "runs"), ALLOWED))


def sweep_request_of(group: str, study: Path) -> SweepRequest:
    """The checked request of the page's `rlexp sweep` command for a group."""
    (arguments,) = [
        arguments for arguments in overrides_of("sweep") if arguments[0].startswith(f"{group}=")
    ]
    request = compose_sweep(None, arguments, study)
    check_sweep(request, ALLOWED)
    return request


def test_every_family_has_a_row() -> None:
    """Each group of `conf/` has a row with its protocol and an existing example."""
    rows = re.findall(r"^\| .+ \| `conf/(\w+)/` \| (.*) \| (.+) \|$", PAGE, re.MULTILINE)
    assert {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()} == {
        group for group, _, _ in rows
    }
    assert all("`rlexp/" in protocol for group, protocol, _ in rows if group != "benchmark")
    assert all("](" in example for _, _, example in rows)


def test_every_example_is_complete() -> None:
    """Each example has a module, a YAML file that names its class, and a command that uses it."""
    yamls = {name: text for name, text in FILES.items() if name.endswith(".yaml")}
    modules = {name.removesuffix(".py") for name in FILES if name.endswith(".py")}
    named = re.findall(rf"_target_: ({PACKAGE}\.\w+)\.\w+$", "".join(yamls.values()), re.MULTILINE)
    assert modules == {name.replace(".", "/") for name in named}
    commands = [" ".join(arguments) for arguments in COMMANDS]
    for name in yamls:
        _, group, file = name.split("/")
        option = file.removesuffix(".yaml")
        assert [c for c in commands if re.search(rf"\b{group}=(\[.*\b)?{option}\b", c)], name


def test_all_examples_train_together(study: Path) -> None:
    """Agent, algorithm, executor and tracker train together; points are pushed once."""
    overrides = sorted({word for arguments in overrides_of("run") for word in arguments})
    groups = {word.partition("=")[0] for word in overrides}
    assert {"agent", "algorithm", "environment", "executor", "tracker"} == groups
    short_training = (
        *("budget.steps=64", "budget.evaluation_every=32", "budget.evaluation_episodes=1"),
        *("budget.final_episodes=2", "seeds.test=1", "experiment=own", "-q"),
    )
    arguments = ["rlexp", "run", "--allow-import", PACKAGE, *overrides, *short_training]
    process = pasted(shlex.join(arguments), study)
    assert 0 == process.returncode, process.stdout + process.stderr
    curves = study / "curves" / "own"
    (path,) = curves.glob("annealed_a2c-test-0-*.jsonl")
    steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
    assert all(a < b for a, b in pairwise(steps))
    assert {32, 64} <= set(steps)
    summary = json.loads(path.with_suffix(".json").read_text())
    assert ("annealed_a2c", "completed") == (summary["label"], summary["state"])
    assert {"annealed_a2c on CartPole-v1": summary["score"]} == json.loads(
        (curves / "aggregates.json").read_text()
    )


def test_the_example_agent_encodes_waves(study: Path) -> None:
    """The agent turns each entry of an observation into two sines and two cosines."""
    (configuration,) = request_of(["agent=fourier"], study).experiment.configurations
    arguments = build(configuration.agent, "agent", ALLOWED).arguments()
    space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    waves = arguments["features_extractor_class"](space, **arguments["features_extractor_kwargs"])
    observed = torch.tensor([[0.0, 0.5, -1.0]])
    angles = torch.cat([observed, 2 * observed], dim=-1)
    assert torch.equal(waves(observed), torch.cat([angles.sin(), angles.cos()], dim=-1))
    assert 12 == waves.features_dim


def test_settings_are_checked(study: Path) -> None:
    """A setting outside the range of its field is refused."""
    with pytest.raises(ConfigError, match=r"agent\.order=0"):
        request_of(["agent=fourier", "agent.order=0"], study)
    with pytest.raises(ConfigError, match=r"algorithm\.ent_coef=-1"):
        request_of(["algorithm=annealed_a2c", "algorithm.ent_coef=-1.0"], study)


def test_the_package_must_be_allowed(study: Path) -> None:
    """Without --allow-import, the package is refused and not imported."""
    with pytest.raises(ConfigError, match="allow another package with --allow-import"):
        read_request(["agent=fourier"], Workspace(study, Layout(study / "runs")))
    assert PACKAGE not in sys.modules


def test_an_environment_is_what_init_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page names the environment files that `rlexp init` writes, and they work."""
    init_files = files("my_study")
    named = [name for name in re.findall(r"`([\w/]+\.\w+)`", PAGE) if "corridor" in name]
    assert ["corridor.py", "conf/environment/corridor.yaml"] == named
    assert ["init", "my_study"] in COMMANDS
    write(tmp_path, init_files)
    forget()
    monkeypatch.syspath_prepend(str(tmp_path))
    (composed,) = compose(["environment=corridor"], tmp_path)
    try:
        with closing(validate(composed.plain)[1].environment.make()) as environment:
            observation, _ = environment.reset(seed=1)
            assert environment.observation_space.contains(observation)
    finally:
        gymnasium.registry.pop("Corridor-v0", None)
        forget()


def test_the_example_tuner_climbs(study: Path) -> None:
    """The tuner starts at random and then samples around the best trial, deterministically."""
    request = sweep_request_of("tuner", study)
    tuner: Any = build(request.tuner, "tuner", ALLOWED)
    problem = Problem(space=request.space, objectives=1, steps=100, seed=3)
    low, high = (
        Trial(number=n, parameters=v, steps=100, state=TrialState.COMPLETE, values=(float(n),))
        for n, v in enumerate(request.space.decode([share]) for share in (0.1, 0.8))
    )
    suggestions = [tuner.open(problem).suggest([high, low], number) for number in range(2, 40)]
    shares = [
        share
        for suggestion in suggestions
        if (share := request.space.encode(suggestion.parameters)[0])
    ]
    assert len(shares) == len(suggestions)
    assert all(0.65 <= share <= 0.95 for share in shares)
    assert max(shares) - min(shares) > 0.2
    climber = tuner.open(problem)
    assert climber.suggest([], 1) == tuner.open(problem).suggest([], 1)
    assert climber.suggest([], 1) != climber.suggest([], 2)
    with pytest.raises(ConfigError, match="one hill"):
        tuner.open(Problem(space=request.space, objectives=2, steps=100, seed=3))


def test_the_example_pruner_stops_low_trials(study: Path) -> None:
    """The pruner stops trials from half of the steps on, with a one-line reason."""
    pruner: Any = build(sweep_request_of("pruner", study).pruner, "pruner", ALLOWED)

    def reason(step: int, value: float) -> str | None:
        pruning_reason: str | None = pruner.prunes(
            PruningPoint(
                number=1, position=0, step=step, steps=100, every=10, value=value, peers={}
            )
        )
        return pruning_reason

    assert [None, None, None] == [reason(40, 10.0), reason(50, 50.0), reason(90, 99.0)]
    assert "its value 10 at 50 steps is below 50" == reason(50, 10.0)
    assert reason(90, float("nan"))


def test_the_example_metric_is_computed_per_resample(study: Path) -> None:
    """The metric gives one value for each resample."""
    (arguments,) = overrides_of("compare", "duel")
    assert "--set" == arguments[0]
    metrics = read_report(arguments[1:], study, ALLOWED).metrics
    assert ["iqm", "worst_run"] == list(metrics)
    scores = np.array([[3.0, 1.0, 2.0], [5.0, 4.0, 6.0]])
    assert [1.0, 4.0] == metrics["worst_run"](TaskScores(scores, (3,))).tolist()


def test_the_example_executor_leaves_a_core_free(study: Path) -> None:
    """The executor leaves one core free and uses at least one core."""
    executor = request_of(["executor=spare_cores"], study).executor
    assert max(1, usable_cores() - 1) == executor.workers_for(1)
    assert 1 == executor.workers_for(10_000)
    assert 600 == executor.hang_timeout
