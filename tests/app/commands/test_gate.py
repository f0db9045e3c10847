"""`rlexp gate` passes, refuses or stays undecided as its test says, and a fault is never a pass."""

import json
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command_line import Printed, give, give_json, typed
from quick_parts import quick_parts
from stored_runs import Stored, failed

from rlexp.app.commands.judge.gate import GatedRun, failed_run
from rlexp.app.comparison.baseline import ShortTraining, read_baseline
from rlexp.app.diagnostics.short_training import Unfinished
from rlexp.engine.source import Plan
from rlexp.errors import RecordError
from rlexp.protocol.identity import digest
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.store.runs import read_experiment

WORDS = ("algorithm=ppo", "environment=cartpole", "budget.steps=4096", "seeds.tuning=10")
WRITE = ("gate", "--write", "base.json", *WORDS)
GATE = ("gate", "base.json", "--margin", "20")
SLOWER = "algorithm.learning_rate=1e-5"

quick = pytest.fixture(autouse=True)(quick_parts)


@dataclass
class Trainer:
    """Training without delay: each run ends with a score that depends on its seed.

    Attributes:
        loss: How much less the next runs score.
        fails: The seed of the run that fails.
        limit: The number of runs after which Ctrl-C is pressed.
        seeds: The seeds of all runs so far, with their phases.
        weights: The weights of the short training.
        short: The number of short trainings.
        timeouts: The seconds that each short training may take.
    """

    loss: float = 0.0
    fails: int | None = None
    limit: int | None = None
    seeds: list[tuple[str, int]] = field(default_factory=list)
    weights: str = "a"
    short: int = 0
    timeouts: list[float] = field(default_factory=list)

    def train(self, paths: Any, phase: Phase, plan: Plan, *_: object) -> signal.Signals | None:
        """Store the missing runs."""
        stored = Stored(paths, read_experiment(paths))
        for spec in plan.missing:
            if self.limit is not None and self.limit <= 0:
                return signal.SIGINT
            self.limit = None if self.limit is None else self.limit - 1
            self.seeds.append((str(phase), spec.seed))
            if spec.seed == self.fails:
                stored.attempt(spec.seed, failed(), phase=phase)
            else:
                stored.complete(spec.seed, 100 + spec.seed * 7 % 5 - self.loss, phase=phase)
        return None

    def train_shortly(
        self, spec: RunSpec, steps: int, _: object, timeout: float = 0.0
    ) -> ShortTraining | Unfinished:
        """The result of a short training."""
        self.short += 1
        self.timeouts.append(timeout)
        return ShortTraining(seed=spec.seed, steps=steps, weights=self.weights, evaluations="b")


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Trainer:
    """Training without delay, in place of processes."""
    trainer = Trainer()
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr("rlexp.app.execution.launch.execute_missing_runs", trainer.train)
    # Examining an environment takes a process of its own.
    monkeypatch.setattr("rlexp.app.execution.preparation.check_compatibility", lambda *_: None)
    for module in ("gate", "gate_baseline"):
        place = f"rlexp.app.commands.judge.{module}.train_shortly"
        monkeypatch.setattr(place, trainer.train_shortly)
    return trainer


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the baseline of the first test that needs one."""
    return tmp_path_factory.mktemp("written")


@pytest.fixture
def folder(trainer: Trainer, written: Path, tmp_path: Path) -> Path:
    """A folder with a baseline of ten seeds, which may be changed."""
    if not (written / "base.json").exists():
        give(written, *WRITE)
        trainer.seeds.clear()
        trainer.short = 0
        trainer.timeouts.clear()
    return Path(shutil.copytree(written, tmp_path / "study"))


def judged(folder: Path, *words: str, code: int) -> dict[str, Any]:
    """The JSON document of a gate that must end with this code."""
    return give_json(folder, "gate", *GATE, *words, code=code)


def refused(folder: Path, *words: str) -> str:
    """The only line of a command that is refused."""
    printed: Printed = typed(folder, *words)
    assert (2, "") == (printed.code, printed.out)
    (line,) = printed.err.splitlines()
    return line


def edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of the baseline."""
    path = folder / "base.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_baseline_names_what_it_measured(folder: Path) -> None:
    """The file holds task, words, seeds, scores, level, weights, versions, ledger head and sum."""
    content = json.loads((folder / "base.json").read_text())
    assert ("CartPole-v1", "ppo", "return", "maximise", "tuning", 10) == tuple(
        content[key] for key in ("task", "label", "quantity", "direction", "phase", "n")
    )
    assert [str(seed) for seed in range(10)] == list(content["scores"])
    assert list(WORDS[:3]) == content["words"]
    assert {"seed": 0, "steps": 4096, "weights": "a", "evaluations": "b"} == content[
        "short_training"
    ]
    assert {"torch", "processor", "rlexp"} <= set(content["versions"])
    kept = {k: v for k, v in content.items() if k not in {"schema", "rlexp", "sum"}}
    assert digest(kept) == content["sum"]
    assert str(folder) not in (folder / "base.json").read_text()


