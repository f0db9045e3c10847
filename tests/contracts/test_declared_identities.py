"""Every packaged plug-in that defines a run, or a search, declares its identity."""

import re
from dataclasses import fields

import pytest
from members import CONF, target

from rlexp.protocol.identity import Identity

FAMILIES = {
    "agent": "agents",
    "algorithm": "algorithms",
    "environment": "environments",
    "component": "components",
    "teacher": "components.teachers",
    "tuner": "tuners",
    "pruner": "pruners",
}
"""Where the classes of a group are."""


def classes(group: str) -> set[type]:
    """The classes of a group that any yaml names."""
    home = re.escape(f"rlexp.{FAMILIES[group]}.")
    named = re.compile(rf"_target_: ({home}\w+\.\w+)$", re.MULTILINE)
    texts = (path.read_text() for path in CONF.rglob("*.yaml"))
    return {target(path) for text in texts for path in named.findall(text)}


@pytest.mark.parametrize("group", FAMILIES)
def test_every_class_declares_its_identity(group: str) -> None:
    """Identities are distinct in each group, and excluded settings exist."""
    identities: dict[type, Identity] = {kind: vars(kind)["identity"] for kind in classes(group)}
    assert {group} == {identity.group for identity in identities.values()}
    assert len(identities) == len({identity.name for identity in identities.values()})
    for kind, identity in identities.items():
        settings = {field.name for field in fields(kind)}
        assert settings >= set(identity.excluded)
