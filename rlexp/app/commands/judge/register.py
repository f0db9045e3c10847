"""`rlexp register`: seals a study before its runs, and derives the root of its test seeds."""

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rlexp.app.execution.checks.import_permission import permission_for
from rlexp.app.execution.registered_request import execution_words, protocol_command
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.execution.verdict_reach import missing_reach
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import split_override
from rlexp.config.report_settings import read_report
from rlexp.config.study_file import (
    PROTOCOL_EXAMPLE,
    QUESTION,
    is_study_file,
    read_study,
    read_words,
)
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.registration import (
    DECIDING,
    METRIC_DEFINITIONS,
    TEST,
    ProtocolRegister,
    RegisteredExperiment,
    Registration,
    SealedStudy,
    definition_of_metric,
)
from rlexp.store.layout import check_name
from rlexp.store.registers.looks import read_looks
from rlexp.store.registers.protocols import enter_registration, read_protocols

SHORTEST_NONCE = 8
"""Least number of characters of a nonce: a shorter one can be guessed."""
LONGEST_TEXT = 1000
"""Most characters of a nonce or its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterRequest:
    """The study to register.

    Attributes:
        protocol: The name of the protocol, which becomes that of its experiment.
        overrides: A study file, and words that win over its own.
        nonce: A public text that nobody could know before the study was written.
        nonce_source: Where the nonce comes from, for readers.
    """

    protocol: str
    overrides: tuple[str, ...]
    nonce: str
    nonce_source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedLabel:
    """A label of a registered protocol on a task.

    Attributes:
        label: The label.
        task: The task.
        fingerprint: The identity of its configuration, which includes the budget.
        steps: Steps of one run.
        unit: The unit of steps: `environment_steps`, or `environment.unit`.
        score: The rule by which runs are scored.
    """

    label: str
    task: str
    fingerprint: str
    steps: int
    unit: str
    score: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredProtocol(Displayed):
    """A study that was sealed before its runs.

    Attributes:
        protocol: The name of the protocol and of its experiment.
        hash: The sha256 of what was sealed.
        nonce: The public nonce.
        nonce_source: Where the nonce comes from; null where nothing was said.
        root: The root of the test seeds, derived from hash and nonce.
        registered: When it was registered.
        question: The question.
        labels: The labels on every task.
        seeds: The test seeds of each label.
        failures: How failed runs count.
        metric: The metric that decides.
        test: The test of the verdicts.
        settings: The settings of reports that decide.
        counted: Which registration it is on its tasks; empty for the only one.
        registrations: Number of registrations that share a task with it.
        same_study: Number of registrations of the same study.
        unchanged: Whether it was registered before by the same command.
        source_dropped: Whether the command names another source of the nonce than the registration,
            which was not recorded.
        head: The sha256 of the last line of the register.
        reach: Why no verdict is possible with these seeds; null if one is.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("registered-protocol")

    protocol: str
    hash: str
    nonce: str
    nonce_source: str | None
    root: int
    registered: str
    question: str
    labels: tuple[SealedLabel, ...]
    seeds: tuple[int, ...]
    failures: str
    metric: str
    test: str
    settings: Mapping[str, Any]
    counted: str
    registrations: int
    same_study: int
    unchanged: bool
    source_dropped: bool
    head: str | None
    reach: str | None
    next: tuple[NextCommand, ...]


def register(request: RegisterRequest, workspace: Workspace) -> RegisteredProtocol:
    """Seal a study, and enter it in the register of protocols.

    The same command again changes nothing and returns the registration that was made first.

    Raises:
        RlexpError: The study, the nonce or the name is wrong, or there are runs already; nothing was
            written.
    """
    _check_texts(request)
    study, planned = _study(request, workspace)
    requested = Registration(
        protocol=check_name(request.protocol),
        time=time.time(),
        nonce=request.nonce,
        nonce_source=request.nonce_source,
        looks=read_looks(workspace.layout, ()).head,
        study=study,
    )
    before = read_protocols(workspace.layout)
    earlier = before.named(requested.protocol)
    if earlier is None or earlier.root != requested.root:
        _refuse_runs(requested, workspace)
    try:
        registration = enter_registration(workspace.layout, requested)
    except OSError as error:
        raise RecordError(
            f"{workspace.layout.protocols} cannot be written: {error.strerror}", code="unwritable"
        ) from error
    register = read_protocols(workspace.layout)
    return _result(registration, register, planned, request, workspace, earlier is not None)


def _check_texts(request: RegisterRequest) -> None:
    texts = {"--nonce": request.nonce, "--nonce-source": request.nonce_source or "none"}
    for option, text in texts.items():
        if not text.strip() or not text.isprintable() or len(text) > LONGEST_TEXT:
            raise ConfigError(
                f"{option} is a text of one line with at most {LONGEST_TEXT:,} characters"
            )
    if len(request.nonce.strip()) < SHORTEST_NONCE:
        raise ConfigError(
            f"--nonce {request.nonce!r} can be guessed: give at least {SHORTEST_NONCE} characters of a "
            "public text that nobody knew before, such as the value of a randomness beacon or the hash "
            "of somebody else's commit"
        )


