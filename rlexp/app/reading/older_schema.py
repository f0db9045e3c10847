"""Refuses to execute runs of experiments that were written in an older schema."""

from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.spec import RunSpec
from rlexp.store.schemas import EXPERIMENT, SPEC


def refuse_older(experiment: Experiment) -> None:
    """Refuse to execute runs of an experiment in an older schema.

    Raises:
        RecordError: The experiment has an older schema.
    """
    if experiment.schema < EXPERIMENT.version:
        raise RecordError(
            f"experiment {experiment.name} was written in schema {experiment.schema}, in which runs "
            "have other names: runs cannot be added to it. Choose another name with "
            "experiment=…; ls, show, verify, compare, report and export accept it"
        )


def refuse_older_run(spec: RunSpec) -> None:
    """Refuse to execute a run of an older schema.

    Raises:
        RecordError: The run has an older schema.
    """
    if spec.schema < SPEC.version:
        raise RecordError(
            f"run {spec.name} was written in schema {spec.schema}, whose runs cannot be executed any "
            "more: repeat the command in its provenance with another experiment=…"
        )
