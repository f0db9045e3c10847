"""An ablation: which changes between two configurations are judged, fixed before its first run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from rlexp.protocol.identity import digest

Contrast = tuple[str, str]
"""The label with the new value of a parameter, then the label with the old one."""

AblationKind = Literal["each", "path", "commits"]
"""`each`: every change is left out of all, and added alone. `path`: changes are added in turn.
`commits`: each commit is compared with the one before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AblatedChange:
    """One change between the two configurations, and the contrasts that judge it.

    Attributes:
        name: Its short name (`learning_rate`, or the beginning of a commit).
        old: The value of each of its keys in the first configuration; null where a key has none.
        new: The value of each of its keys in the second configuration. Keys move together where a
            parameter exists only under the value of another.
        importance: Its share in the importance of the sweep's parameters, from tuning trials only;
            null where it is unknown.
        left_out: The second configuration, against the second without the change; null if there is
            no such contrast.
        added: The first configuration with the change, against the first; null likewise.
        step: The step of a path that adds the change, against the step before it; null likewise.
        remark: Why a contrast is missing; null without a reason.
    """

    name: str
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    importance: float | None = None
    left_out: Contrast | None = None
    added: Contrast | None = None
    step: Contrast | None = None
    remark: str | None = None

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The contrasts that exist."""
        every = (self.left_out, self.added, self.step)
        return tuple(contrast for contrast in every if contrast is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """The content of `ablation.json`: what is compared to learn which change did it.

    Attributes:
        kind: How changes are judged.
        total: The second configuration against the first.
        changes: The changes, in the order of the path or of their names.
        order: How the order of a path was found, in words; null without a path.
        source: Where the configurations come from, as texts by name (`sweep`, `selection`).
        command: The command that continues the ablation.
    """

    kind: AblationKind
    total: Contrast
    changes: tuple[AblatedChange, ...]
    order: str | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """Every contrast once, the total first."""
        rest = [contrast for change in self.changes for contrast in change.contrasts]
        # With a single change, every contrast is the total.
        return tuple(dict.fromkeys([self.total, *rest]))

    def plain(self) -> dict[str, Any]:
        """The content of the file."""
        return asdict(self)

    @property
    def question(self) -> dict[str, Any]:
        """What must not change between two commands of an ablation."""
        return {key: value for key, value in self.plain().items() if key != "command"}

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> Self:
        """The ablation of a mapping of JSON values; the inverse of `plain`.

        Raises:
            KeyError: A field is missing.
            TypeError: A field is of another type.
            ValueError: A contrast does not have two labels.
        """
        changes = []
        for change in mapping["changes"]:
            contrasts = {name: _contrast(change[name]) for name in ("left_out", "added", "step")}
            changes.append(AblatedChange(**{**change, **contrasts}))
        total = _contrast(mapping["total"])
        if total is None:
            raise TypeError("the total is null")
        return cls(
            kind=mapping["kind"],
            total=total,
            changes=tuple(changes),
            order=mapping["order"],
            source=mapping["source"],
            command=tuple(map(str, mapping["command"])),
        )


def _contrast(value: Any) -> Contrast | None:
    if value is None:
        return None
    first, second = map(str, value)
    return first, second


PURPOSE = "root of an ablation"
"""A part of what is hashed, so that no other hash of the same values is this root."""
DIGITS = 12
"""Hexadecimal digits of a root: 48 bits, which every JSON reader keeps exactly."""


def root_of_ablation(old: str, new: str, root: int) -> int:
    """The root of the test seeds of an ablation, which nothing was chosen on.

    Args:
        old: The fingerprint of the first configuration.
        new: The fingerprint of the second configuration.
        root: The root of the seeds with which they were trained before.
    """
    return int(digest([PURPOSE, old, new, root])[:DIGITS], 16)