def test_equal_weights_pass_without_training(folder: Path, trainer: Trainer) -> None:
    """The weights of the baseline pass at once; no score is compared."""
    result = judged(folder, code=0)
    assert ("identical", [], 0) == (result["decision"], result["runs"], result["trained"])
    assert [] == trainer.seeds
    assert "no score was compared" in give(folder, *GATE)


def test_other_weights_lead_to_the_test(folder: Path, trainer: Trainer) -> None:
    """Bits that differ are no failure: scores decide, with the first five seeds."""
    trainer.weights = "c"
    result = judged(folder, code=0)
    assert ("not worse", 5, 1) == (result["decision"], result["n"], result["analyses"])
    assert (102.0, 102.0, 0.0) == (result["mean"], result["baseline_mean"], result["difference"])
    assert result["repeated"]["identical"] is False
    assert [("tuning", seed) for seed in range(5)] == trainer.seeds


def test_a_loss_beyond_the_margin_has_an_exit_code(folder: Path, trainer: Trainer) -> None:
    """A candidate far below the baseline is worse: exit code 4, with the change named."""
    trainer.loss = 60
    result = judged(folder, SLOWER, code=4)
    assert ("worse", -60.0, 5) == (result["decision"], result["difference"], result["n"])
    assert ["algorithm.learning_rate: 0.0003 in the baseline, 1e-05 here"] == result["changes"]
    # Settings that act later than the short training would pass it unseen.
    assert result["repeated"] is None


def test_a_loss_at_the_margin_is_undecided(folder: Path, trainer: Trainer) -> None:
    """Where all seeds of the baseline are used without a decision, the exit code is 5."""
    trainer.loss, trainer.weights = 20, "c"
    result = judged(folder, code=5)
    assert ("undecided", 10, 2, []) == (
        *(result[key] for key in ("decision", "n", "analyses", "next")),
    )
    assert "all 10 seeds of the baseline are used" == result["reason"]


def test_a_gate_out_of_time_is_undecided_and_continues(folder: Path, trainer: Trainer) -> None:
    """When the time is over after an undecided look, the exit code is 5 and a command continues."""
    trainer.loss = 20
    result = judged(folder, SLOWER, "--budget", "1e-6", code=5)
    assert ("undecided", 5, 1) == (result["decision"], result["n"], result["analyses"])
    assert "the 1e-06 minutes of --budget are over" == result["reason"]
    (following,) = result["next"]
    assert "continue" == following["why"]
    trainer.loss = 0
    again = judged(folder, SLOWER, code=0)
    assert (10, 5) == (again["n"], again["trained"])


def test_a_lower_score_is_better_where_the_measure_says_so(folder: Path, trainer: Trainer) -> None:
    """With a minimised measure, higher scores are worse and lower scores pass."""
    trainer.weights = "c"
    measure = ("environment.measures.cost.direction=minimise", "budget.score=cost")
    assert "metric.quantity" in refused(folder, *GATE, *measure)

    def minimised(content: dict[str, Any]) -> None:
        content["direction"] = "minimise"
        content["sum"] = digest(
            {k: v for k, v in content.items() if k not in {"schema", "rlexp", "sum"}}
        )

    edited(folder, minimised)
    assert "metric.direction" in refused(folder, *GATE)


