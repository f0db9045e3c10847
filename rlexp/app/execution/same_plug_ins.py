"""Whether the classes that a run is built from are still the plug-ins that its identity names."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rlexp.environments.composed import ComposedTask
from rlexp.errors import RecordError
from rlexp.protocol.identity import HASHED, PLUG_IN, full_name, plug_in_of
from rlexp.protocol.spec import COMPONENTS, RunSpec

if TYPE_CHECKING:
    from rlexp.training.parts import Training


def check_plug_ins(spec: RunSpec, training: "Training") -> None:
    """Refuse to train a run with classes that declare to be something else by now.

    Raises:
        RecordError: One does; says which, and what to do.
    """
    for group, plain, part in _built(spec, training):
        recorded, now = plain.get(PLUG_IN, {}), plug_in_of(type(part), group)
        if any(recorded.get(key) != now.get(key) for key in HASHED):
            raise RecordError(
                f"run {spec.name} was asked for with {group} {full_name(recorded)}, and its class "
                f"is {full_name(now)} by now: ask for it again under another experiment=…"
            )


def _built(spec: RunSpec, training: "Training") -> Iterator[tuple[str, Any, Any]]:
    """Every plug-in: its group, its mapping in the specification, and what was built of it."""
    yield "agent", spec.agent, training.agent
    yield "algorithm", spec.algorithm, training.algorithm
    environment = training.environment
    if isinstance(environment, ComposedTask):
        for name, component in environment.components.items():
            yield "component", spec.environment[COMPONENTS][name], component
        environment = environment.environment
    yield "environment", spec.environment, environment
