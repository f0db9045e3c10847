"""Words that new users type, as other tools taught them, and the words of rlexp that they mean.

`check_words` refuses such words before anything is composed. `meant_key` is for keys that only the
composed configuration shows to be unknown.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from rlexp.config.config_files import DEFINITIONS, group_options, groups
from rlexp.config.matrix import GYMNASIUM_ID
from rlexp.config.overrides import (
    CONSTANT,
    EXPERIMENT_KEYS,
    SEED_LISTS,
    SWEEP_GROUPS,
    split_override,
)
from rlexp.config.third_party_yaml import environment_options
from rlexp.environments.registered import unregistered
from rlexp.errors import Code, ConfigError, did_you_mean

OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("lr", "alpha", "step_size"), "algorithm.learning_rate"),
    **dict.fromkeys(("discount", "discount_factor"), "algorithm.gamma"),
    **dict.fromkeys(("batch", "minibatch_size"), "algorithm.batch_size"),
    **dict.fromkeys(("epochs", "update_epochs"), "algorithm.n_epochs"),
    **dict.fromkeys(("rollout", "rollout_length", "num_steps"), "algorithm.n_steps"),
    **dict.fromkeys(("entropy", "ent", "entropy_coef"), "algorithm.ent_coef"),
    **dict.fromkeys(("algo", "alg", "agent_name", "model"), "algorithm"),
    **dict.fromkeys(("env", "env_id", "env_name", "task", "game"), "environment"),
    **dict.fromkeys(("n_envs", "num_envs", "envs", "nenvs"), "environment.vector.count"),
    **dict.fromkeys(("env_kwargs", "env_args"), "environment.arguments"),
    **dict.fromkeys(("max_episode_length", "horizon"), "environment.max_episode_steps"),
    **dict.fromkeys(("frame_stack", "n_stack"), "environment.vector.frame_stack"),
    **dict.fromkeys(("policy",), "agent"),
    **dict.fromkeys(("net_arch", "hidden", "hidden_sizes", "hidden_layers"), "agent.network"),
    **dict.fromkeys(("activation_fn",), "agent.activation"),
    **dict.fromkeys(
        (
            *("steps", "total_timesteps", "timesteps", "n_timesteps", "total_steps"),
            *("train_steps", "training_steps", "max_steps", "num_timesteps", "frames"),
        ),
        "budget.steps",
    ),
    **dict.fromkeys(("eval_freq", "eval_every", "eval_interval"), "budget.evaluation_every"),
    **dict.fromkeys(("n_eval_episodes", "eval_episodes"), "budget.evaluation_episodes"),
    **dict.fromkeys(("save_freq", "checkpoint_freq", "save_every"), "budget.checkpoint_every"),
    **dict.fromkeys(("n_seeds", "num_seeds", "nseeds"), "seeds.test"),
    **dict.fromkeys(("device", "gpu", "cuda"), "compute.device"),
    **dict.fromkeys(("workers", "n_jobs", "jobs", "num_workers", "n_workers"), "executor.workers"),
    "threads": "compute.threads",
    **dict.fromkeys(("name", "exp", "exp_name", "run_name", "experiment_name"), "experiment"),
    **dict.fromkeys(("logger", "loggers", "trackers"), "tracker"),
    **dict.fromkeys(("n_trials", "num_trials"), "sweep.trials"),
    **dict.fromkeys(("sampler", "optimizer"), "tuner"),
    **dict.fromkeys(("replay_buffer", "buffer"), "replay"),
    **{f"{group}s": group for group in ("callback", "component", "dataset", "teacher")},
}
"""Keys of rlexp by the names that other tools give them."""
SINGLE_KEYS = ("experiment", "phase", "failures")
"""Keys of the configuration outside groups and sections."""
WHOLE_SECTIONS = {"seeds": "test", "budget": "steps", "sweep": "trials"}
"""Sections that users set as a whole, and the setting in each that they mean."""
NAMED_BY_USERS = (
    *(
        "algorithm",
        "environment",
        "agent",
        "component",
        "teacher",
        "callback",
        "replay",
        "dataset",
    ),
    *("executor", "tracker", "benchmark", "tuner", "pruner"),
)
"""Groups whose options are recognised without the group's name, in the order of the search."""
COMPONENT_KEYS = {
    "environment.component": "component",
    "environment.components": "component",
    "environment.teacher": "teacher",
    "environment.components.teacher": "teacher",
}
"""Keys under which options are sought, because the configuration has their settings there."""
STUDY_FILE = re.compile(r".+\.ya?ml", re.IGNORECASE)
"""The name of a study file."""
SAMPLED = re.compile(
    r"(log_?uniform|uniform|randint|int_?uniform|q_?uniform)\s*\((.*)\)", re.IGNORECASE
)
"""A distribution of another tool, with its arguments."""
LINEAR = re.compile(r"lin_([\d.]+(?:e-?\d+)?)", re.IGNORECASE)
"""A linear schedule, as rl-baselines3-zoo writes it."""
TWO_NETWORKS = re.compile(r"\{\s*(?:pi|vf|qf|actor|critic)\s*:")
"""The beginning of a mapping of networks."""
LAYERS = re.compile(r"\b(pi|vf|qf|actor|critic)\s*:\s*(\[[\d,\s]*\]|\d+)")
"""A network in such a mapping: its name, and its layers."""


