"""Export of a run as a Python script that needs Stable-Baselines3 but not rlexp.

The script rebuilds the policy and plays its final evaluation again. `script` assembles its source
from templates; values from records are written only as literals, never as code. `requirements`
writes the versions of the packages.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from textwrap import indent
from typing import Any

from rlexp.errors import RecordError


@dataclass(frozen=True, slots=True)
class Expression:
    """Python source written by rlexp, never taken from a record."""

    source: str


def expression(value: Any) -> str:  # noqa: PLR0911
    """Python source of a value, in ASCII.

    Args:
        value: JSON values, tuples of them, or an `Expression`.

    Raises:
        RecordError: The value is of another type, or a number is not finite.
    """
    match value:
        case Expression():
            return value.source
        case None | bool() | int():
            return repr(value)
        case float() if isfinite(value):
            # The repr of a NumPy number would be a call: `np.float64(0.5)`.
            return repr(float(value))
        case str():
            return ascii(str(value))
        case Mapping():
            pairs = (f"{str(k)!a}: {expression(v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list():
            return f"[{', '.join(map(expression, value))}]"
        case tuple():
            return f"({', '.join(map(expression, value))}{',' if len(value) == 1 else ''})"
        case _:
            kind = type(value).__name__
            raise RecordError(f"a value of kind {kind} cannot be written into a script")


def lines_of(name: str, value: Any) -> list[str]:
    """The lines of an assignment; lists and mappings have one entry on each line."""
    match value:
        case list() if value:
            return [f"{name} = [", *(f"    {expression(v)}," for v in value), "]"]
        case Mapping() if value:
            pairs = (f"    {str(k)!a}: {expression(v)}," for k, v in value.items())
            return [f"{name} = {{", *pairs, "}"]
        case _:
            return [f"{name} = {expression(value)}"]


_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION = re.compile(r"([0-9]{1,9}[A-Za-z0-9.!_-]{0,60})(?:\+[A-Za-z0-9.]{1,60})?")


def render_requirements(names: Iterable[str], recorded: Mapping[str, Any], python: Any) -> str:
    """The text of requirements.txt: one line for each package, with its version if it is valid.

    Args:
        names: Names of the packages.
        recorded: Versions by name from a record; invalid ones are left out.
        python: The version of Python, written as a comment.
    """
    versions = {_normalised_name(str(name)): version for name, version in recorded.items()}
    lines = [f"# Python {python}"] if _version(python) else []
    for name in sorted({_normalised_name(name) for name in names if _NAME.fullmatch(name)}):
        version = _version(versions.get(name))
        lines.append(f"{name}=={version}" if version else name)
    return "".join(f"{line}\n" for line in lines)


def _normalised_name(name: str) -> str:
    """A package name in the form in which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(text: Any) -> str | None:
    """The public part of a version; only one index knows a local part such as `+cpu`."""
    match = _VERSION.fullmatch(text) if isinstance(text, str) else None
    return match[1] if match else None


DOCSTRING = '''
"""Rebuilds a trained policy with Stable-Baselines3 and plays its final evaluation again.

    python evaluate.py           plays with the parameters beside this script
{train}

It plays the same episodes with the same seeds and compares their returns with those that the run
recorded. It ends with 0 where they are equal, and with 1 where they are not, which other versions
of the packages than those in requirements.txt, or another processor, can bring about.

No pickle is loaded: the learner is built here, and its parameters are put into it.
Written by rlexp, which it does not need.
"""
'''

ENVIRONMENTS = '''
class TaskReward(gym.Wrapper):
    """Innermost: adds up the task's own reward, which no other wrapper has changed."""

    def __init__(self, env):
        super().__init__(env)
        self.total = 0.0

    def step(self, action):
        result = self.env.step(action)
        self.total += float(result[1])
        return result


class Episode(gym.Wrapper):
    """Outermost: hands its seed to the first reset, and tells exact returns and lengths.

    `Monitor` of Stable-Baselines3 would round returns, and know only the outermost reward.
    """

    def __init__(self, env, task, seed):
        super().__init__(env)
        self.task, self.seed, self.rewards = task, seed, []
        # How many episodes are left to play (None: no end), and what is shown after the last one.
        self.left, self.shown = None, env.observation_space.sample()

    def play(self, episodes):
        self.left = episodes

    def reset(self, **settings):
        if self.left == 0:
            return self.shown, {}
        settings["seed"], self.seed = self.seed, None
        result = self.env.reset(**settings)
        self.task.total, self.rewards = 0.0, []
        return result

    def step(self, action):
        if self.left == 0:
            return self.shown, 0.0, False, False, {}
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(self.task.total)
        self.task.total = 0.0
        if terminated or truncated:
            info["episode"] = {"r": math.fsum(self.rewards), "l": len(self.rewards), "t": 0.0}
            if self.left is not None:
                self.left -= 1
        return observation, reward, terminated, truncated, info


def make(seed):
    """One environment with its wrappers."""
    for module in MODULES:
        import_module(module)
    task = env = TaskReward(gym.make(disable_env_checker=True, **ENVIRONMENT))
    for module, name, arguments in WRAPPERS:
        env = getattr(import_module(module), name)(env, **arguments)
    return Episode(env, task, seed)


def vectorised(seeds, training=False):
    """Environments side by side, one for each seed; rewards are normalised in training only."""
    vector = DummyVecEnv([lambda seed=seed: make(seed) for seed in seeds])
    if NORMALISE is not None and (training or NORMALISE["norm_obs"]):
        settings = {**NORMALISE, "norm_reward": training and NORMALISE["norm_reward"]}
        vector = VecNormalize(vector, training=training, **settings)
    return VecFrameStack(vector, FRAME_STACK) if FRAME_STACK > 1 else vector
'''

