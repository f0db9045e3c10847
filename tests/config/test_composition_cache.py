"""The cache of compositions: it saves Hydra's work, and it is never stale."""

import json
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from composing import compose_one
from samples import write_tree

from rlexp.config import composition_cache
from rlexp.config.compose import compose
from rlexp.config.config_files import packaged_root
from rlexp.config.sweep import compose_sweep
from rlexp.errors import ConfigError

MINE = "defaults: [ppo, _self_]\nn_steps: {}\n"
WORDS = ("algorithm=mine",)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study with an algorithm; the user's cache is empty."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    study = tmp_path / "study"
    write_tree(study, {"conf/algorithm/mine.yaml": MINE.format(64)})
    return study


def entries(folder: Path) -> list[Path]:
    """The files of the cache."""
    return sorted((folder.parent / "home/rlexp/compositions").glob("*.json"))


def mark_entries(folder: Path) -> None:
    """Change the number of steps in every entry, so that its use shows."""
    assert entries(folder)
    for path in entries(folder):
        path.write_text(path.read_text().replace('"n_steps": 64', '"n_steps": 99'))


def n_steps(folder: Path, *words: str) -> Any:
    """The steps that these words compose."""
    return compose_one(folder, *(words or WORDS))["algorithm"]["n_steps"]


def test_a_composition_is_read_from_the_cache(folder: Path) -> None:
    """The second composition of the same words comes from the cache."""
    assert 64 == n_steps(folder)
    mark_entries(folder)
    assert 99 == n_steps(folder)


def test_the_cache_gives_what_hydra_gives(folder: Path) -> None:
    """A grid, a matrix and a sweep are the same from the cache and without it."""
    grid = ["algorithm=mine,a2c", "algorithm.gamma=0.9,1.0"]
    matrix = ["+benchmark=classic_control", "algorithm=ppo"]
    for words in (grid, matrix):
        first = compose(words, folder)
        assert first == compose(words, folder)
        assert len(first) > 1
    sweep = ["algorithm.learning_rate=interval(0.001,0.1)", "sweep.trials=3"]
    made, again = (compose_sweep(None, sweep, folder) for _ in range(2))
    assert (made.plain, made.space, made.tuner) == (again.plain, again.space, again.tuner)


def edit(folder: Path) -> None:
    """Change the value in a file to another one of the same length."""
    (folder / "conf/algorithm/mine.yaml").write_text(MINE.format(32))


def edit_unread(folder: Path) -> None:
    """Add a file that the composition does not use."""
    write_tree(folder, {"conf/agent/other.yaml": "x: 1\n"})


def shadow(folder: Path) -> None:
    """Add a file that replaces a packaged one: the defaults list of `mine` names `ppo`."""
    write_tree(folder, {"conf/algorithm/ppo.yaml": "n_steps: 1\n"})


def shadow_primary(folder: Path) -> None:
    """Add a file that replaces the packaged defaults."""
    packaged = packaged_root() / "conf/config.yaml"
    write_tree(folder, {"conf/config.yaml": packaged.read_text()})


@pytest.mark.parametrize("change", [edit, edit_unread, shadow, shadow_primary])
def test_a_changed_study_is_composed_again(folder: Path, change: Any) -> None:
    """An edited file, and a new one in any place, make the entry useless."""
    n_steps(folder)
    mark_entries(folder)
    change(folder)
    assert n_steps(folder) in {64, 32}


def test_an_edit_that_is_taken_back_gives_the_first_value(folder: Path) -> None:
    """The value follows the content of the file, forth and back."""
    found = [n_steps(folder)]
    for steps in (32, 64, 32):
        (folder / "conf/algorithm/mine.yaml").write_text(MINE.format(steps))
        found.append(n_steps(folder))
    assert [64, 32, 64, 32] == found


def test_a_new_folder_outside_of_conf_is_seen(folder: Path) -> None:
    """A folder beside `conf/` makes a key the name of a group: Hydra asked for that folder."""
    words = ("+algorithm.settings.x=y",)
    assert "y" == compose_one(folder, *words)["algorithm"]["settings"]["x"]
    document = json.loads(entries(folder)[0].read_text())
    question = f"folder {folder / 'algorithm.settings.x'}"
    assert document["answers"][question] is False
    mark = document | {"value": []}
    entries(folder)[0].write_text(json.dumps(mark))
    assert [] == compose(words, folder)
    Path(question.removeprefix("folder ")).mkdir()
    with pytest.raises(ConfigError, match=r"there is no algorithm\.settings"):
        compose(words, folder)


@pytest.mark.parametrize("package", composition_cache.PACKAGES)
def test_another_version_composes_again(
    folder: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry of another version of rlexp or of a package that composes is not used."""
    n_steps(folder)
    mark_entries(folder)
    real = metadata.version

    def changed(name: str) -> str:
        return "0.0.0" if name == package else real(name)

    monkeypatch.setattr("rlexp.config.composition_cache.version", changed)
    assert 64 == n_steps(folder)


def test_changed_code_composes_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that other code of rlexp made is not used."""
    n_steps(folder)
    mark_entries(folder)
    monkeypatch.setattr(composition_cache, "CODE", ("protocol",))
    assert 64 == n_steps(folder)


def test_an_edit_while_composing_leaves_no_entry(folder: Path) -> None:
    """A file that changes and changes back between two looks at it is noticed by its times."""
    file = folder / "conf/algorithm/mine.yaml"

    def edit_meanwhile(reading: Any) -> Any:
        time.sleep(0.01)
        file.write_text(MINE.format(32))
        file.write_text(MINE.format(64))
        return {"n_steps": 32}

    composition_cache.compose_once("run", WORDS, folder, edit_meanwhile)
    assert [] == entries(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: ${oc.env:HOME}\n", ()),
        ("name: ${now:%S}\n", ()),
        ("name: mine\n", ("environment.arguments.x=${oc.env:HOME}",)),
        ("name: mine\narguments: {token: xYz12AbQ9Lk20WmVe83Fh}\n", ()),
        ("name: .nan\n", ()),
        ("arguments: {1: a}\n", ()),
    ],
)
def test_what_may_differ_tomorrow_is_not_kept(
    folder: Path, text: str, words: tuple[str, ...]
) -> None:
    """The environment, the clock, secrets, and values that JSON would change are not cached."""
    content = f"defaults: [cartpole, _self_]\n{text}"
    write_tree(folder, {"conf/environment/mine.yaml": "defaults: [cartpole, _self_]\nname: x\n"})
    compose(["environment=mine"], folder)
    (kept,) = entries(folder)
    kept.unlink()
    write_tree(folder, {"conf/environment/mine.yaml": content})
    compose(["environment=mine", *words], folder)
    assert [] == entries(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"of": 1}', "[" * 200])
def test_a_damaged_entry_is_ignored(folder: Path, content: str) -> None:
    """An entry that cannot be read is composed and written again."""
    n_steps(folder)
    (entry,) = entries(folder)
    before = entry.read_text()
    entry.write_text(content)
    assert 64 == n_steps(folder)
    assert before == entry.read_text()


def test_the_cache_stays_small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest entries make room for new ones."""
    monkeypatch.setattr(composition_cache, "MOST_ENTRIES", 2)
    for seeds in range(1, 5):
        compose([f"seeds.test={seeds}"], folder)
    assert 2 == len(entries(folder))


def test_a_cache_that_cannot_be_written_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a writable home folder, every command composes."""
    monkeypatch.setenv("RLEXP_HOME", "/dev/null")
    assert [64, 64] == [n_steps(folder), n_steps(folder)]
