"""Experiments of an older schema: they are read, and no run is added to them."""

from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.spec import RunSpec
from rlexp.store.schemas import EXPERIMENT, SPEC


def refuse_older(experiment: Experiment) -> None:
    """Refuse to run anything of an experiment of an older schema.

    Raises:
        RecordError: It is; says what to do instead.
    """
    if experiment.schema < EXPERIMENT.version:
        raise RecordError(
            f"experiment {experiment.name} was written in schema {experiment.schema}, in which runs "
            "have other names than now: no run is added to it. Choose another name with "
            "experiment=…; ls, show, verify, compare, report and export take it as it is"
        )


def refuse_older_run(spec: RunSpec) -> None:
    """Refuse to execute a run of an older schema.

    Raises:
        RecordError: It is; says what to do instead.
    """
    if spec.schema < SPEC.version:
        raise RecordError(
            f"run {spec.name} was written in schema {spec.schema}, in which nothing is executed any "
            "more: ask for the same under another experiment=…, as the command in its provenance does"
        )