@dataclass(frozen=True, slots=True)
class TypedWord:
    """A word with a value, the words that were typed with it, and the study's folder."""

    text: str
    words: Sequence[str]
    folder: Path

    @property
    def key(self) -> str:
        """The key, without a sign before it."""
        return split_override(self.text.lstrip("~"))[0]

    @property
    def value(self) -> str:
        """The text of the value."""
        return split_override(self.text)[1]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A word that cannot be composed, what is wrong with it, and the words to type instead."""

    problem: str
    key: str
    advice: str
    code: Code = "unknown_setting"

    def __str__(self) -> str:
        return f"{self.problem}: {self.advice}"


def check_words(overrides: Sequence[str], folder: Path) -> None:
    """Refuse words that are no overrides of rlexp, and two values of one key.

    Args:
        overrides: The words of one command.
        folder: The study's folder, whose `conf/` wins over the packaged one.

    Raises:
        ConfigError: All mistakes, on one line, each with the words to type.
    """
    words = [word for word in overrides if word]
    tasks = {word: m for word in words if (m := _unknown_task(TypedWord(word, words, folder)))}
    words = [word for word in words if word not in tasks]
    bare = [w for w in words if "=" not in w and not w.startswith(("~", "-")) and "${" not in w]
    mistakes = [*tasks.values(), *_bare_words(bare, folder), *_repeated(words)]
    for word in words:
        if word in bare:
            continue
        checks = (
            _study_file,
            _of_hydra,
            _of_optuna,
            _whole_section,
            _unnamed_option,
            _sweep_method,
            _of_components,
            _of_networks,
            _other_name,
            _foreign_value,
        )
        results = (check(TypedWord(word, words, folder)) for check in checks)
        mistakes += [mistake for mistake in results if mistake is not None][:1]
    if mistakes:
        first = mistakes[0]
        raise ConfigError("; ".join(map(str, mistakes)), code=first.code, key=first.key)


def meant_key(name: str) -> str | None:
    """The key that a name of another tool stands for; None for an unknown name."""
    return OTHER_NAMES.get(_normalised(name))


def _normalised(name: str) -> str:
    return name.strip("-+").replace("-", "_").lower()


def typed(key: str, value: str, folder: Path) -> str:
    """The words that set a key of rlexp, or choose an option, to a value, as typed in a shell."""
    if key == "environment":
        return shlex.join(_task_words(value, folder))
    several = key in SEED_LISTS and "," in value
    if (key == "tracker" or several) and not value.startswith("["):
        value = f"[{value}]"
    if key in {"agent.network", "agent.actor", "agent.critic"} and value.isdecimal():
        value = f"[{value}]"
    if key == "compute.device" and value.isdecimal():
        value = f"cuda:{value}"
    # A group without a default option needs the sign that adds one.
    return shlex.quote(f"+{key}={value}" if key == "benchmark" else f"{key}={value}")


def setting_words(name: str, value: str, folder: Path) -> str | None:
    """The words that mean `name=value`, whose name may be of another tool.

    Returns None where the name is no key that users know.
    """
    word = _normalised(name)
    if word == "seed":
        return typed("seeds.test", f"[{value}]" if value.isdecimal() else value, folder)
    if word in WHOLE_SECTIONS:
        return typed(f"{word}.{WHOLE_SECTIONS[word]}", value, folder)
    if word in {*groups(folder), *SINGLE_KEYS}:
        return typed(word, value, folder)
    key = OTHER_NAMES.get(word)
    return typed(key, value, folder) if key else None


def in_hydra_grammar(text: str) -> str | None:
    """The values of a distribution of another tool as Hydra writes them; None for other text."""
    match = SAMPLED.fullmatch(text.strip())
    if match is None:
        return None
    name, arguments = match[1].lower().replace("_", ""), match[2].split(",")[:2]
    interval = f"interval({','.join(part.strip() for part in arguments)})"
    if name == "loguniform":
        return f"tag(log,{interval})"
    return f"int({interval})" if name in {"randint", "intuniform"} else interval


def _bare_words(words: Sequence[str], folder: Path) -> list[Mistake]:
    """The words without a value; those that name an option share one piece of advice."""
    meant = {word: _option_words(word, folder) for word in words}
    recognised = {word: option for word, option in meant.items() if option}
    mistakes = [_unreadable(word, folder) for word in words if not meant[word]]
    if not recognised:
        return mistakes
    names = " and ".join(repr(word) for word in recognised)
    advice = f"type {' '.join(recognised.values())}"
    return [
        Mistake(f"cannot read {names}", next(iter(recognised)), advice, "wrong_type"),
        *mistakes,
    ]


def _option_words(word: str, folder: Path) -> str:
    """The words that choose the option, or the task, of this name; empty for an unknown name."""
    option = _normalised(word)
    for group in NAMED_BY_USERS:
        if option != "none" and option in group_options(group, folder):
            return typed(group, option, folder)
    if GYMNASIUM_ID.fullmatch(word):
        return typed("environment", word, folder)
    return f"rlexp sweep {word}" if word in group_options(DEFINITIONS, folder) else ""


def _unreadable(word: str, folder: Path) -> Mistake:
    problem = f"cannot read {word!r}"
    if STUDY_FILE.fullmatch(word):
        return Mistake(problem, word, _file_advice(word, folder), "wrong_type")
    if word.replace("_", "").isdecimal():
        return Mistake(problem, word, f"type budget.steps={word}", "wrong_type")
    names = [o for g in NAMED_BY_USERS[:3] for o in group_options(g, folder)]
    return Mistake(problem, word, f"write {word}=VALUE{did_you_mean(word, names)}", "wrong_type")


def _file_advice(word: str, folder: Path) -> str:
    """What to type where a word names a yaml file that is not the study file of the command."""
    if not (folder / word).exists():
        return f"there is no such file; write one with: {shlex.join(['rlexp', 'init', '--study', word])}"
    return f"a study file is the first word: type rlexp run {shlex.quote(word)} …"


def _repeated(words: Sequence[str]) -> list[Mistake]:
    """Keys with two different values; the values of `benchmark` have a check of their own."""
    first: dict[str, str] = {}
    mistakes = []
    for word in words:
        key, value = split_override(word)
        before = first.setdefault(key, word)
        if key in {"", "benchmark"} or "=" not in word or value == split_override(before)[1]:
            continue
        problem = f"{key} has two values, {before} and {word}"
        # A grid cannot vary the keys of the whole experiment, nor the budget.
        is_single = key.split(".")[0] in (*EXPERIMENT_KEYS, *SWEEP_GROUPS, "budget")
        is_single |= any(sign in f"{before}{value}" for sign in ",[({")
        grid = "" if is_single else f", or type {shlex.quote(f'{before},{value}')} for both"
        mistakes.append(Mistake(problem, key, f"keep one of them{grid}"))
    return mistakes


def _study_file(word: TypedWord) -> Mistake | None:
    """The name of a study file as the value of a key that rlexp does not have."""
    reserved = {*groups(word.folder), *WHOLE_SECTIONS, *SINGLE_KEYS}
    if not word.key.isidentifier() or word.key in reserved or not STUDY_FILE.fullmatch(word.value):
        return None
    if not (word.folder / word.value).is_file():
        return None
    advice = _file_advice(word.value, word.folder)
    return Mistake(f"unknown key {word.key!r}", word.key, advice)


def _of_hydra(word: TypedWord) -> Mistake | None:
    key, value = word.key, word.value
    if not re.fullmatch(r"hydra(?:[./@].*)?", key):
        return None
    problem = f"{word.text}: rlexp does not read Hydra's own settings"
    if "sweep" in key and "dir" not in key:
        advice = "type rlexp sweep quick, or list definitions with: rlexp config list sweeps"
    elif "launcher" in key:
        advice = "choose what executes runs with executor=…: rlexp config list executor"
    elif key.endswith((".dir", ".name", ".subdir")):
        folder_name = re.sub(r"[^\w.-]+", "-", Path(value).name).strip("-.") or "NAME"
        advice = f"records lie in runs/NAME, whose name is set by: experiment={folder_name}"
    elif key.endswith("searchpath"):
        advice = "own options lie in conf/ of the present folder: rlexp config list"
    else:
        advice = "leave it out; the settings of rlexp: rlexp config list"
    return Mistake(problem, key, advice, "not_allowed")


def _of_optuna(word: TypedWord) -> Mistake | None:
    key, value = word.key, word.value
    if key.split(".")[0] not in {"optuna", "sweeper", "launcher"}:
        return None
    tuners = group_options("tuner", word.folder)
    tuner = value if value in tuners else "tpe"
    problem = f"{word.text}: there is no group {key!r}"
    if key.startswith("launcher"):
        return Mistake(problem, key, "choose with executor=…: rlexp config list executor")
    advice = f"the tuner is chosen by rlexp sweep: type rlexp sweep quick tuner={tuner}"
    return Mistake(problem, key, advice, "unknown_group")


def _whole_section(word: TypedWord) -> Mistake | None:
    key, value = word.key, word.value
    inner = WHOLE_SECTIONS.get(key)
    if inner is None or not re.fullmatch(r"[\d_.e+]+|\[.*\]|\d+(,\d+)*", value):
        return None
    if key == "seeds" and "phase=tuning" in word.words:
        inner = "tuning"
    advice = f"type {typed(f'{key}.{inner}', value, word.folder)}"
    return Mistake(f"{word.text}: {key} is a section", key, advice, "wrong_type")


def _unnamed_option(word: TypedWord) -> Mistake | None:
    """A number or a constant where an option is chosen, on which Hydra ends with a traceback."""
    key, values = word.key, word.value.strip("[]").split(",")
    is_name = not any(re.fullmatch(rf"[\d_.e+-]+|{CONSTANT.pattern}", v.strip()) for v in values)
    if is_name or key not in groups(word.folder):
        return None
    advice = f"options are chosen by name; to see them: rlexp config list {key}"
    return Mistake(f"cannot read {word.text!r}", key, advice, "wrong_type")


def _sweep_method(word: TypedWord) -> Mistake | None:
    """What proposes the trials of a sweep is its tuner, also where it trains a population."""
    if word.key != "sweep.method":
        return None
    return Mistake("unknown key 'sweep.method'", word.key, f"type tuner={word.value or 'pbt'}")


def _of_components(word: TypedWord) -> Mistake | None:
    """A key inside the task where a component or a teacher is chosen, or set, by its group."""
    group = COMPONENT_KEYS.get(word.key)
    if group is None or word.value.startswith("{"):
        return None
    advice = f"type {typed(group, word.value, word.folder)}"
    return Mistake(f"cannot choose with {word.key}", word.key, advice, "unknown_setting")


def _of_networks(word: TypedWord) -> Mistake | None:
    """Networks of actor and critic in one mapping, as stable-baselines3 takes them."""
    if "agent.network" not in {word.key, meant_key(word.key)} or not TWO_NETWORKS.match(
        word.value
    ):
        return None
    layers = dict(LAYERS.findall(word.value))
    pairs = (("agent.actor", ("pi", "actor")), ("agent.critic", ("vf", "qf", "critic")))
    given = {k: layers[n] for k, names in pairs for n in names if n in layers}
    words = " ".join(typed(key, value, word.folder) for key, value in given.items())
    advice = (
        f"type {words}" if len(given) == len(pairs) else "set agent.actor=… and agent.critic=…"
    )
    return Mistake(f"{word.key} is one network for both", word.key, advice, "wrong_type")


def _other_name(word: TypedWord) -> Mistake | None:
    key, value = word.key, word.value
    if "." in key or "/" in key or "@" in key or key in {*groups(word.folder), *WHOLE_SECTIONS}:
        return None
    advice = setting_words(key, value, word.folder)
    if advice is None or key in SINGLE_KEYS:
        return None
    # A bare number of seeds is likely, too, and the two give different runs.
    is_seed = _normalised(key) == "seed" and value.isdecimal()
    count = f" for the seed {value}, or seeds.test={value} for {value} seeds" if is_seed else ""
    return Mistake(f"unknown key {key!r}", key, f"type {advice}{count}")


def _unknown_task(word: TypedWord) -> Mistake | None:
    """A Gymnasium id that is no option: the words that choose its task, or why none would."""
    bare = "=" not in word.text
    value = word.text if bare else word.value
    if not (bare or "environment" in {word.key, meant_key(word.key)}):
        return None
    # Most words are no ids: the options of tasks, which take time to read, are not needed for them.
    if not GYMNASIUM_ID.fullmatch(value) or value in group_options("environment", word.folder):
        return None
    problem = f"there is no environment={value}"
    # In a matrix, a task may have the name of its id.
    in_matrix = any(w.lstrip("+").startswith("benchmark=") for w in word.words)
    reason = None if in_matrix else _absence(value, word)
    if reason is not None:
        return Mistake(problem, "environment", reason, "unknown_option")
    if word.key != "environment" or in_matrix:
        return None
    advice = f"type {typed('environment', value, word.folder)}"
    return Mistake(problem, "environment", advice, "unknown_option")


def _absence(value: str, word: TypedWord) -> str | None:
    """Why Gymnasium does not have a task either, so that no words choose it; None if some may."""
    # The module that registers the task may be among the words.
    elsewhere = any(w.lstrip("+").startswith("environment.imports=") for w in word.words)
    if elsewhere or ":" in value or len(_task_words(value, word.folder)) == 1:
        return None
    reason = unregistered(value)
    if reason is None:
        return None
    close = get_close_matches(value, environment_options(word.folder), n=1, cutoff=0.85)
    return f"did you mean {typed('environment', close[0], word.folder)}?" if close else reason


def _task_words(value: str, folder: Path) -> list[str]:
    """The words that choose a task by its option or by its Gymnasium id."""
    options = group_options("environment", folder)
    option = value if value in options else environment_options(folder).get(value)
    if option or not GYMNASIUM_ID.fullmatch(value):
        return [f"environment={option or value}"]
    return ["environment=gymnasium", f"environment.id={value}"]


def _foreign_value(word: TypedWord) -> Mistake | None:
    key, value = word.key, word.value
    problem = f"cannot read {word.text!r}"
    if (values := in_hydra_grammar(value)) is not None:
        typed_word = shlex.quote(f"{key}={values}")
        advice = f"values are searched by sweeps: type rlexp sweep {typed_word}"
        return Mistake(problem, key, advice, "wrong_type")
    if (match := LINEAR.fullmatch(value)) is not None:
        schedule = shlex.quote(f"{key}={{shape:linear,initial:{match[1]}}}")
        return Mistake(
            problem, key, f"a linear schedule is a mapping: type {schedule}", "wrong_type"
        )
    return None