_TRAIN = "    python evaluate.py --train   trains them anew, from the first step, and then plays"
_NO_TRAIN = """
A program compiled by rlexp (algorithm={algorithm}) trained them. This script cannot train them anew."""

WEIGHTS = '''
def load_parameters(model):
    """Put the parameters of the run into a fresh learner; nothing is unpickled."""
    _, parameters, variables = load_from_zip_file(MODEL, device=model.device, load_data=False)
    model.set_parameters(parameters, exact_match=True)
    for name in model._get_torch_save_params()[1]:
        variable = recursive_getattr(model, name)
        variable.data = variables[name].detach().to(variable){exploration}{noise}
'''

STATISTICS = '''
def read_statistics(training):
    """Read the statistics that observations were normalised with at the end of training."""
    found = unwrap_vec_normalize(training).obs_rms
    named = found if isinstance(found, dict) else {"": found}
    with np.load(NORMALISATION, allow_pickle=False) as arrays:
        for key, statistics in named.items():
            name = f"observation/{key}" if key else "observation"
            statistics.mean = arrays[f"{name}/mean"]
            statistics.var = arrays[f"{name}/variance"]
            statistics.count = float(arrays[f"{name}/count"])
'''

PLAY = '''
def play(model, vector, episodes):
    """Returns and lengths of so many episodes, of which each environment has a fixed share.

    An environment that is through with its share simulates nothing more.
    """
    random.seed(SAMPLING_SEED)
    model.action_space.np_random.bit_generator.state = np.random.PCG64(SAMPLING_SEED).state
    np.random.seed(SAMPLING_SEED)
    torch.manual_seed(SAMPLING_SEED)
    count = vector.num_envs
    left = [episodes // count + (i < episodes % count) for i in range(count)]
    for i, share in enumerate(left):
        vector.env_method("play", share, indices=i)
    found = [[] for _ in range(count)]
    observations, states, starts = vector.reset(), None, np.ones(count, dtype=bool)
    while any(left):{masks}
        actions, states = model.predict(
            observations, state=states, episode_start=starts, deterministic=DETERMINISTIC{extra}
        )
        observations, _, starts, infos = vector.step(actions)
        for i in np.flatnonzero(starts):
            left[i] -= 1
            found[i].append((infos[i]["episode"]["r"], infos[i]["episode"]["l"]))
    return [episode for own in found for episode in own]
'''

MAIN = '''
def main():
    """Play the final evaluation of the run, and compare."""
    torch.set_num_threads(THREADS)
    training = vectorised(TRAINING_SEEDS, training=True)
{model}
    vector = vectorised(EVALUATION_SEEDS){share}
    played = play(model, vector, len(RETURNS))
    for number, (value, length) in enumerate(played):
        print(f"episode {{number}}: return {{value!r}}, length {{length}}")
    mean = math.fsum(value for value, _ in played) / len(played)
    print(f"mean return {{mean!r}}, n = {{len(played)}} episodes of one run")
    recorded = list(zip(RETURNS, LENGTHS))
    differing = [i for i, pair in enumerate(zip(played, recorded)) if pair[0] != pair[1]]
    if not differing:
        print("These are the returns and lengths that the run recorded.")
        return 0
    value, length = recorded[differing[0]]
    print(f"{{len(differing)}} of them differ from what the run recorded:")
    print(f"episode {{differing[0]}} was: return {{value!r}}, length {{length}}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
'''

_LOADED = """\
    model = build(training{room})
    load_parameters(model){read}"""
_REFUSED = """\
    if sys.argv[1:]:
        sys.exit("This script cannot train: a program compiled by rlexp trained the policy.")
"""
_TRAINED = """\
    if "--train" in sys.argv[1:]:
        model = build(training)
        model.learn(STEPS)
    else:
"""


