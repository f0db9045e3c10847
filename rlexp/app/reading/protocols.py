"""Finds the registrations to which experiments belong, and what deviates from them."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.records.deviations import deviations_of
from rlexp.records.look import Look
from rlexp.records.registration import (
    ProtocolRegister,
    RegisteredExperiment,
    RegisteredExperiments,
    Registration,
)
from rlexp.records.run import RunRecord
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.former_names import names_of
from rlexp.store.layout import Layout
from rlexp.store.registers.looks import read_looks
from rlexp.store.registers.protocols import read_protocols


def with_protocols(evidence: Evidence, layout: Layout) -> Evidence:
    """The evidence with the registrations of its experiments.

    A register that cannot be read is a problem that the evidence names. It never keeps scores from
    being shown.
    """
    if evidence.phase is not Phase.TEST:
        return evidence
    try:
        register = read_protocols(layout)
    except RlexpError as error:
        problem = f"the register of protocols cannot be read: {error}"
        return replace(evidence, protocols=RegisteredExperiments(problems=(problem,)))
    registered = (
        registered_experiment(
            experiment,
            [m.record for m in evidence.members if m.experiment == experiment.name],
            register,
            layout,
        )
        for experiment in evidence.experiments
    )
    return replace(
        evidence,
        protocols=RegisteredExperiments(
            experiments=tuple(r for r in registered if r is not None),
            problems=tuple(_changed(register)),
        ),
    )


def registered_experiment(
    experiment: Experiment,
    records: Collection[RunRecord],
    register: ProtocolRegister,
    layout: Layout,
) -> RegisteredExperiment | None:
    """An experiment with its registration and its deviations; None where it is not registered.

    Args:
        experiment: The experiment.
        records: The records of its planned test runs.
        register: The register.
        layout: The folder `runs/`.
    """
    # Imported runs have seeds of another tool, also where their root looks like a sealed one.
    if not register.registrations or experiment.imported is not None:
        return None
    names = names_of(layout.experiment(experiment.name))
    registration = register.of_experiment(names, experiment.seeds.root)
    if registration is None:
        return None
    looks = _readable_looks(registration, layout)
    deviations = deviations_of(registration, experiment, records, looks)
    return RegisteredExperiment.of(experiment.name, registration, register, deviations, records)


def _readable_looks(registration: Registration, layout: Layout) -> Sequence[Look]:
    try:
        return read_looks(layout, registration.study.tasks).looks
    except RlexpError:
        # Reports and `rlexp verify` name a register of looks that cannot be read.
        return ()


def alpha_of_plan(experiment: Experiment | None, layout: Layout) -> float | None:
    """The level that the protocol of an experiment has sealed; None without one."""
    if experiment is not None:
        with suppress(RlexpError):
            registration = read_protocols(layout).named(experiment.name)
            if registration is not None and registration.root == experiment.seeds.root:
                return registration.study.alpha
    return None


def protocol_of_plan(experiment: Experiment, layout: Layout) -> str | None:
    """What a plan says about the protocol of its experiment; None where it is not registered."""
    try:
        register = read_protocols(layout)
    except RlexpError as error:
        return f"the register of protocols cannot be read: {error}"
    registered = registered_experiment(experiment, (), register, layout)
    if registered is None:
        return next(_changed(register), None)
    return f"protocol {registered.title}: {registered.state}"


def _changed(register: ProtocolRegister) -> Iterator[str]:
    if register.breaks:
        yield (
            f"the register of protocols was changed ({register.breaks[0]}); 'rlexp verify' names every "
            "place"
        )
