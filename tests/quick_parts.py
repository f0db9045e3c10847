"""Speeds up slow steps that tests of commands repeat but do not test."""

import os
import re
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra._internal.config_repository import ConfigRepository
from hydra.core.object_type import ObjectType

from rlexp.config.config_files import packaged_root

ROOT = re.compile(r"'file://([^'\\]+)'")
_compose = hydra.compose
_load = ConfigRepository.load_config
_files: dict[tuple[str, str], Any] = {}
_remembered: dict[tuple[Any, ...], Any] = {}


def quick_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose equal overrides only once, and skip fsync."""
    quick_yaml(monkeypatch)
    monkeypatch.setattr(hydra, "compose", _compose_once)
    monkeypatch.setattr(os, "fsync", lambda _: None)


def quick_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse each packaged YAML file once; files of workspaces are read each time."""
    monkeypatch.setattr(ConfigRepository, "load_config", _load_once)


def _load_once(repository: ConfigRepository, config_path: str) -> Any:
    source = repository._find_object_source(config_path, ObjectType.CONFIG)
    location = "" if source is None else source.full_path()
    if not location.startswith(("pkg://", "structured://", f"file://{packaged_root()}/")):
        return _load(repository, config_path)
    key = (location, config_path)
    if key not in _files:
        _files[key] = _load(repository, config_path)
    return deepcopy(_files[key])


def _compose_once(
    entry: str, overrides: Sequence[str], *, return_hydra_config: bool = False
) -> Any:
    path, *words = overrides
    packaged = packaged_root()
    roots = {Path(root) for root in ROOT.findall(path)} - {packaged, packaged / "conf"}
    if path.count("file://") > len(ROOT.findall(path)) or any(map(_may_change, roots)):
        return _compose(entry, overrides=list(overrides), return_hydra_config=return_hydra_config)
    files = [(p, root) for root in roots for p in sorted(root.glob("sweeps/**/*")) if p.is_file()]
    sweeps = tuple((str(p.relative_to(root)), p.read_bytes()) for p, root in files)
    key = (entry, return_hydra_config, sweeps, *words)
    if key not in _remembered:
        _remembered[key] = _compose(
            entry, overrides=list(overrides), return_hydra_config=return_hydra_config
        )
    return deepcopy(_remembered[key])


def _may_change(study: Path) -> bool:
    """Whether Hydra may read a file of a workspace that is not a sweep definition."""
    paths = [*study.glob("*.yaml"), *study.glob("*/*.yaml")]
    return (study / "conf").exists() or any(path.parent.name != "sweeps" for path in paths)