def test_a_failed_run_is_never_a_pass(folder: Path, trainer: Trainer) -> None:
    """A run without a score fails the gate, even where the others are as good as before."""
    trainer.weights, trainer.fails = "c", 3
    result = judged(folder, code=1)
    assert "failed" == result["decision"]
    assert "ended without a score (nan: a loss is NaN)" in result["reason"]
    (following,) = result["next"]
    assert f"rlexp logs {result['experiment']}/ppo-tuning-3" in following["command"]
    give(folder, *following["command"].split()[1:])
    trainer.fails = None
    assert "not worse" == judged(folder, "--retry", code=0)["decision"]


def test_a_failed_run_gives_no_baseline(trainer: Trainer, tmp_path: Path) -> None:
    """A baseline with a run that failed is not written."""
    trainer.fails = 2
    result = give_json(tmp_path, "gate-baseline", *WRITE, code=1)
    assert (None, 9, 10) == (result["path"], result["n"], result["planned"])
    assert "ended without a score" in result["failures"][0]
    assert not (tmp_path / "base.json").exists()


def test_ctrl_c_and_the_same_command_again(folder: Path, trainer: Trainer) -> None:
    """An interrupted gate ends with 130, and continues to the decision of an undisturbed one."""
    trainer.loss, trainer.limit = 60, 3
    result = judged(folder, SLOWER, code=130)
    assert ("undecided", "SIGINT") == (result["decision"], result["interrupted"])
    trainer.limit = None
    again = judged(folder, SLOWER, code=4)
    assert 2 == again["trained"]
    assert [("tuning", seed) for seed in range(5)] == trainer.seeds
    trainer.seeds.clear()
    assert {**again, "trained": 0} == judged(folder, SLOWER, code=4)
    assert [] == trainer.seeds


def test_an_interrupted_baseline_is_continued(trainer: Trainer, tmp_path: Path) -> None:
    """Ctrl-C while a baseline is trained writes no file; the same command writes it."""
    trainer.limit = 4
    result = give_json(tmp_path, "gate-baseline", *WRITE, code=130)
    assert (None, 4) == (result["path"], result["n"])
    trainer.limit = None
    result = give_json(tmp_path, "gate-baseline", *WRITE)
    assert ("base.json", 10, 102.0) == (result["path"], result["n"], result["mean"])
    assert [("tuning", seed) for seed in range(10)] == trainer.seeds


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("budget.steps=2048",), "budget.steps: 4096 in the baseline, 2048 here"),
        (("budget.final_episodes=7",), "budget.final_episodes: 100 in the baseline, 7 here"),
        (("budget.score=auc",), "budget.score: final in the baseline, auc here"),
        (("environment=acrobot",), "task: CartPole-v1 in the baseline, Acrobot-v1 here"),
        (("component=sticky_actions",), "environment.components"),
        (("seeds.root=3",), "names the seeds: leave out seeds.root="),
        (("seeds.tuning=5",), "names the seeds: leave out seeds.tuning="),
        (("phase=test",), "choices never see test seeds"),
        (("experiment=mine",), "leave out experiment="),
        (("algorithm=ppo,a2c",), "a gate judges one configuration"),
        (("--budget", "0"), "--budget 0 must be above 0"),
        (("--group", "3"), "add --write"),
    ],
)
def test_other_protocols_are_refused_by_name(
    folder: Path, trainer: Trainer, words: tuple[str, ...], named: str
) -> None:
    """Another budget, metric, task or seeds are refused on one line; nothing is trained."""
    assert named in refused(folder, *GATE, *words)
    assert ([], 0) == (trainer.seeds, trainer.short)


def test_an_edited_baseline_is_refused(folder: Path) -> None:
    """A score that was changed by hand, a missing file and other JSON are refused on one line."""
    edited(folder, lambda content: content["scores"].update({"0": 1.0}))
    assert "was edited after it was written" in refused(folder, *GATE)
    (folder / "base.json").write_text('{"schema": 1}')
    assert "is no baseline of rlexp gate, or is damaged" in refused(folder, *GATE)
    (folder / "base.json").write_text("{")
    assert "base.json cannot be read" in refused(folder, *GATE)
    (folder / "base.json").unlink()
    assert "write it: rlexp gate --write base.json WORDS" in refused(folder, *GATE)


