"""Study files: what each section means, which words win, and every mistake with its line."""

from pathlib import Path

import pytest
from quick_parts import quick_yaml

from rlexp.config.compose import compose_words
from rlexp.config.study_file import is_study_file, read_study, read_sweep_words, read_words
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_yaml)


def written(folder: Path, text: str) -> Path:
    """A folder with a study file `s.yaml`."""
    (folder / "s.yaml").write_text(text)
    return folder


def words(folder: Path, text: str, *typed: str) -> dict[str | None, list[str]]:
    """The overrides of each variant of a study file, by label."""
    read = read_words(["s.yaml", *typed], written(folder, text))
    return {variant.label: list(variant.overrides) for variant in read}


def refusal(folder: Path, text: str, *typed: str) -> str:
    """The error about a study file, which must be one line."""
    with pytest.raises(ConfigError) as caught:
        compose_words(["s.yaml", *typed], written(folder, text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: first", ["experiment=first"]),
        ("name: a b", ["experiment='a b'"]),
        ("name: 12", ["experiment='12'"]),
        ("words: [algorithm=a2c, budget.steps=500]", ["algorithm=a2c", "budget.steps=500"]),
        ("words: algorithm=a2c agent.network=[8,8]", ["algorithm=a2c", "agent.network=[8,8]"]),
        ("words:\n- agent.network=[8,8]", ["agent.network=[8,8]"]),
        ("words: {algorithm: a2c, algorithm.gamma: 0.9}", ["algorithm=a2c", "algorithm.gamma=0.9"]),
        ("words: {agent: {network: [8, 8]}}", ["agent.network=[8,8]"]),
        ("words: {environment.arguments.g: 1}", ["++environment.arguments.g=1"]),
        ("seeds: 4", ["seeds.test=4"]),
        ("seeds: [1, 5]", ["seeds.test=[1,5]"]),
        ("words: [phase=tuning]\nseeds: 4", ["phase=tuning", "seeds.tuning=4"]),
        ("seeds: {test: 4, root: 1}", ["seeds.test=4", "seeds.root=1"]),
        ("budget: 2e4", ["budget.steps=20000.0"]),
        ("budget: {steps: 500, evaluation_every: null}",
         ["budget.steps=500", "budget.evaluation_every=null"]),
        ("trackers: [mlflow, wandb]", ["tracker=[mlflow,wandb]"]),
        ("trackers: mlflow", ["tracker=[mlflow]"]),
        ("trackers: {mlflow: {timeout: 3}}", ["tracker=[mlflow]", "tracker.mlflow.timeout=3"]),
        ("trackers: []\nname: x", ["experiment=x", "tracker=[]"]),
        ("name: x\nwords:\nvariants:", ["experiment=x"]),
    ],
)  # fmt: skip
def test_a_section_stands_for_words(tmp_path: Path, text: str, expected: list[str]) -> None:
    """Each section of a study file gives the words that would be typed."""
    assert {None: expected} == words(tmp_path, text)


VARIANTS = """\
words: [environment=acrobot, algorithm.gamma=0.9]
variants:
  slow: [algorithm.gamma=0.99]
  usual:
"""


def test_a_variant_wins_over_shared_words(tmp_path: Path) -> None:
    """A variant has the shared words, and its own word of a key takes the place of a shared one."""
    assert {
        "slow": ["environment=acrobot", "algorithm.gamma=0.99"],
        "usual": ["environment=acrobot", "algorithm.gamma=0.9"],
    } == words(tmp_path, VARIANTS)


