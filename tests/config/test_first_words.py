"""First words of new users: each is refused with words that can be pasted and that compose."""

import re
import shlex
from pathlib import Path

import pytest
from composing import compose_one, refusal, value_at
from quick_parts import quick_yaml

from rlexp.config.compose import compose
from rlexp.config.first_words import OTHER_NAMES, in_hydra_grammar
from rlexp.config.sweep import compose_sweep
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_yaml)
LISTED = re.compile(r"\((?:there are|\w+ has): ([^)]*)\)")

MEANT = {
    "steps=20000": "budget.steps=20000",
    "total_timesteps=20000": "budget.steps=20000",
    "budget=20000": "budget.steps=20000",
    "20000": "budget.steps=20000",
    "seeds=5": "seeds.test=5",
    "seeds=[1,2]": "seeds.test=[1,2]",
    "seed=3": "seeds.test=[3]",
    "seeds=0,1": "seeds.test=[0,1]",
    "seed=4,7": "seeds.test=[4,7]",
    "lr=1e-3": "algorithm.learning_rate=1e-3",
    "algorithm.lr=1e-3": "algorithm.learning_rate=1e-3",
    "gamma=0.9": "algorithm.gamma=0.9",
    "n_envs=4": "environment.vector.count=4",
    "environment.n_envs=4": "environment.vector.count=4",
    "net_arch=[64,64]": "agent.network=[64,64]",
    "hidden=64": "agent.network=[64]",
    "net_arch={pi:[64],vf:[32]}": "agent.actor=[64] agent.critic=[32]",
    "agent.network={pi:64,qf:[32,32]}": "agent.actor=[64] agent.critic=[32,32]",
    "components=sticky_actions": "component=sticky_actions",
    "environment.components=sticky_actions": "component=sticky_actions",
    "component.sticky_actions.probability=0.5": (
        "component=sticky_actions environment.components.sticky_actions.probability=0.5"
    ),
    "environment.components.sticky_actions.probability=0.5": (
        "component=sticky_actions environment.components.sticky_actions.probability=0.5"
    ),
    "environment.components.teacher=alp_gmm": "teacher=alp_gmm",
    "teacher.staleness=0.2": "teacher=plr environment.components.teacher.staleness=0.2",
    "dataset.id=mine-v0": "dataset=minari dataset.id=mine-v0",
    "replay.n_steps=5": "replay=n_step replay.n_steps=5",
    "benchmark=resets": "+benchmark=resets",
    "device=cuda": "compute.device=cuda",
    "gpu=1": "compute.device=cuda:1",
    "algo=a2c": "algorithm=a2c",
    "env=acrobot": "environment=acrobot",
    "env=Acrobot-v1": "environment=acrobot",
    "name=mine": "experiment=mine",
    "n_jobs=2": "executor.workers=2",
    "trackers=mlflow": "tracker=[mlflow]",
    "eval_freq=500": "budget.evaluation_every=500",
    "a2c": "algorithm=a2c",
    "ppo acrobot": "algorithm=ppo environment=acrobot",
    "mlflow": "tracker=[mlflow]",
    "CartPole-v1": "environment=cartpole",
    "CartPole-v0": "environment=gymnasium environment.id=CartPole-v0",
    "environment=Acrobot-v1": "environment=acrobot",
    "environment=CartPole-v0": "environment=gymnasium environment.id=CartPole-v0",
    "algorithm.learning_rate=lin_3e-4": "algorithm.learning_rate={shape:linear,initial:3e-4}",
}
"""What is typed first, and the words that are meant."""
SEARCHED = {
    "algorithm.learning_rate=loguniform(1e-5,1e-2)": (
        "algorithm.learning_rate=tag(log,interval(1e-5,1e-2))"
    ),
    "algorithm.gamma=uniform(0.9, 0.99)": "algorithm.gamma=interval(0.9,0.99)",
    "algorithm.n_epochs=randint(3, 9)": "algorithm.n_epochs=int(interval(3,9))",
}
"""Distributions of other tools, and the same values in Hydra's grammar."""


def advised(message: str) -> list[str]:
    """The words that a message says to type, as a shell splits them."""
    first = message.partition(": type ")[2] or message.partition("; type ")[2]
    words = shlex.split(re.split(r" for the seed| \(", first)[0])
    assert words, message
    return words


@pytest.mark.parametrize(("typed", "meant"), MEANT.items())
def test_first_words_are_refused_with_words_that_compose(
    tmp_path: Path, typed: str, meant: str
) -> None:
    """The error gives exactly the words that are meant, and these words compose."""
    message = refusal(tmp_path, *typed.split())
    assert meant.split() == advised(message)
    assert 1 == len(compose(meant.split(), tmp_path))