def test_the_remedy_of_an_edited_baseline_writes_the_same_one(folder: Path) -> None:
    """The printed command has the words, the seeds and the test of the baseline, and writes it again."""
    written = json.loads((folder / "base.json").read_text())
    edited(folder, lambda content: content["scores"].update({"0": 1.0}))
    command = refused(folder, *GATE).partition("write it again: ")[2]
    assert "algorithm=ppo environment=cartpole budget.steps=4096 seeds.tuning=10" in command
    give(folder, *shlex.split(command)[1:])
    again = json.loads((folder / "base.json").read_text())
    assert [] == [k for k in written if written[k] != again[k] and k not in {"sum", "ledger"}]


@pytest.mark.parametrize("words", [(), ("seeds.tuning=10",), ("executor.workers=1",)])
def test_a_baseline_is_of_a_named_configuration(
    words: tuple[str, ...], trainer: Trainer, tmp_path: Path
) -> None:
    """Words that name no configuration are refused: the default one would be trained for long."""
    line = refused(tmp_path, "gate", "--write", "base.json", *words)
    assert "rlexp gate --write base.json algorithm=ppo environment=cartpole" in line
    assert [] == trainer.seeds


def test_a_name_without_json_has_the_whole_command(trainer: Trainer, tmp_path: Path) -> None:
    """The remedy for a file's name is the typed command with the words and the margin."""
    line = refused(tmp_path, "gate", "--write", "base", *WORDS, "--margin", "15")
    assert f"rlexp gate --write base.json {' '.join(WORDS)} --margin 15" in line


WRONG = (
    "1e999",
    "-1e999",
    "1e95",
    "NaN",
    "0",
    "-1",
    "true",
    "null",
    '"x"',
    '"\\ud800"',
    "[]",
    "{}",
)
"""JSON values that most leaves of a baseline cannot have."""


