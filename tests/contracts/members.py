"""The members of a plug-in family, as their yamls in `conf/` name them."""

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rlexp.config.validate import build

CONF = Path(__file__).parents[2] / "conf"


def names(group: str) -> list[str]:
    """The names of all yamls of a group."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


@cache
def _composed(group: str) -> dict[str, str]:
    """Every yaml of the group as JSON, from one composition of all of them."""
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose(overrides=[f"+{group}@of_{name}={name}" for name in names(group)])
    composed = {}
    for name in names(group):
        values: Any = OmegaConf.to_container(config[f"of_{name}"])
        # In a group that allows several choices, a yaml holds its values under its name.
        composed[name] = json.dumps(values if "_target_" in values else values[name])
    return composed


def settings(group: str, name: str, /, **changes: Any) -> dict[str, Any]:
    """The values of a yaml, its `_target_` included, with changes."""
    values: dict[str, Any] = json.loads(_composed(group)[name])
    return {**values, **changes}


def target(path: str) -> type[Any]:
    """The class that a `_target_` names."""
    module, _, name = path.rpartition(".")
    kind: type[Any] = getattr(import_module(module), name)
    return kind


def member(group: str, name: str, /, **changes: Any) -> Any:
    """The member that a yaml describes, validated and built as rlexp does it."""
    return build(settings(group, name, **changes), group)
