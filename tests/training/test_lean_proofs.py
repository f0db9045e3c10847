"""Shortcuts are used only with proved versions, and where their checks pass on this processor."""

import json
from pathlib import Path

import pytest
import torch
from gymnasium import spaces
from in_full import LOWEST_VERSIONS
from stable_baselines3.common.policies import ActorCriticPolicy

from rlexp.app.diagnostics.installation import describe_shortcuts
from rlexp.training.lean import checks, classic_control, optimisers, ppo_update
from rlexp.training.lean.actor_critic import Categorical, actor_critic_of
from rlexp.training.lean.proofs import installed_versions, read_passed, usable_shortcuts
from rlexp.training.lean.registry import (
    CLASSIC_CONTROL,
    MODE,
    OPTIMISER,
    POLICY,
    PPO_UPDATE,
    PREDICTION,
    PROVED_VERSIONS,
    SHORTCUTS,
)

PROVED = {name: versions[0] for name, versions in PROVED_VERSIONS.items()}
ALL = {each.name for each in SHORTCUTS}


@pytest.mark.skipif(LOWEST_VERSIONS, reason="the lowest allowed versions are not proved")
def test_the_installed_versions_are_proved() -> None:
    """The versions with which the tests run are those that the registry names."""
    installed = {k: v.partition("+")[0] for k, v in installed_versions().items()}
    assert all(installed[name] in versions for name, versions in PROVED_VERSIONS.items())


@pytest.mark.skipif(not LOWEST_VERSIONS, reason="needs other packages: make test-lowest")
def test_the_lowest_versions_fall_back_to_the_library(tmp_path: Path) -> None:
    """With the lowest allowed versions, no shortcut is used, and the installation check says why."""
    installed, cache = installed_versions(), tmp_path / "cache.json"
    assert not usable_shortcuts(cache, "some processor", installed)
    text = describe_shortcuts(installed, read_passed(cache, "some processor", installed)).detail
    assert text.startswith("in use unless compute.lean=false: none; nothing is proved yet with")
    assert all(f"{name} {version}" in text for name, version in installed.items())
    assert "runs use the library's code there, with the same numbers" in text


def test_every_check_passes_here(tmp_path: Path) -> None:
    """All shortcuts compute equal bits on this processor, and leave the generators as they were."""
    before = torch.get_rng_state()
    assert ALL == usable_shortcuts(tmp_path / "cache.json", "some processor", PROVED)
    assert torch.equal(before, torch.get_rng_state())


def test_a_new_version_falls_back_to_the_library(tmp_path: Path) -> None:
    """With an unknown version of NumPy, only shortcuts that do without NumPy are used."""
    installed = {**PROVED, "numpy": "9.9.9"}
    cache = tmp_path / "cache.json"
    assert {POLICY, MODE, OPTIMISER} == usable_shortcuts(cache, "some processor", installed)
    text = describe_shortcuts(installed, {POLICY, MODE, OPTIMISER}).detail
    assert "nothing is proved yet with numpy 9.9.9, only with numpy 2" in text


def test_a_build_of_a_proved_version_is_proved() -> None:
    """The build of torch for the CPU counts as its version."""
    text = describe_shortcuts({**PROVED, "torch": f"{PROVED['torch']}+cpu"}, ALL).detail
    assert "nothing is proved" not in text


def test_results_of_checks_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks run once for each processor; a failed check is remembered, too."""
    asked: list[object] = []

    def passed_checks(names: list[str]) -> frozenset[str]:
        asked.append(names)
        return frozenset({POLICY})

    monkeypatch.setattr(checks, "passed_checks", passed_checks)
    cache = tmp_path / "folder" / "cache.json"
    results = [usable_shortcuts(cache, name, PROVED) for name in ("one", "one", "another")]
    assert [{POLICY}] * 3 == results
    assert 2 == len(asked)


@pytest.mark.parametrize("content", ["{", "[]", '{"x": 5}'])
def test_a_damaged_cache_is_replaced(content: str, tmp_path: Path) -> None:
    """A cache that cannot be read gives way to the results of new checks."""
    cache = tmp_path / "cache.json"
    cache.write_text(content)
    assert ALL == usable_shortcuts(cache, "some processor", PROVED)
    assert [sorted(ALL)] == list(json.loads(cache.read_text()).values())


def test_no_folder_for_the_cache_is_no_fault() -> None:
    """Where nothing can be written, the shortcuts are checked and used."""
    assert ALL == usable_shortcuts(Path("/dev/null/cache.json"), "some processor", PROVED)


def test_a_shortcut_that_computes_other_bits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of each shortcut notices a last bit that differs."""
    with monkeypatch.context() as broken:
        probabilities = Categorical.entropy
        broken.setattr(Categorical, "entropy", lambda s, p: probabilities(s, p) * (1 + 1e-6))
        assert {PREDICTION} == checks.passed_checks([POLICY, PREDICTION])
    with monkeypatch.context() as broken:
        broken.setattr(optimisers, "_adam", optimisers._rmsprop)
        assert not checks.passed_checks([OPTIMISER])
    with monkeypatch.context() as broken:
        broken.setattr(ppo_update, "clip_gradients", lambda *_: None)
        assert not checks.passed_checks([PPO_UPDATE])
    with monkeypatch.context() as broken:
        broken.setattr(classic_control, "_power_of_two", lambda x: x * x * (1 + 1e-15))
        assert not checks.passed_checks([CLASSIC_CONTROL])


class Scaled(ActorCriticPolicy):
    """A policy of a user that acts in its own way."""


def test_subclasses_of_policies_keep_their_own_methods() -> None:
    """A subclass of the policy gets no shortcut, whatever its methods do."""
    parts = (spaces.Box(-1, 1, (3,)), spaces.Discrete(2), lambda _: 1e-3)
    assert actor_critic_of(Scaled(*parts)) is None
    assert actor_critic_of(ActorCriticPolicy(*parts)) is not None