def replaced_leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each variant of a value in which one leaf is a mark, with the leaf."""
    if isinstance(value, dict | list) and value:
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            for variant, leaf in replaced_leaves(inner):
                changed = value.copy()
                changed[key] = variant
                yield changed, leaf
    else:
        yield "MARK", value


def test_any_wrong_leaf_is_refused_on_one_line(folder: Path) -> None:
    """Whatever stands in the place of a value, the baseline is refused, and there is no traceback."""
    path = folder / "base.json"
    content = json.loads(path.read_text())
    variants = list(replaced_leaves(content))
    assert len(variants) > 60
    for variant, leaf in variants:
        if isinstance(variant, str) or variant["rlexp"] == "MARK":
            continue
        for text in WRONG:
            if json.loads(text) == leaf:
                continue
            path.write_text(json.dumps(variant).replace('"MARK"', text))
            with pytest.raises(RecordError) as refusal:
                read_baseline(path)
            assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("group",), 0),
        (("alpha",), 0),
        (("margin",), 1e95),
        (("scores", "3"), 1e95),
        (("direction",), "up"),
        (("configuration", "budget"), {}),
    ],
)
def test_a_sum_does_not_excuse_wrong_numbers(
    keys: tuple[str, ...], value: object, folder: Path, trainer: Trainer
) -> None:
    """Numbers with which no test can compute are refused even where the sum was made anew."""

    def change(content: dict[str, Any]) -> None:
        inner = content
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        content["sum"] = digest(
            {k: v for k, v in content.items() if k not in {"schema", "rlexp", "sum"}}
        )

    edited(folder, change)
    assert "is no baseline of rlexp gate, or is damaged" in refused(folder, *GATE)
    assert [] == trainer.seeds


@pytest.mark.parametrize("score", [1e95, 1e120])
def test_a_huge_score_is_a_failed_run(score: float, folder: Path, trainer: Trainer) -> None:
    """A finite score with which the test cannot compute fails a gate, and gives no baseline."""
    trainer.loss = -score
    result = judged(folder, SLOWER, code=1)
    assert "failed" == result["decision"]
    assert "its score is no finite number, or is beyond 1e+90" in result["reason"]
    write = (*WRITE[:2], "huge.json", *WORDS, "algorithm.gamma=0.9")
    assert None is give_json(folder, "gate-baseline", *write, code=1)["path"]


def test_a_huge_margin_is_refused(folder: Path) -> None:
    """A margin with which the test cannot compute is refused by a gate and by a new baseline."""
    for command in (GATE[:2], WRITE):
        line = refused(folder, *command, "--margin", "1e120")
        assert "the margin must be at most 1e+90, not 1e+120" in line


def test_the_margin_is_given_once(folder: Path, trainer: Trainer) -> None:
    """Without a margin nothing starts; the margin of a baseline cannot be changed by a gate."""
    assert "add --margin" in refused(folder, "gate", "base.json")
    assert "the margin must be above 0" in refused(folder, "gate", "base.json", "--margin", "-3")
    give(folder, *WRITE, "--margin", "15")
    assert "was written with --margin 15" in refused(folder, *GATE)
    trainer.weights = "c"
    assert 15 == give_json(folder, "gate", "gate", "base.json")["margin"]


def test_a_design_that_cannot_decide_is_refused(trainer: Trainer, tmp_path: Path) -> None:
    """Seeds that fill no group, or too few for any decision, are refused before training."""
    base = ("gate", "--write", "base.json", *WORDS[:3])
    assert "no multiple of --group 5" in refused(tmp_path, *base, "seeds.tuning=7")
    few = refused(tmp_path, *base, "seeds.tuning=3", "--group", "3")
    assert "cannot decide anything at --alpha 0.05" in few
    assert [] == trainer.seeds


def committed(folder: Path) -> None:
    """Make the folder a checkout with a commit that holds no file."""
    author = ("-c", "user.name=a", "-c", "user.email=a")
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "change"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def experiment_of(folder: Path, *words: str) -> str:
    """The experiment in which a gate that is worse has its runs."""
    return str(judged(folder, SLOWER, *words, code=4)["experiment"])


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("table.bin", [b"\0a", b"\0b"]),
        ("long.py", [b"a = 1\n" * 50_000, b"a = 2\n" * 50_000]),
        ("code/base.json", [b"1", b"2"]),
        ("code/gate.md", [b"1", b"2"]),
    ],
)
def test_changed_bytes_of_any_file_are_other_code(
    name: str, contents: list[bytes], folder: Path, trainer: Trainer
) -> None:
    """Binary and long files, and files that share the name of an output, are code; outputs are not."""
    trainer.loss = 60
    committed(folder)
    output = ("--markdown", "gate.md")
    before = experiment_of(folder, *output)
    assert before == experiment_of(folder, *output)
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    names = [before]
    for content in contents:
        path.write_bytes(content)
        names.append(experiment_of(folder, *output))
    assert 3 == len(set(names))


def test_the_next_command_names_the_failed_run(folder: Path, trainer: Trainer) -> None:
    """An interrupted run before the failed one is not named: its log shows no failure."""
    runs = [
        GatedRun(seed=s, baseline=1, score=None, state=state, run=f"r{s}", tested=False)
        for s, state in enumerate(["interrupted", "planned", "failed"])
    ]
    assert "r2" == failed_run(runs)


def test_the_short_training_has_no_more_than_the_time_left(folder: Path, trainer: Trainer) -> None:
    """A short training takes its time from `--budget`, and at most two minutes."""
    judged(folder, "--budget", "0.5", code=0)
    judged(folder, "--budget", "30", code=0)
    judged(folder, code=0)
    short, *others = trainer.timeouts
    assert 0 < short <= 30
    assert [120.0, 120.0] == others


def test_only_the_gate_continues_its_runs(folder: Path, trainer: Trainer) -> None:
    """`rlexp resume` skips a stopped gate, and refuses it by name: it would train other code."""
    trainer.loss, trainer.limit = 60, 3
    name = str(judged(folder, SLOWER, code=130)["experiment"])
    trainer.limit = None
    trainer.seeds.clear()
    outcome = give_json(folder, "resume-outcome", "resume")
    assert ([name], []) == ([gate["experiment"] for gate in outcome["gates"]], outcome["parts"])
    assert f"{name} is skipped, because it belongs to a gate" in give(folder, "resume")
    for target in (name, f"{name}/{next((folder / 'runs' / name).glob('ppo-*')).name}"):
        assert "repeat the gate: " in refused(folder, "resume", target)
    assert [] == trainer.seeds
    give(folder, *shlex.split(outcome["gates"][0]["command"])[1:], code=4)
    assert 2 == len(trainer.seeds)


def test_another_margin_for_the_same_runs_is_warned_of(folder: Path, trainer: Trainer) -> None:
    """A second margin judges the same scores, and the answer names the first one."""
    trainer.loss = 60
    assert "was used first" not in judged(folder, SLOWER, code=4)["warning"]
    other = ("gate", "base.json", "--margin", "500", SLOWER)
    assert "margin 20 was used first" in give_json(folder, "gate", *other)["warning"]
    assert "Warning: margin 20 was used first" in give(folder, *other)


def test_unknown_code_is_warned_of(folder: Path, trainer: Trainer) -> None:
    """Without a git commit the answer says how runs are recognised; with one it does not."""
    trainer.loss = 60
    assert "there is no git commit" in judged(folder, SLOWER, code=4)["warning"]
    committed(folder)
    assert None is judged(folder, SLOWER, code=4)["warning"]


def test_changed_code_is_trained_anew(folder: Path, trainer: Trainer) -> None:
    """Runs of earlier code are not judged as runs of the present code."""
    trainer.loss = 60
    judged(folder, SLOWER, code=4)
    trainer.loss = 0
    committed(folder)
    trainer.seeds.clear()
    assert "not worse" == judged(folder, SLOWER, code=0)["decision"]
    assert 5 == len(trainer.seeds)


def test_markdown_goes_to_a_file_and_to_the_step(
    folder: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--markdown` writes a file, and the summary of a step is appended to; a bad file is told."""
    step = tmp_path / "step.md"
    step.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    trainer.loss = 60
    give(folder, *GATE, SLOWER, "--markdown", "gate.md", code=4)
    text = (folder / "gate.md").read_text()
    assert text.startswith("### ppo on CartPole-v1: worse\n")
    assert "| 0 | 100.00 | 40.00 | yes |" in text
    assert "before\n" + text == step.read_text()
    printed = typed(folder, *GATE, SLOWER, "--markdown", "missing/gate.md")
    assert 4 == printed.code
    assert "the decision stands" in printed.err


