"""Every packaged plug-in that defines a run, or a search, declares its identity."""

import re
from dataclasses import fields

import pytest
from members import CONF, target

from rlexp.protocol.identity import Identity

FAMILIES = {
    "agent": "agents",
    "algorithm": "algorithms",
    "dataset": "datasets",
    "environment": "environments",
    "callback": "callbacks",
    "component": "components",
    "replay": "replay",
    "teacher": "components.teachers",
    "tuner": "tuners",
    "pruner": "pruners",
}
"""The package of the classes of each group."""


def classes(group: str) -> set[type]:
    """The classes of a group that any yaml names."""
    module_prefix = re.escape(f"rlexp.{FAMILIES[group]}.")
    target_pattern = re.compile(rf"_target_: ({module_prefix}\w+\.\w+)$", re.MULTILINE)
    texts = (path.read_text() for path in CONF.rglob("*.yaml"))
    return {target(path) for text in texts for path in target_pattern.findall(text)}


@pytest.mark.parametrize("group", FAMILIES)
def test_every_class_declares_its_identity(group: str) -> None:
    """The identities in each group are distinct, and the settings that they exclude exist."""
    identities: dict[type, Identity] = {kind: vars(kind)["identity"] for kind in classes(group)}
    assert {group} == {identity.group for identity in identities.values()}
    assert len(identities) == len({identity.name for identity in identities.values()})
    for kind, identity in identities.items():
        settings = {field.name for field in fields(kind)}
        assert settings >= set(identity.excluded)
