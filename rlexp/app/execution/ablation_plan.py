"""Plans an ablation: which configurations between two others are trained, and what is compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlexp.app.execution.ablated_configurations import Change, Endpoints
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.records.ablation import AblatedChange, Ablation

MOST_EACH = 5
"""Most changes that are left out and added one by one; more are added along a path."""


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """An ablation, and the configurations that it trains."""

    ablation: Ablation
    configurations: tuple[Configuration, ...]


@dataclass(slots=True)
class _Variants:
    """The configurations so far, by fingerprint, so that equal ones are trained once."""

    endpoints: Endpoints
    by_fingerprint: dict[str, Configuration] = field(default_factory=dict)

    def label(self, taken: Sequence[Change], label: str) -> str:
        """The label of a configuration, which is added where it is new.

        Raises:
            ConfigError: Its settings do not go together.
        """
        configuration = self.endpoints.between(taken, label)
        return self.by_fingerprint.setdefault(configuration.fingerprint, configuration).label


def plan_each(
    endpoints: Endpoints, importance: Mapping[Change, float], source: Mapping[str, str]
) -> AblationPlan:
    """Leave each change out of all, and add each change alone.

    Raises:
        ConfigError: No contrast of a change can be trained.
    """
    variants = _begun(endpoints)
    old, new = endpoints.old.label, endpoints.new.label
    changes = tuple(
        _each(change, endpoints, variants, importance.get(change)) for change in endpoints.changes
    )
    ablation = Ablation(kind="each", total=(new, old), changes=changes, source=source)
    return AblationPlan(ablation, tuple(variants.by_fingerprint.values()))


def plan_path(
    endpoints: Endpoints,
    ordered: Sequence[Change],
    importance: Mapping[Change, float],
    order: str,
    source: Mapping[str, str],
) -> AblationPlan:
    """Add the changes one after another, in an order that was fixed before any test score.

    A step whose settings do not go together is taken together with the next one.

    Args:
        endpoints: The two configurations.
        ordered: The changes in the order of the path.
        importance: The importance of each change, where it is known.
        order: How the order was found, as a sentence.
        source: Where the configurations come from.
    """
    variants = _begun(endpoints)
    before, pending = endpoints.old.label, list[Change]()
    changes: list[AblatedChange] = []
    for number, change in enumerate(ordered, 1):
        pending.append(change)
        name = " + ".join(c.name for c in pending)
        taken = ordered[:number]
        try:
            after = variants.label(taken, f"step {len(changes) + 1} (+ {name})")
        except ConfigError:
            continue
        changes.append(
            AblatedChange(
                name=name,
                old=_merged(endpoints, pending, new=False),
                new=_merged(endpoints, pending, new=True),
                importance=_sum(pending, importance),
                step=(after, before),
                remark=_joined(pending),
            )
        )
        before, pending = after, []
    total = (endpoints.new.label, endpoints.old.label)
    ablation = Ablation(
        kind="path", total=total, changes=tuple(changes), order=order, source=source
    )
    return AblationPlan(ablation, tuple(variants.by_fingerprint.values()))


def _begun(endpoints: Endpoints) -> _Variants:
    ends = (endpoints.new, endpoints.old)
    return _Variants(endpoints, {c.fingerprint: c for c in ends})


def _each(
    change: Change, endpoints: Endpoints, variants: _Variants, importance: float | None
) -> AblatedChange:
    old, new = endpoints.old.label, endpoints.new.label
    rest = [other for other in endpoints.changes if other != change]
    without, problem = _built(variants, rest, f"{new} without {change.name}")
    alone, other_problem = _built(variants, [change], f"{old} with {change.name}")
    remarks = [p for p in (problem, other_problem) if p is not None]
    return AblatedChange(
        name=change.name,
        old=endpoints.values(change, new=False),
        new=endpoints.values(change, new=True),
        importance=importance,
        left_out=None if without is None else (new, without),
        added=None if alone is None else (alone, old),
        remark="; ".join(remarks) or None,
    )


def _built(
    variants: _Variants, taken: Sequence[Change], label: str
) -> tuple[str | None, str | None]:
    """The label of a variant; or None, and why it cannot be trained."""
    try:
        return variants.label(taken, label), None
    except ConfigError as error:
        return None, f"{label} cannot be trained: {error}"


def _merged(endpoints: Endpoints, changes: Sequence[Change], *, new: bool) -> dict[str, object]:
    return {k: v for c in changes for k, v in endpoints.values(c, new=new).items()}


def _sum(changes: Sequence[Change], importance: Mapping[Change, float]) -> float | None:
    shares = [importance[c] for c in changes if c in importance]
    return sum(shares) if shares else None


def _joined(changes: Sequence[Change]) -> str | None:
    return "not valid one by one, so they are added together" if len(changes) > 1 else None


def with_command(plan: AblationPlan, command: Sequence[str]) -> AblationPlan:
    """The plan with the command that continues it."""
    return replace(plan, ablation=replace(plan.ablation, command=tuple(command)))
