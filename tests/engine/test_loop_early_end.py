"""The record of a pruned run ends with the evaluation that decided it, after a crash too."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from samples import configuration
from simulated_sweeps import evaluated
from single_run_loop import OneRun, loop_of

from rlexp.executors import Exit, Job
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Event, RunEnded, RunStarted, StopRequest
from rlexp.records.run import State
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.runs import read_run, read_stop


@dataclass
class Scripted:
    """An executor of one job, whose attempt makes one evaluation with each poll.

    The first attempt crashes when it is asked to end; each later attempt ends at once.
    """

    run: RunPaths
    slots: int = 1
    is_starting: bool = False
    hang_timeout: float = 1e9
    grace: float = 1.0
    attempt: AttemptPaths | None = None
    steps: int = 0

    def submit(self, job: Job) -> None:
        """Begin an attempt."""
        self.attempt = self.run.attempts()[-1]
        self.steps = 0
        self._write(RunStarted(time=0.0, attempt=self.attempt.number, pid=1, host="here"), True)

    def poll(self, seconds: float) -> list[Exit]:
        """End the attempt, crash it, or write its next evaluation."""
        if self.attempt is None:
            return []
        key = str(self.attempt.folder)
        if self.run.stop.exists():
            request, number = read_stop(self.run), self.attempt.number
            if number > 1:
                self._write(_ended(request, self.steps + 3))
            self.attempt = None
            return [Exit(key, 0, None) if number > 1 else Exit(key, None, 9)]
        self.steps += 10
        self._write(evaluated(self.steps, float(self.steps)))
        return []

    def stop(self) -> None:
        """Do nothing."""

    def kill(self, key: str) -> None:
        """Do nothing."""

    def _write(self, event: Event, begin: bool = False) -> None:
        assert self.attempt is not None
        if begin:
            with closing(JournalWriter(self.attempt.journal)) as journal:
                journal.append(event)
            return
        spare = self.attempt.journal.with_name("next")
        with closing(JournalWriter(spare)) as journal:
            journal.append(event)
        with self.attempt.journal.open("ab") as file:
            file.write(spare.read_bytes())
        spare.unlink()


def test_a_crash_after_the_verdict_does_not_shorten_the_record(tmp_path: Path) -> None:
    """A run that crashes while it is pruned is tried again up to the rung that decided it."""
    spec = configuration().spec(Phase.TUNING, 0, 0)
    paths = ExperimentPaths(tmp_path / "sample")
    source, executor = OneRun(spec), Scripted(paths.run(spec.name))
    loop = loop_of(paths, executor, lambda: 0.0)
    loop.close_gap(source)
    (record,) = source.records
    assert (State.PRUNED, 2, 1) == (record.state, record.attempts, record.machine_failures)
    assert [10, 20] == [e.step for e in record.evaluations]
    assert record == read_run(paths.run(spec.name)).record


def _ended(request: StopRequest, step: int) -> RunEnded:
    return RunEnded(
        time=0.0,
        step=step,
        ending=request.ending,
        seconds=1.0,
        reason=request.reason,
        rung=request.rung,
    )
