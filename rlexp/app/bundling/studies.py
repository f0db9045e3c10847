"""Counts the runs of the experiments of a bundle."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rlexp.app.bundling.documents import BundledStudy
from rlexp.app.reading.experiment_scan import ExperimentScan
from rlexp.app.reading.provenance import last_time
from rlexp.errors import RecordError
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import State
from rlexp.store.registers.ledger import read_ledger


def bundled_studies(scans: Sequence[ExperimentScan]) -> list[BundledStudy]:
    """The runs of some experiments, and the heads of their ledgers."""
    ids = {spec.id for scan in scans for spec in specs_of(scan)}
    return [_study(scan, ids) for scan in scans]


def specs_of(scan: ExperimentScan) -> Iterator[RunSpec]:
    """The specifications of the runs that can be read."""
    yield from (run.stored.record.spec for run in scan.runs if run.stored is not None)


def last_day(scans: Sequence[ExperimentScan]) -> str:
    """The day of the last event of some experiments (`YYYY-MM-DD`, UTC)."""
    times = [last_time(run.stored.record) for scan in scans for run in scan.runs if run.stored]
    return f"{datetime.fromtimestamp(max(times, default=0.0), UTC):%Y-%m-%d}"


def ledger_head(scan: ExperimentScan) -> str | None:
    """The sha256 of the last line of the ledger; None where it is absent or cannot be read."""
    try:
        ledger = read_ledger(scan.paths)
    except RecordError:
        return None
    return ledger.head if ledger else None


def _study(scan: ExperimentScan, ids: set[str]) -> BundledStudy:
    planned = [run.stored.record for run in scan.runs if run.planned and run.stored]
    damaged = sum(run.damaged or run.stored is None for run in scan.runs)
    scored = sum(r.state is State.COMPLETED and r.score is not None for r in planned)
    failed = sum(r.state is State.FAILED for r in planned)
    parents = {s.parent.run for s in specs_of(scan) if s.parent is not None} - ids
    total = len(planned) + damaged
    return BundledStudy(
        experiment=scan.paths.name,
        planned=total,
        scored=scored,
        failed=failed,
        absent=total - scored - failed,
        head=ledger_head(scan),
        parents=len(parents),
        datasets=tuple(sorted({d for s in specs_of(scan) if (d := _dataset(s)) is not None})),
    )


def _dataset(spec: RunSpec) -> tuple[str, str] | None:
    """The id and the digest of the dataset of a run; None without one."""
    dataset = spec.dataset or {}
    if not dataset.get("digest"):
        return None
    return str(dataset.get("id", "unnamed")), str(dataset["digest"])