def test_an_experiment_becomes_a_baseline(trainer: Trainer, tmp_path: Path) -> None:
    """Finished tuning runs become a baseline without weights; test runs are refused."""
    give(tmp_path, "run", *WORDS, "phase=tuning", "experiment=tried")
    result = give_json(tmp_path, "gate-baseline", "gate", "--write", "base.json", "tried")
    assert (10, 102.0, None) == (result["n"], result["mean"], result["short_steps"])
    # The present versions may not be those of the runs.
    assert {} == json.loads((tmp_path / "base.json").read_text())["versions"]
    trainer.loss = 60
    assert "worse" == judged(tmp_path, code=4)["decision"]
    give(tmp_path, "run", *WORDS[:3], "experiment=tested")
    line = refused(tmp_path, "gate", "--write", "base.json", "tested")
    assert "test seeds never judge a change" in line


def test_every_printed_command_works(folder: Path, trainer: Trainer) -> None:
    """The commands that a baseline and a worse gate print can be pasted."""
    for result in (
        give_json(folder, "gate-baseline", *WRITE),
        judged(folder, SLOWER, code=0),
    ):
        for following in result["next"]:
            assert typed(folder, *following["command"].split()[1:]).code == 0
    trainer.loss = 60
    (following,) = judged(folder, "algorithm.gamma=0.9", code=4)["next"]
    give(folder, *following["command"].split()[1:])
