"""A training script is started once to check its settings, before anything is written."""

import json
import os
import sys
from pathlib import Path

import psutil
import pytest
from command_line import Printed, rlexp
from last_words import last_words

from rlexp import trainer
from rlexp.app.execution.checks.script_checks import ScriptChecks
from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase

SCRIPT = """
import json, os, sys, time
from rlexp.trainer import Trainer

run = Trainer.of_run()
with open("starts.jsonl", "a") as starts:
    told = json.load(open(os.environ["RLEXP_CONFIGURATION"]))
    about = {"asked": "RLEXP_CHECKS" in os.environ, **told["run"], "policy": run.seed}
    starts.write(json.dumps({**about, "settings": told["settings"]}) + "\\n")
BEGIN
for step in range(20, run.steps + 1, 20):
    run.report(step, loss=1.0)
run.evaluated(run.steps, [2.0, 2.0], final=True)
"""
STRICT = 'run.check_settings(["learning_rate", "kind"])'
ASKING = 'rate = run.settings.get("learning_rate", 1.0)'
KINDS = 'if run.settings["kind"] != "a": raise ValueError("kind must be one of a")'
WORDS = (
    *("algorithm=external", "algorithm.name=mine", "algorithm.command={python} -S train.py"),
    *("algorithm.checks=true", "environment=cartpole", "budget.steps=100"),
    *("budget.evaluation_every=null", "budget.final_episodes=2", "seeds.test=2", "experiment=x"),
)


