"""Chooses PyYAML's parser: the compiled one for packaged files, which is several times as fast.

The parser in Python reads the files of users: its messages say more about mistakes, and it refuses
endless depth where the compiled one would crash. It also reads what the compiled one refuses, and
everything where PyYAML was built without the compiled one.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

Result = TypeVar("Result")


def parsed(read: Callable[[Any], Result], *, packaged: bool) -> Result:
    """What `read` returns, which gets the class of a loader.

    Args:
        read: Parses with that loader.
        packaged: Whether the text comes from a packaged file.
    """
    import yaml

    if packaged and yaml.__with_libyaml__:
        with suppress(yaml.YAMLError, ValueError):
            return read(yaml.CSafeLoader)
    return read(yaml.SafeLoader)


def packaged_configuration(text: str) -> Any:
    """The mapping in a packaged file as OmegaConf holds it; None where OmegaConf must read it itself."""
    import yaml
    from omegaconf import OmegaConf

    if not yaml.__with_libyaml__:
        return None
    with suppress(yaml.YAMLError, ValueError):
        content = yaml.load(text, Loader=_configuration_loader())  # noqa: S506 a safe loader
        return OmegaConf.create(content) if isinstance(content, dict) else None
    return None


@cache
def _configuration_loader() -> Any:
    """OmegaConf's loader, which reads 1e5 as a number and refuses a key that stands twice."""
    import yaml
    from omegaconf._utils import get_yaml_loader

    rules = get_yaml_loader()
    names = ("yaml_constructors", "yaml_implicit_resolvers")
    return type(
        "Loader", (yaml.CSafeLoader, rules), {name: getattr(rules, name) for name in names}
    )