def _study(request: RegisterRequest, workspace: Workspace) -> tuple[SealedStudy, RunRequest]:
    """What is sealed, and the runs that it plans."""
    overrides = request.overrides
    if not overrides or not is_study_file(overrides[0]):
        raise ConfigError(
            "a protocol is registered from a study file: rlexp register NAME study.yaml --nonce TEXT; "
            "to write one: rlexp init --study",
            command="rlexp init --study",
        )
    file = read_study(overrides[0], workspace.folder)
    _check_words(overrides, workspace)
    question = str(file.protocol.get(QUESTION) or "").strip()
    if not question:
        raise ConfigError(
            f"{file.path} has no question, which a protocol seals: write {PROTOCOL_EXAMPLE} into it"
        )
    planned = read_request(overrides, workspace)
    if planned.phase is not Phase.TEST:
        raise ConfigError(
            f"phase={planned.phase}: a protocol has test runs only; leave the word out"
        )
    if planned.policies:
        raise ConfigError(
            "a protocol cannot begin with trained policies, which it does not seal: leave out the words "
            "that name them"
        )
    if planned.sourced:
        raise ConfigError(
            "a protocol cannot begin with prior data, which it does not seal: choose another replay",
            key="replay",
        )
    words = [f"{k}={v}" for k, v in file.protocol.items() if k != QUESTION and v is not None]
    parts = read_report(["section=[]", *words], workspace.folder, workspace.allowed)
    settings = {key: getattr(parts.settings, key) for key in DECIDING}
    study = SealedStudy(
        question=question,
        configurations=planned.experiment.configurations,
        seeds=planned.experiment.seeds.test,
        failures=planned.experiment.failures,
        settings={
            "metrics": list(parts.metrics),
            METRIC_DEFINITIONS: {n: definition_of_metric(m) for n, m in parts.metrics.items()},
            "test": TEST,
            **settings,
        },
    )
    return study, planned


def _check_words(overrides: Sequence[str], workspace: Workspace) -> None:
    """Refuse the root of the seeds, which is derived.

    Raises:
        ConfigError: The study file or the command gives it.
    """
    for variant in read_words(overrides, workspace.folder):
        for word in variant.overrides:
            if split_override(word)[0] == "seeds.root":
                location = variant.places.get("seeds.root")
                raise ConfigError(
                    f"{f'{location}: ' if location else ''}{word}: the root of a protocol is derived from its "
                    "hash and its nonce; leave it out"
                )


def _refuse_runs(registration: Registration, workspace: Workspace) -> None:
    """Refuse a registration whose runs may exist already.

    Raises:
        RecordError: There is an experiment of this name, or its test seeds were used.
    """
    paths = workspace.layout.experiment(registration.protocol)
    if paths.folder.exists():
        raise RecordError(
            f"{paths.folder} exists already, and a registration comes before its runs: choose another "
            "name",
        )
    looks = read_looks(workspace.layout, registration.study.tasks).looks
    if any(look.root == registration.root for look in looks):
        raise RecordError(
            f"the test seeds of this study and nonce (seeds.root={registration.root}) were used before: "
            "give another nonce"
        )


def _result(
    registration: Registration,
    register: ProtocolRegister,
    planned: RunRequest,
    request: RegisterRequest,
    workspace: Workspace,
    unchanged: bool,
) -> RegisteredProtocol:
    study = registration.study
    counted = RegisteredExperiment.of(registration.protocol, registration, register, ())
    return RegisteredProtocol(
        protocol=registration.protocol,
        hash=study.hash,
        nonce=registration.nonce,
        nonce_source=registration.nonce_source,
        root=registration.root,
        registered=registration.registered,
        question=study.question,
        labels=tuple(
            SealedLabel(
                label=c.label,
                task=c.task,
                fingerprint=c.fingerprint,
                steps=c.budget.steps,
                unit=c.unit,
                score=c.budget.score,
            )
            for c in study.configurations
        ),
        seeds=study.test_seeds,
        failures=study.failures,
        metric=study.metric,
        test=TEST,
        settings=study.settings,
        counted=counted.counted,
        registrations=counted.on_tasks,
        same_study=counted.same_study,
        unchanged=unchanged,
        source_dropped=request.nonce_source not in (None, registration.nonce_source),
        head=register.head,
        reach=missing_reach(planned.specs(), study.alpha),
        next=_next(registration, request, workspace),
    )


def _next(
    registration: Registration, request: RegisterRequest, workspace: Workspace
) -> tuple[NextCommand, ...]:
    variants = read_words(request.overrides, workspace.folder)
    words = execution_words(word for variant in variants for word in variant.overrides)
    permission = permission_for(registration.study.configurations, workspace.allowed)
    command = protocol_command(registration.protocol, [*words, *permission])
    return (
        NextCommand(why="see what it would run", command=shlex.join([*command, "--dry-run"])),
        NextCommand(why="run it", command=shlex.join(command)),
        NextCommand(why="check the register", command="rlexp verify"),
    )