@pytest.mark.parametrize("typed", ["{}", "environment={}", "env={}"])
def test_a_task_that_gymnasium_does_not_have_has_no_advice_that_fails(
    tmp_path: Path, typed: str
) -> None:
    """The error names the option of a task with a similar id, and no words that are refused later."""
    similar = refusal(tmp_path, typed.format("CartPole-v2"))
    assert "there is no environment=CartPole-v2: did you mean environment=cartpole?" == similar
    unknown = refusal(tmp_path, typed.format("NoSuch-v0"))
    assert "'NoSuch-v0' is not registered in Gymnasium" in unknown
    assert "type environment" not in unknown


def test_the_task_of_a_module_of_the_study_has_words_that_choose_it(tmp_path: Path) -> None:
    """A module that the words import may register any id."""
    message = refusal(tmp_path, "environment=NoSuch-v0", "environment.imports=[mine]")
    assert ["environment=gymnasium", "environment.id=NoSuch-v0"] == advised(message)


@pytest.mark.parametrize("word", ["callback=3", "component=[3]", "component=[null]", "agent=true"])
def test_an_option_that_is_no_name_is_refused_with_the_command_that_lists_names(
    tmp_path: Path, word: str
) -> None:
    """A number or a constant as an option is one line, not a traceback of Hydra."""
    group = word.partition("=")[0]
    expected = (
        f"cannot read {word!r}: options are chosen by name; to see them: rlexp config list {group}"
    )
    assert expected == refusal(tmp_path, word)


def test_a_setting_that_no_option_has_leads_to_the_list_of_options(tmp_path: Path) -> None:
    """A key of no teacher and of no component suggests no key of another group."""
    for group in ("teacher", "component"):
        expected = (
            f"unknown key '{group}.kind': no option of {group} has it; to see the options: "
            f"rlexp config list {group}"
        )
        assert expected == refusal(tmp_path, f"{group}.kind=other")


def test_a_setting_that_several_options_have_names_them(tmp_path: Path) -> None:
    """Where no single option is meant, the error names all that have the setting."""
    message = refusal(tmp_path, "teacher.shared=null")
    assert "teacher=alp_gmm and teacher=success_rate have it" in message


def test_a_mapping_that_is_no_schedule_is_refused_once(tmp_path: Path) -> None:
    """The error names the setting and the form of a schedule, and not each key that is missing."""
    message = refusal(tmp_path, "agent.network={pi:[a]}")
    assert "agent.network is one network for both: set agent.actor=… and agent.critic=…" == message


def test_a_setting_inside_a_component_is_named_in_full(tmp_path: Path) -> None:
    """A word for a setting of the teacher leads to this setting, and never to the whole teacher."""
    chosen = ("environment=cartpole_contexts", "teacher=alp_gmm")
    message = refusal(tmp_path, *chosen, "teacher.shared=null")
    assert ["environment.components.teacher.shared=null"] == advised(message)
    assert 1 == len(compose([*chosen, *advised(message)], tmp_path))
    message = refusal(tmp_path, *chosen, "teacher.other=1")
    assert "; type " not in message
    assert "unknown key 'environment.components.teacher.other'" in message
    assert "(environment.components.teacher has: " in message


@pytest.mark.parametrize(("typed", "meant"), SEARCHED.items())
def test_distributions_are_refused_with_a_sweep_that_composes(
    tmp_path: Path, typed: str, meant: str
) -> None:
    """A distribution of another tool is refused with a command of `rlexp sweep` that composes."""
    message = refusal(tmp_path, typed)
    assert ["rlexp", "sweep", meant] == advised(message)
    assert typed.split("=", maxsplit=1)[0] in compose_sweep(None, [meant], tmp_path).space.keys


