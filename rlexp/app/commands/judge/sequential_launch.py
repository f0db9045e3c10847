"""Trains the runs of a sequential comparison, interim analysis by interim analysis."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from signal import Signals
from typing import Protocol

from rlexp.app.comparison.sequential import (
    FrozenDesign,
    InterimAnalysis,
    analyse,
    failed_for_good,
    record_look,
)
from rlexp.app.execution.checkpoints import drift_command
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces, check_compatibility
from rlexp.app.execution.checks.device_check import check_devices
from rlexp.app.execution.launch import launch_experiment, make_run_plan
from rlexp.app.execution.launch_settings import LaunchSettings
from rlexp.app.execution.preparation import find_checked_costs
from rlexp.app.execution.probes import Costs
from rlexp.app.observer import Observer
from rlexp.app.plans import RunPlan
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.tracking.mirror_client import ChosenTrackers, note_missing_packages
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.engine.source import Plan, make_plan
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.store.layout import ExperimentPaths
from rlexp.store.provenance import read_code
from rlexp.text import format_count

AGAIN = (
    "add --retry to the 'rlexp run' command of the experiment; or start another experiment with "
    "failures=worst"
)
"""How failed runs of `rlexp compare --adaptive` are repeated."""

OF_COMMITS = "the code of each commit"
"""What a plan shows as its code where each run has that of its commit."""


class OtherCode(Protocol):
    """Trains runs by other code than that of the workspace."""

    def train(self, experiment: Experiment, plan: Plan, *, retry: bool) -> Signals | None:
        """Write the definition and train the missing runs; returns the signal that ended this."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialLaunch:
    """Checks and launches the runs that each interim analysis needs.

    Attributes:
        paths: The experiment.
        design: The frozen design.
        execution: Overrides that say how runs are executed: those of executor and trackers.
        command: The command as the user typed it.
        continuing: The command that continues the runs, for checkpoints of other versions.
        retry: Whether runs with a final failure are executed again.
        repeating: How failed runs are repeated, as the end of a sentence.
        option: The option before each override of the command; empty without one.
        probe: Whether to measure what runs cost; None measures long plans.
        workspace: The workspace.
        observer: Receives remarks and the progress.
        spaces: Spaces of the environments that were examined, by canonical configuration.
        other_code: Trains the runs by other code than that of the workspace; None trains by the latter.
    """

    paths: ExperimentPaths
    design: FrozenDesign
    execution: tuple[str, ...]
    command: tuple[str, ...]
    continuing: tuple[str, ...]
    workspace: Workspace
    observer: Observer
    retry: bool = False
    repeating: str = AGAIN
    option: str = "--set"
    probe: bool | None = None
    spaces: dict[str, EnvironmentSpaces] = field(default_factory=dict)
    other_code: OtherCode | None = None

    def prepare(self, experiment: Experiment, plan: Plan) -> tuple[LaunchSettings, Costs]:
        """The launch settings of the missing runs, and what these runs cost.

        Raises:
            ConfigError: A device is missing, the runs do not fit into the memory, or a learner
                cannot be built.
        """
        launch = self.settings(experiment)
        check_devices((spec.compute["device"] for spec in plan.missing), launch.executor)
        if self.other_code is not None:
            # This process imports none of that code: what cannot be built is a failed run.
            return launch, Costs()
        missing = {spec.fingerprint for spec in plan.missing}
        configurations = [c for c in experiment.configurations if c.fingerprint in missing]
        check_compatibility(configurations, self.workspace, self.spaces)
        costs = find_checked_costs(
            plan, launch, self.probe, self.workspace, self.observer, self.spaces
        )
        return launch, costs

    def settings(self, experiment: Experiment) -> LaunchSettings:
        """The launch settings of the workspace's present configuration and the request."""
        settings = compose(list(self.execution), self.workspace.folder)[0].plain
        root, parts = validate(settings, self.workspace.allowed)
        return LaunchSettings(
            executor=parts.executor,
            threads=max(c.compute.threads for c in experiment.configurations),
            operational={**root.budget.operational(), **root.compute.operational()},
            command=self.command,
            with_drift=drift_command(self.continuing, self.workspace),
            trackers=ChosenTrackers.of(settings, parts),
            changeable=False,
            override_option=self.option,
            sequential=True,
        )

    def next_plan(self, looked: InterimAnalysis, evidence: Evidence) -> RunPlan:
        """The runs that the next interim analysis needs, for a command that starts none.

        Raises:
            RlexpError: A run that is needed has no score, or the runs cannot start.
        """
        self.check_scores(looked, evidence)
        experiment, plan = self.plan(looked, evidence, evidence.experiments[0])
        launch, costs = self.prepare(experiment, plan)
        note_missing_packages(launch.trackers, self.observer)
        code = read_code(self.workspace.folder, self.workspace.layout.root)
        planned = make_run_plan(
            *(self.paths, Phase.TEST, plan, launch, code, costs, experiment), self.workspace
        )
        return planned if self.other_code is None else replace(planned, code=OF_COMMITS)

    def plan(
        self, looked: InterimAnalysis, evidence: Evidence, experiment: Experiment
    ) -> tuple[Experiment, Plan]:
        """The experiment with one more group of seeds per undecided label, and its missing runs."""
        grown = _grown(experiment, looked, self.design)
        records = {m.record.spec.id: m.record for m in evidence.members}
        seeds = set(range((looked.looks + 1) * self.design.group))
        specs = [
            spec
            for configuration, spec in grown.specs(Phase.TEST)
            if configuration.label in looked.wanted and spec.seed in seeds
        ]
        return grown, make_plan(specs, records, retry=self.retry)

    def check_scores(self, looked: InterimAnalysis, evidence: Evidence) -> None:
        """Refuse an interim analysis that needs a failed run, before others are trained for it.

        Raises:
            RecordError: A run of the next interim analysis has ended without a score.
        """
        if self.retry:
            return
        seeds = range((looked.looks + 1) * self.design.group)
        scoreless = failed_for_good(evidence)
        members = [
            m for m in scoreless if m.label in looked.wanted and m.record.spec.seed in seeds
        ]
        if members:
            raise RecordError(self._without_score(members))

    def until_decided(self) -> tuple[InterimAnalysis, Evidence, Signals | None]:
        """Make interim analyses, and launch the runs of the next, until every pair is decided.

        This process holds the lock of the experiment.

        Returns:
            The last interim analysis, the evidence after it, and the signal that ended the command.

        Raises:
            RecordError: A run that is needed has no score, or a score that was used has changed.
        """
        retrying = self
        while True:
            evidence = self._evidence()
            looked = analyse(self.design, evidence)
            # Earlier interim analyses are compared with the file, so that a score
            # that changed since is noticed.
            for number, decided in looked.decisions.items():
                record_look(self.paths, number, decided)
            if looked.finished:
                return looked, evidence, None
            retrying.check_scores(looked, evidence)
            experiment, plan = retrying.plan(looked, evidence, evidence.experiments[0])
            if not plan.missing:
                raise RecordError(self._without_score([]))
            interrupted = retrying._execute(experiment, plan)
            if interrupted is not None:
                return looked, self._evidence(), interrupted
            # A run that fails again is not repeated for ever.
            retrying = replace(self, retry=False)

    def _execute(self, experiment: Experiment, plan: Plan) -> Signals | None:
        if self.other_code is not None:
            return self.other_code.train(experiment, plan, retry=self.retry)
        launch, costs = self.prepare(experiment, plan)
        interrupted, _ = launch_experiment(
            *(self.paths, experiment, Phase.TEST, plan, launch, self.workspace, self.observer),
            costs,
        )
        return interrupted

    def _evidence(self) -> Evidence:
        return collect_evidence([self.paths.name], Phase.TEST, self.workspace, enter=True)

    def _without_score(self, members: Sequence[PlannedRun]) -> str:
        names = [member.name for member in members]
        words = ["rlexp", "logs", names[0]] if names else ["rlexp", "show", self.paths.name]
        return (
            f"the next interim analysis needs {format_count(len(names), 'run')} that ended without "
            f"a score ({', '.join(names[:3])}); to see why: {shlex.join(words)}; to repeat failed "
            f"runs, {self.repeating}"
        )


def execution_overrides(overrides: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """The overrides that say how runs are executed; `keys` are the keys of all overrides."""
    sections = {"executor", "tracker"}
    return tuple(
        word
        for word, key in zip(overrides, keys, strict=True)
        if key.partition(".")[0] in sections
    )


def _grown(experiment: Experiment, looked: InterimAnalysis, design: FrozenDesign) -> Experiment:
    """The experiment with the seeds that the next interim analysis needs of every undecided label."""
    needed, planned = (looked.looks + 1) * design.group, len(experiment.seeds.seeds(Phase.TEST))
    most = max(needed, planned)
    counts = {
        c.fingerprint: max(
            experiment.allotted.get(c.fingerprint, planned),
            needed if c.label in looked.wanted else 0,
        )
        for c in experiment.configurations
    }
    # Configurations that have all seeds of the experiment need no entry of their own.
    fewer = {fingerprint: count for fingerprint, count in counts.items() if count < most}
    return replace(experiment, seeds=replace(experiment.seeds, test=most), allotted=fewer)