RECIPE = """
_target_: rlexp.algorithms.external.External
name: mine
command: python train.py
files: null
settings: {algorithm: SAC, rate: 1}
continues: false
hang_timeout: null
checks: false
choices: {algorithm.settings.algorithm: [SAC]}
"""
"""A recipe of the workspace."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the workspace; `-S` scripts find rlexp in the sources."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(Path(trainer.__file__).parents[1]))
    return tmp_path


def write_script(check: str) -> None:
    """Write a script that does this before it trains."""
    Path("train.py").write_text(SCRIPT.replace("BEGIN", check))


def train(*words: str) -> Printed:
    """What a command prints that trains the script."""
    return rlexp(Path.cwd(), "run", *last_words(*WORDS, *words))


def starts(*, asked: bool = True) -> list[dict[str, object]]:
    """What the script was told at each start that asked for a check, or that did not."""
    lines = map(json.loads, Path("starts.jsonl").read_text().splitlines())
    return [line for line in lines if line["asked"] == asked]


def refusal(*words: str) -> str:
    """The line with which a command is refused; no run was started and nothing was written."""
    with pytest.raises(ConfigError) as caught:
        train(*words)
    assert not [*Path().glob("runs*")]
    assert [] == starts(asked=False)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("check", "words", "expected"),
    [
        (
            STRICT, "algorithm.settings.lerning_rate=1",
            ("algorithm.settings.lerning_rate: there is no such setting; did you mean 'learning_rate'? "
            "(there are: learning_rate, kind)"),
        ),
        (
            ASKING, "algorithm.settings.lerning_rate=1",
            ("algorithm.settings.lerning_rate: the script asks for no such setting before its first report; "
            "did you mean 'learning_rate'? algorithm.checks=false starts the runs without this check"),
        ),
        (
            'run.settings["learning_rate"]', "algorithm.settings.lerning_rate=1",
            ("algorithm.settings.lerning_rate: the script asks for no such setting; did you mean "
            "'learning_rate'?"),
        ),
        (
            KINDS, "algorithm.settings.kind=b",
            ("algorithm.settings.kind=b: mine ends before it trains: ValueError: kind must be one of a; "
            "algorithm.checks=false starts the runs without this check"),
        ),
        (
            'run.check_components(["team", "agent_0"])', "environment=external environment.name=a environment.return_of=agent_1",
            ("environment.return_of=agent_1: there is no such component; did you mean 'agent_0'? "
            "(there are: agent_0, team)"),
        ),
        (
            "import sys\nprint('rate must be below 1', file=sys.stderr)\nsys.exit(255)", "algorithm.settings.rate=2",
            "algorithm.settings.rate=2: mine ends before it trains: rate must be below 1",
        ),
        (
            "raise SystemExit(f'there is no task {run.task}: environment.name=b')",
            "environment=external environment.name=team/walk algorithm.settings.rate=2",
            "the script of mine cannot train on team/walk: there is no task team/walk: environment.name=b",
        ),
        (
            "import no_such_module", "algorithm.settings.kind=a",
            "the script of mine ends before it trains: ModuleNotFoundError: No module named 'no_such_module'",
        ),
    ],
)  # fmt: skip
def test_a_refused_setting_is_one_line_before_anything_is_written(
    check: str, words: str, expected: str
) -> None:
    """The line names the setting and what is allowed, or else the error of the script."""
    write_script(check)
    assert expected in refusal(*words.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("SystemExit('there is no CartPole-v1 here')", "the script of mine cannot train on CartPole-v1"),
        ("ValueError('CartPole-v1 has no scale')", "algorithm.settings.rate=2: mine ends before it trains"),
    ],
)  # fmt: skip
def test_a_recipe_that_refuses_its_task_accuses_no_changed_setting(
    line: str, expected: str
) -> None:
    """A changed setting of a recipe is suspected of an exception only, even if that names the task."""
    Path("conf/algorithm/recipe").mkdir(parents=True)
    Path("conf/algorithm/recipe/mine.yaml").write_text("settings: {rate: 1}\n")
    write_script(f"raise {line}")
    assert refusal("algorithm.settings.rate=2").startswith(expected)


def test_a_recipe_with_its_own_settings_accuses_none_whose_value_is_a_choice() -> None:
    """`algorithm` is a word of many errors; a recipe that nobody has changed shows no value of its own twice."""
    Path("conf/algorithm/recipe").mkdir(parents=True)
    Path("conf/algorithm/recipe/mine.yaml").write_text(RECIPE)
    write_script("raise ValueError('The algorithm needs a Box')")
    expected = "the script of mine ends before it trains: ValueError: The algorithm needs a Box; "
    assert refusal("algorithm=recipe/mine").startswith(expected)
    write_script("raise ValueError('the rate is too low')")
    expected = "algorithm.settings.rate=1: mine ends before it trains: ValueError: the rate"
    assert refusal("algorithm=recipe/mine").startswith(expected)


def test_accepted_settings_train_and_each_configuration_is_checked_once() -> None:
    """Of two configurations with two seeds, the script is asked twice, with a tuning seed, and not again."""
    write_script(ASKING)
    words = ("algorithm.settings.learning_rate=0.5,0.25",)
    assert "every planned run has a score (4 of 4)" in train(*words).out
    assert ["tuning"] * 2 == [start["phase"] for start in starts()]
    assert [0.5, 0.25] == [start["settings"]["learning_rate"] for start in starts()]  # type: ignore[index]
    trained = starts(asked=False)
    assert {"test"} == {start["phase"] for start in trained}
    assert {start["policy"] for start in starts()}.isdisjoint(start["policy"] for start in trained)
    train(*words, "seeds.test=3")
    assert (2, 6) == (len(starts()), len(starts(asked=False)))


def test_a_run_that_has_reported_is_not_checked_again() -> None:
    """A run that ended after its first report has accepted its settings; a command that retries it asks nothing."""
    write_script("run.report(10)\nraise ValueError('later')")
    for words in ([], ["--retry"]):
        assert 0 != train("seeds.test=1", *words).code
    assert (1, 2) == (len(starts()), len(starts(asked=False)))


def test_the_seed_of_a_check_is_of_the_tuning_phase() -> None:
    """The script is told the numbers of the first tuning seed."""
    write_script(ASKING)
    (configuration,) = configurations()
    checks().check([configuration])
    (start,) = starts()
    assert configuration.spec(Phase.TUNING, 0, 0).streams.policy == start["policy"]


def configurations(*words: str) -> tuple[Configuration, ...]:
    """The configurations of these words."""
    return read_request(last_words(*WORDS, *words), Workspace.here()).experiment.configurations


def checks(notes: list[str] | None = None, limit: float = 30.0) -> ScriptChecks:
    """The checks of a command on this machine."""
    executor = read_request([*WORDS], Workspace.here()).executor
    return ScriptChecks(Workspace.here(), executor, (notes or []).append, limit)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import time\ntime.sleep(600)", "it reported nothing for 3 s"),
        ("import sys\nsys.exit(0)", "it ended without a report"),
        ("import os\nos.kill(os.getpid(), 9)", "it was killed by signal 9"),
        ("raise OSError(28, 'No space left on device')", "it ended with an error of the machine"),
        ("raise RuntimeError('CUDA out of memory')", "it ended with an error of the machine"),
        (
            "raise TypeError('cannot represent an object')",
            "it needs dict(run.settings) in a check",
        ),
        (
            (
                "import os\nopen(os.environ['RLEXP_RESULTS'], 'a').write('{\"step\": 1}\\n')\n"
                "import time\ntime.sleep(600)"
            ),
            "it trains instead of answering",
        ),
    ],
)
def test_a_script_without_an_answer_is_not_asked_again(text: str, why: str) -> None:
    """The check says why there is no answer, ends the script, and leaves the second configuration alone."""
    Path("train.py").write_text(f"open('starts.jsonl', 'a').write('{{}}\\n')\n{text}\n")
    notes: list[str] = []
    made = ScriptChecks(Workspace.here(), checks().executor, notes.append, 3.0)
    made.check(configurations("algorithm.settings.x=1,2"))
    assert ["{}"] == Path("starts.jsonl").read_text().splitlines()
    assert "Checks the settings of mine with its script" == notes[0]
    assert why in notes[1]
    assert 2 == len(notes)
    ours = [p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == str(Path.cwd())]
    assert [os.getpid()] == [process.pid for process in ours]


def test_an_answer_counts_whatever_the_program_around_the_script_does() -> None:
    """A shell that hides the exit code of the script changes nothing."""
    write_script(ASKING)
    notes: list[str] = []
    command = f"algorithm.command=sh -c '{sys.executable} -S train.py; exit 1'"
    made = ScriptChecks(Workspace.here(), checks().executor, notes.append, 30.0)
    made.check(configurations(command))
    assert ["Checks the settings of mine with its script"] == notes
    assert 1 == len(starts())


def test_without_the_setting_nothing_is_asked() -> None:
    """A script that does not ask for checks is started for its runs only; a plan starts nothing."""
    write_script(ASKING)
    train("algorithm.checks=false", "seeds.test=1")
    assert [] == starts()
    train("experiment=y", "--dry-run")
    rlexp(Path.cwd(), "config", "validate", *WORDS)
    assert [] == starts()


def test_a_check_is_no_part_of_the_identity() -> None:
    """Runs with and without the check, and runs from before there was one, have the same name."""
    write_script(ASKING)
    names = [
        configuration.spec(Phase.TEST, 0, 0).name
        for words in (["algorithm.checks=true"], ["algorithm.checks=false"], ["~algorithm.checks"])
        for configuration in configurations(*words)
    ]
    assert 1 == len(set(names)), names


def test_trials_are_not_checked() -> None:
    """Of a sweep, the script checks the default alone; a trial that it refuses is a failed run, as without checks."""
    write_script(
        'if run.settings["rate"] > 2: raise SystemExit("algorithm.settings.rate: at most 2")'
    )
    words = (
        *(
            *WORDS,
            "algorithm.settings.rate=1",
            "sweep.space.algorithm.settings.rate=choice(1,2,3)",
        ),
        *("tuner=grid", "sweep.trials=4", "seeds.tuning=1", "seeds.test=1"),
    )
    for _ in range(2):
        rlexp(Path.cwd(), "sweep", *last_words(*words))
        assert [1] == [start["settings"]["rate"] for start in starts()]  # type: ignore[index]
    trials = map(json.loads, Path("runs/x/trials.jsonl").read_text().splitlines())
    assert not [trial for trial in trials if trial.get("refused")]


def test_a_sweep_whose_default_is_refused_writes_nothing() -> None:
    """The default of a sweep is checked before its folder exists."""
    write_script('raise SystemExit("algorithm.settings.rate: at most 2")')
    with pytest.raises(ConfigError, match=r"^algorithm\.settings\.rate: at most 2$"):
        rlexp(
            *(Path.cwd(), "sweep", *WORDS, "algorithm.settings.rate=1", "sweep.trials=2"),
            *("sweep.space.algorithm.settings.rate=choice(1,2)", "seeds.tuning=1"),
        )
    assert not Path("runs/x").exists()


def test_an_attempt_records_which_trainer_it_had() -> None:
    """The digest of `rlexp.trainer` is in the configuration of the attempt."""
    write_script(ASKING)
    train("seeds.test=1")
    (path,) = Path().glob("runs/x/*/attempts/1/configuration.json")
    expected = __import__("hashlib").sha256(Path(trainer.__file__).read_bytes()).hexdigest()
    assert {"rlexp.trainer": expected} == json.loads(path.read_text())["versions"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python trian.py --seed {seed}", "there is no file trian.py; did you mean 'train.py'?"),
        ("{python} -u code/net.py", "there is no file code/net.py (looked for in"),
        ("{python} {recipes}/train_with_sbq.py", "did you mean 'train_with_sbx.py'?"),
        ("sh trainer.sh {steps}", "there is no file trainer.sh (looked for in"),
        (
            "train.py {seed}",
            "train.py is no program: type 'algorithm.command=python train.py {seed}'",
        ),
    ],
)
def test_a_script_that_is_not_there_is_refused(command: str, expected: str) -> None:
    """A command whose script does not exist is one line, before anything is written."""
    write_script(ASKING)
    with pytest.raises(ConfigError) as caught:
        train(f"algorithm.command={command}")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not [*Path().glob("runs*")]


def test_commands_that_name_no_script_are_left_alone() -> None:
    """A module, code in the command, and a placeholder whose value comes later are not looked for."""
    write_script(ASKING)
    for command in (
        "{python} -m train",
        "sh -c 'true'",
        "{python} {settings.file}",
        "julia no.jl",
    ):
        words = (f"algorithm.command={command}", "algorithm.settings.file=train.py")
        rlexp(Path.cwd(), "config", "validate", *last_words(*WORDS, *words))