LEARNING = ("stable_baselines3", "sb3_contrib")
"""Packages from which the class of a learner may be imported."""
NOISES = ("NormalActionNoise", "OrnsteinUhlenbeckActionNoise")
SCHEDULES = ("ConstantSchedule", "LinearSchedule")
LOADING = "load_from_zip_file, recursive_getattr"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptTask:
    """How the environments of the script are made.

    Attributes:
        id: A registered environment id.
        modules: Modules to import first, which register environments.
        arguments: Arguments of `gymnasium.make`.
        wrappers: Module, class and arguments of each wrapper, the innermost first.
        count: Number of parallel training environments.
        frame_stack: Number of stacked observations; 1: no stacking.
        normalisation: Arguments of `VecNormalize` in training; None: no normalisation.
    """

    id: str
    modules: tuple[str, ...]
    arguments: Mapping[str, Any]
    wrappers: tuple[tuple[str, str, Mapping[str, Any]], ...]
    count: int
    frame_stack: int
    normalisation: Mapping[str, Any] | None

    @property
    def normalises(self) -> bool:
        """Whether observations are normalised in evaluations."""
        return self.normalisation is not None and bool(self.normalisation["norm_obs"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptLearner:
    """How the learner is built.

    Attributes:
        package: One of `LEARNING`.
        name: The class in the package (`PPO`).
        policy: The name of the policy (`MlpPolicy`).
        hyperparameters: Keyword arguments in their order.
        policy_arguments: Keyword arguments of the policy.
        seed: Seed of the policy.
        actions: Seed of the action space, from which random actions are drawn.
        device: Device of the computations.
        explores: Whether the model file contains an exploration rate (DQN).
        masked: Whether the algorithm uses action masks of the environments.
        noisy: Whether the exploration noise depends on the state (gSDE).
        compiled: The algorithm of rlexp whose compiled program trained the policy, which the script
            does not hold; None: the class trains.
    """

    package: str
    name: str
    policy: str
    hyperparameters: Mapping[str, Any]
    policy_arguments: Mapping[str, Any]
    seed: int
    actions: int
    device: str
    explores: bool
    masked: bool
    noisy: bool
    compiled: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All values that the script of one run contains.

    Attributes:
        about: Name, label, task, phase and seed of the run.
        model: Name of the file with the parameters, beside the script.
        statistics: Name of the file with the normalisation statistics.
        evaluation_seeds: One seed for each environment of the final evaluation.
        sampling: Seed of the actions that a stochastic policy samples in that evaluation.
        training_seeds: One seed for each training environment.
        returns: Recorded returns of the final evaluation's episodes.
        lengths: Recorded lengths of these episodes, in steps.
    """

    about: Mapping[str, Any]
    task: ScriptTask
    learner: ScriptLearner
    model: str
    statistics: str
    threads: int
    steps: int
    deterministic: bool
    evaluation_seeds: tuple[int, ...]
    sampling: int
    training_seeds: tuple[int, ...]
    returns: tuple[float, ...]
    lengths: tuple[int, ...]


def render_script(recipe: Recipe) -> str:
    """The source of the script in ASCII; values from records appear only as literals."""
    learner = recipe.learner
    parts = [
        DOCSTRING.format(train=_training_words(learner)),
        "\n".join(_imports(recipe)),
        "\n".join(_constants(recipe)),
        ENVIRONMENTS,
        "\n".join(_build(learner)),
        WEIGHTS.format(
            exploration=_EXPLORATION if learner.explores else "",
            noise=_NOISE if learner.noisy else "",
        ),
        *([STATISTICS] if recipe.task.normalises else []),
        PLAY.format(masks=_MASKS if learner.masked else "", extra=", **masks" * learner.masked),
        MAIN.format(
            model=_model(recipe),
            share=_SHARE if recipe.task.normalises else "",
        ),
    ]
    return "\n\n".join(part.strip("\n") + "\n" for part in parts)


def _training_words(learner: ScriptLearner) -> str:
    """What the docstring says about training anew."""
    return _TRAIN if learner.compiled is None else _NO_TRAIN.format(algorithm=learner.compiled)


def _model(recipe: Recipe) -> str:
    """The lines that build the learner and fill it, or train it."""
    learner = recipe.learner
    loaded = _LOADED.format(
        room=", buffer_size=1" if "buffer_size" in learner.hyperparameters else "",
        read=_READ if recipe.task.normalises else "",
    )
    if learner.compiled is not None:
        return _REFUSED + loaded
    return _TRAINED + indent(loaded, "    ")


_EXPLORATION = """
    with zipfile.ZipFile(MODEL) as archive:
        model.exploration_rate = float(json.loads(archive.read("data"))["exploration_rate"])"""
_NOISE = """
    # The noise was drawn from the untrained standard deviation.
    (getattr(model, "actor", None) or model.policy).reset_noise()"""
_MASKS = """
        playing = np.flatnonzero(left)
        allowed = np.stack(vector.env_method("action_masks", indices=playing.tolist()))
        masks = {"action_masks": np.ones((count, *allowed.shape[1:]), dtype=bool)}
        masks["action_masks"][playing] = allowed"""
_READ = """
    read_statistics(training)"""
_SHARE = """
    unwrap_vec_normalize(vector).obs_rms = unwrap_vec_normalize(training).obs_rms"""


def _constants(recipe: Recipe) -> Iterator[str]:
    task = recipe.task
    yield from lines_of("RUN", recipe.about)
    yield f"MODEL = HERE / {expression(recipe.model)}"
    if task.normalises:
        yield f"NORMALISATION = HERE / {expression(recipe.statistics)}"
    yield ""
    yield from lines_of("MODULES", list(task.modules))
    yield from lines_of("ENVIRONMENT", {"id": task.id, **task.arguments})
    yield from lines_of("WRAPPERS", list(task.wrappers))
    normalisation = task.normalisation
    yield from lines_of("NORMALISE", None if normalisation is None else dict(normalisation))
    yield from lines_of("FRAME_STACK", task.frame_stack)
    yield ""
    yield f"THREADS = {expression(recipe.threads)}"
    yield f"STEPS = {expression(recipe.steps)}"
    yield from lines_of("TRAINING_SEEDS", list(recipe.training_seeds))
    yield from lines_of("EVALUATION_SEEDS", list(recipe.evaluation_seeds))
    yield f"SAMPLING_SEED = {expression(recipe.sampling)}"
    yield f"DETERMINISTIC = {expression(recipe.deterministic)}"
    yield "# What the run recorded."
    yield from lines_of("RETURNS", list(recipe.returns))
    yield f"LENGTHS = {expression(list(recipe.lengths))}"


def _build(learner: ScriptLearner) -> Iterator[str]:
    """The source of the function `build`, which calls the class with keyword arguments."""
    values = dict(learner.hyperparameters)
    room = ""
    # A parameter of `build`, because an evaluation needs no buffer: a full one can take gigabytes.
    if "buffer_size" in values:
        room = f", buffer_size={expression(values['buffer_size'])}"
        values["buffer_size"] = Expression("buffer_size")
    yield f"def build(environment{room}):"
    yield '    """An untrained learner with the hyperparameters of the run."""'
    if "shape" in _sources(values):
        yield "    shape = environment.action_space.shape or ()"
    yield f"    learner = {learner.name}("
    yield f"        {expression(learner.policy)},"
    yield "        environment,"
    for name, value in values.items():
        yield f"        {name}={expression(value)},"
    yield f"        policy_kwargs={expression(learner.policy_arguments)},"
    yield f"        seed={expression(learner.seed)},"
    yield f"        device={expression(learner.device)},"
    yield "    )"
    yield f"    learner.action_space.seed({expression(learner.actions)})"
    yield "    return learner"


def _imports(recipe: Recipe) -> Iterator[str]:
    """The import statements for the names that the script uses."""
    learner, task = recipe.learner, recipe.task
    used = _sources(learner.hyperparameters) + _sources(learner.policy_arguments)
    yield from (f"import {name}" for name in (*(["json"] * learner.explores), "math", "random"))
    yield from (f"import {name}" for name in ("sys", *(["zipfile"] * learner.explores)))
    yield "from importlib import import_module"
    yield "from pathlib import Path"
    yield ""
    yield "import gymnasium as gym"
    yield "import numpy as np"
    yield "import torch"
    yield f"from {learner.package} import {learner.name}"
    yield from _import_used("stable_baselines3.common.noise", NOISES, used)
    yield f"from stable_baselines3.common.save_util import {LOADING}"
    yield from _import_used("stable_baselines3.common.utils", SCHEDULES, used)
    vectors = "DummyVecEnv, VecFrameStack, VecNormalize"
    unwrap = ", unwrap_vec_normalize" if task.normalises else ""
    yield f"from stable_baselines3.common.vec_env import {vectors}{unwrap}"
    # `_import_used` searches for `name(`, but torch's classes are written as `nn.NAME`.
    yield from _import_used("torch", ("nn",), used.replace("nn.", "nn("))
    yield ""
    yield "HERE = Path(__file__).resolve().parent"


def _import_used(module: str, names: Iterable[str], used: str) -> Iterator[str]:
    if used_names := [name for name in names if f"{name}(" in used]:
        yield f"from {module} import {', '.join(used_names)}"


def _sources(values: Mapping[str, Any]) -> str:
    """The source of all values that are expressions."""
    return " ".join(v.source for v in values.values() if isinstance(v, Expression))