def test_the_command_wins_over_the_file(tmp_path: Path) -> None:
    """Words of the command take the place of those of the file, also in variants."""
    typed = ("algorithm.gamma=0.5", "seeds.test=1")
    variants = words(tmp_path, VARIANTS, *typed)
    assert [["environment=acrobot", *typed]] * 2 == list(variants.values())
    for composed in compose_words(["s.yaml", *typed], tmp_path):
        assert 0.5 == composed.plain["algorithm"]["gamma"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("tracker=[]", ["tracker=[]"]),
        ("tracker=[wandb]", ["tracker=[wandb]"]),
        ("tracker=[mlflow,wandb]", ["tracker.mlflow.timeout=3", "tracker=[mlflow,wandb]"]),
    ],
)
def test_settings_of_a_dropped_tracker_are_dropped(
    tmp_path: Path, typed: str, expected: list[str]
) -> None:
    """Where the command chooses other trackers, settings of the others do not stay behind."""
    assert {None: expected} == words(tmp_path, "trackers: {mlflow: {timeout: 3}}", typed)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("nmae: x\n", ["s.yaml, line 1: unknown key 'nmae'; did you mean 'name'? (there are:"]),
        ("name: x\nseeds:\n  tset: 3\n", ["line 3: unknown key 'seeds.tset'; did you mean 'test'?"]),
        ("budget: {stesp: 3}\n", ["line 1: unknown key 'budget.stesp'; did you mean 'steps'?"]),
        ("a: 1\nb: 2\nseeds: {c: 3}\n", ["line 1: unk", "line 2: unk", "line 3: unknown key 'seeds.c'"]),
        ("name: [a]\n", ["line 1: name: write the experiment's name"]),
        ("words: 3\n", ["line 1: words: write a list of words"]),
        ("words: [1, algorithm=ppo]\n", ["line 1: words.0: 1 is no word"]),
        ("words: \"a 'b\"\n", ["line 1: words: No closing quotation"]),
        ("words:\n- lr=0.1\n- seeds=2\n", ["line 2: unknown key 'lr': type algorithm.l", "line 3: seeds=2"]),
        ("words: [algorithm=ppo,a2c]\n", ["'a2c'", "a word with a comma needs quotes in brackets"]),
        ("variants: [a]\n", ["line 1: variants: write labels with their words"]),
        ("variants: {}\n", ["line 1: variants: write labels"]),
        ("variants:\n  a: 5\n", ["line 2: variants.a: write a list of words"]),
        ("trackers: 3\n", ["line 1: trackers: write a list of trackers"]),
        ("trackers: [[a]]\n", ["line 1: trackers: write a list of trackers"]),
        ("sweep: [1]\n", ["line 1: sweep: write settings of a sweep"]),
        ("sweep: {trails: 3}\n", ["line 1: unknown key 'sweep.trails'; did you mean 'trials'?"]),
        ("name: a\nname: b\n", ["s.yaml has the key 'name' twice"]),
        ("name: [a\n", ["s.yaml is not yaml: line 2: expected a comma or ]"]),
        ("trackers: {mlflow: 3}\n", ["line 1: trackers.mlflow: write settings of the tracker"]),
        ("sweep: {definition: 5}\n", ["line 1: sweep.definition: write the name of a sweep"]),
        ("sweep: {definition: [a]}\n", ["line 1: sweep.definition: write the name of a sweep"]),
        ("5\n", ["s.yaml is no study file"]),
        ("a b\n", ["s.yaml is no study file"]),
        ("- a\n", ["s.yaml is no study file"]),
        ("", ["s.yaml is no study file"]),
        ("defaults: [a]\n", ["s.yaml has a defaults list"]),
        ("words: [algorithm.gama=0.1]\n", ["s.yaml, line 1: unknown key 'algorithm.gama'"]),
        ("words:\n- algorithm.gama=0.1\nvariants:\n  a:\n  - agent.netwrk=[8]\n",
         ["s.yaml, line 2: unknown key 'algorithm.gama'", "s.yaml, line 5: unknown key 'agent.netwrk'"]),
        ("words: [budget.steps=1, budget.steps=2]\n", ["line 1: budget.steps has two values"]),
        ("words: [budget.steps=1]\nbudget: {steps: 2}\n", ["budget.steps has two values"]),
        ("sweep: quick\n", ["s.yaml, line 1: this study is a sweep: type rlexp sweep s.yaml"]),
    ],
)  # fmt: skip
def test_every_mistake_is_named_with_its_line(
    tmp_path: Path, text: str, messages: list[str]
) -> None:
    """All mistakes of a study file are on one line, each with the line on which it stands."""
    message = refusal(tmp_path, text)
    assert all(part in message for part in messages), message


def test_a_mistake_of_the_command_has_no_line(tmp_path: Path) -> None:
    """A wrong word of the command is not blamed on the file."""
    message = refusal(tmp_path, "words: [algorithm.gamma=0.9]\n", "algorithm.gama=0.1")
    assert message.startswith("unknown key 'algorithm.gama'")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.yaml", "does not exist; write one with: rlexp init --study none.yaml"),
        ("folder.yaml", "is a folder; write one with"),
        ("quick.yaml", "is a sweep definition: type rlexp sweep quick"),
        ("sweeps/quick.yml", "is a sweep definition: type rlexp sweep quick"),
    ],
)
def test_a_file_that_is_no_study_is_refused(tmp_path: Path, path: str, message: str) -> None:
    """A path that leads to no study file is refused with what to type."""
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(ConfigError, match=message):
        read_study(path, tmp_path)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("s.yaml", True), ("a/b.YML", True), ("quick", False), ("a=b.yaml", False), (".yaml", False)],
)
def test_a_study_file_is_known_by_its_ending(word: str, *, expected: bool) -> None:
    """A word that ends like a yaml file and sets no key names a study file."""
    assert expected is is_study_file(word)


SWEEP = """\
words: [environment=cartpole, tuner=random]
sweep:
  definition: quick
  trials: 3
  space:
    algorithm.gamma: [0.9, 0.99]
    algorithm:
      n_steps: choice(64, 128)
      tau: {values: "0.1,0.2", when: {algorithm.n_steps: 64}}
"""


def test_the_space_of_a_sweep_is_written_as_words(tmp_path: Path) -> None:
    """The section `sweep` gives a definition, and a word for each setting and parameter."""
    definition, merged = read_sweep_words("s.yaml", ["sweep.trials=9"], written(tmp_path, SWEEP))
    assert "quick" == definition
    assert (
        "environment=cartpole",
        "tuner=random",
        "sweep.space.algorithm.gamma=[0.9,0.99]",
        "sweep.space.algorithm.n_steps='choice(64, 128)'",
        "++sweep.space.algorithm.tau={values:'0.1,0.2',when:{algorithm.n_steps:64}}",
        "sweep.trials=9",
    ) == merged.overrides


def test_a_sweep_has_no_variants(tmp_path: Path) -> None:
    """The study file of a sweep cannot have variants; the error gives the command for them."""
    with pytest.raises(ConfigError, match=r"line 2: a sweep .* type rlexp run s\.yaml x=1"):
        read_sweep_words("s.yaml", ["x=1"], written(tmp_path, VARIANTS))