@pytest.mark.parametrize(
    "text", ["choice(1,2)", "interval(0,1)", "uniform", "0.1", "", "uniform(0"]
)
def test_other_values_are_no_distribution(text: str) -> None:
    """A text that is no distribution of another tool has no other spelling."""
    assert in_hydra_grammar(text) is None


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("hydra.run.dir=outputs/first", "experiment=first"),
        ("hydra.sweep.dir=x", "experiment=x"),
        ("hydra.sweeper.n_trials=3", "rlexp sweep quick"),
        ("hydra/sweeper=optuna", "rlexp sweep quick"),
        ("hydra/launcher=submitit_slurm", "rlexp config list executor"),
        ("hydra.searchpath=[file:///tmp]", "conf/ of the present folder"),
        ("hydra.verbose=true", "rlexp config list"),
        ("++hydra.job.chdir=true", "rlexp config list"),
        ("~hydra.callbacks", "rlexp config list"),
        ("+optuna=tpe", "rlexp sweep quick tuner=tpe"),
        ("optuna.sampler=gp", "rlexp sweep quick tuner=gp"),
        ("quick", "rlexp sweep quick"),
        ("missing.yaml", "rlexp init --study missing.yaml"),
    ],
)
def test_words_of_hydra_are_refused(tmp_path: Path, word: str, advice: str) -> None:
    """No setting of Hydra or of its plug-ins is ignored: each is refused with what to type."""
    message = refusal(tmp_path, word)
    assert word in message
    assert advice in message


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("seed.test=1", "seeds.test=1"),
        ("algoritm.gamma=0.9", "algorithm.gamma=0.9"),
        ("environment.vectr.count=3", "environment.vector.count=3"),
    ],
)
def test_a_near_word_keeps_the_parts_after_the_mistake(
    tmp_path: Path, typed: str, near: str
) -> None:
    """The word that is suggested for a dotted key with one wrong part composes."""
    assert f"did you mean '{near}'?" in refusal(tmp_path, typed)
    assert 1 == len(compose([near], tmp_path))


def test_all_first_words_are_named_at_once(tmp_path: Path) -> None:
    """Several wrong words are reported on one line."""
    message = refusal(tmp_path, "lr=0.1", "seeds=2", "ppo", "hydra.verbose=true", "n_envs=2")
    for advice in (
        "learning_rate=0.1",
        "seeds.test=2",
        "algorithm=ppo",
        "hydra.verbose",
        "count=2",
    ):
        assert advice in message


def test_seeds_of_tuning_are_advised_in_that_phase(tmp_path: Path) -> None:
    """`seeds=` means the seeds of the phase that the other words choose."""
    assert ["seeds.tuning=4"] == advised(refusal(tmp_path, "phase=tuning", "seeds=4"))


@pytest.mark.parametrize("key", sorted({*OTHER_NAMES.values()}))
def test_every_meant_key_exists(tmp_path: Path, key: str) -> None:
    """Every key that stands for a name of another tool is a key of the configuration."""
    if key.startswith(("sweep.", "tuner")):
        assert compose_sweep("quick", [f"{key}={'3' if '.' in key else 'random'}"], tmp_path)
    elif key in {"component", "teacher"}:
        # Their options are settings of the environment.
        assert compose_one(tmp_path, f"{key}=none")
    else:
        value_at(compose_one(tmp_path), key)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["budget.steps=1", "budget.steps=2"], ["budget.steps=1 and budget.steps=2"]),
        (["++budget.steps=1", "budget.steps=2"], ["budget.steps=2"]),
        (["algorithm=ppo", "algorithm=a2c"], ["type algorithm=ppo,a2c for both"]),
        (["seeds.test=1", "seeds.test=2"], ["keep one of them"]),
        (["a=1", "a=2", "b=1", "b=3"], ["a has two", "b has two"]),
    ],
)
def test_two_values_of_one_key_are_refused(
    tmp_path: Path, words: list[str], parts: list[str]
) -> None:
    """Two values of one key are refused, and both are named."""
    message = refusal(tmp_path, *words)
    assert all(part in message for part in parts), message


def test_the_same_value_twice_is_no_mistake(tmp_path: Path) -> None:
    """A word that stands twice changes nothing."""
    single = compose(["budget.steps=5000"], tmp_path)
    assert single == compose(["budget.steps=5000", "budget.steps=5000"], tmp_path)


@pytest.mark.parametrize("word", ["environment=cartpol", "algorithm=x", "algorithm.x=1", "x=1"])
def test_at_most_eight_names_are_listed(tmp_path: Path, word: str) -> None:
    """A message lists eight names at most, and says how many more there are."""
    listed = LISTED.search(refusal(tmp_path, word))
    assert listed is not None
    names, _, more = listed[1].partition(" and ")
    assert 8 == len(names.split(", "))
    assert re.fullmatch(r"\d+ more", more)


def test_a_study_file_as_a_value_is_advised_as_the_first_word(tmp_path: Path) -> None:
    """`study=rates.yaml` is answered with `rlexp run rates.yaml` where this file exists."""
    with pytest.raises(ConfigError, match=r"^unknown key 'study' \(there are") as caught:
        compose(["study=rates.yaml"], tmp_path)
    assert "rlexp run" not in str(caught.value)
    (tmp_path / "rates.yaml").write_text("algorithm: ppo\n")
    with pytest.raises(ConfigError, match=r"^unknown key 'study'.* type rlexp run rates.yaml …$"):
        compose(["study=rates.yaml"], tmp_path)
