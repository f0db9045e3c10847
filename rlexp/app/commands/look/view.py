"""`rlexp view`: the pages of a workspace and their states while runs go on, read from the records.

This module knows no HTTP: it makes documents from paths. Nothing is written into `runs/`.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import ClassVar
from urllib.parse import quote

from rlexp.app.commands.judge.report import (
    IGNORED,
    ReportMemory,
    ReportRequest,
    compute_brief_report,
    compute_report_in_stages,
)
from rlexp.app.commands.look.list_runs import experiment_row
from rlexp.app.commands.look.status import experiment_status
from rlexp.app.commands.look.view_state import (
    MOST_BARS,
    PageState,
    RecordedState,
    bar,
    progress,
    short_answer,
    state_lines,
    state_name,
)
from rlexp.app.reading.experiment_scan import ExperimentScan, survey
from rlexp.app.reading.headline_aggregate import HeadlineAggregate, read_headline_aggregate
from rlexp.app.reporting.build import read_phase
from rlexp.app.reporting.films import embedded_film, media_type, served_films, stamp_of_films
from rlexp.app.reporting.refreshed import BackgroundWorker, Refreshed
from rlexp.app.results import Schema, to_json
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import ReportParts, read_report
from rlexp.errors import RlexpError
from rlexp.reports.drawing.blocks import (
    Callout,
    EpisodeFilm,
    ReportDocument,
    SectionContent,
    Text,
    Tone,
)
from rlexp.reports.page.html import ListedExperiment, LiveContent, RenderedPage, render_page
from rlexp.store.files import read_file
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import is_held
from rlexp.store.run_stamps import numbers_of_file, stamp_of_tree
from rlexp.store.secrets import mask_all, mask_known, secret_values
from rlexp.text import (
    format_count,
    format_time,
)

STATE = "state.json"
"""The name of the document that a page asks for, beside the page."""
STATE_POLICY = "default-src 'none'"
"""The content security policy of a document that is no page."""
FILM_POLICY = "default-src 'none'; media-src 'self'; img-src 'self'"
"""The content security policy of a film: a browser plays it in a page that it makes itself."""
STATES_SHARE, PAGES_SHARE = 0.05, 0.2
"""Shares of one core that reading states and computing pages may take while runs go on."""
STATE_AGE, PAGE_AGE = 1.0, 3.0
"""Least ages in seconds at which a state is read again, and a page is computed again."""
PATIENCE = 1.0
"""Seconds that a request waits for a page or a list that is there for the first time."""
STATE_PATIENCE = 0.3
"""Seconds that a request waits for a newer state."""
LARGE = 200
"""Planned runs from which on the first page has no comparisons until they are computed."""
ANY_TIME = 1e10
"""A time in seconds since 1970 that no record has reached: a page may follow a file that changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDocument:
    """A document to be served.

    Attributes:
        content: Its bytes.
        media_type: Its media type.
        policy: Its content security policy.
    """

    content: bytes
    media_type: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewedPage:
    """The page of an experiment.

    Attributes:
        records: The records that it was computed from; see `RecordedState`.
        version: A text that changes with its content.
        page: The page.
        answer: The answer of its report; empty without a report.
        films: The films that it links, by the names of their documents.
        computing: A sentence about what is not yet on it; empty where it is complete.
    """

    records: str
    version: str
    page: RenderedPage
    answer: str
    films: Mapping[str, EpisodeFilm]
    computing: str = ""


class ExperimentView:
    """The page and the state of one experiment, computed when somebody asks and records changed."""

    def __init__(self, paths: ExperimentPaths, viewer: "Viewer") -> None:
        self.paths = paths
        self._viewer = viewer
        self.state = Refreshed(viewer.states, self._read_state, STATE_AGE)
        self.page = Refreshed(viewer.pages, self._make_page, PAGE_AGE)
        self._early: ViewedPage | None = None
        """The page of the records while a part of it is still computed."""
        self._memory = ReportMemory()

    def page_document(self) -> ViewDocument:
        """The present page; before the first one, a page that says so."""
        computed = self._present(PATIENCE if self.page.value is None else 0.0)
        return _as_document(self._notice(WAITING) if computed is None else computed.page)

    def state_document(self) -> ViewDocument:
        """The state of the experiment and the version of its page, as JSON."""
        state, page = self.state.latest(STATE_PATIENCE), self._present()
        if state is None:
            return _state_document(PageState(version="", running=False, lines=(READING,)))
        status = state.status
        return _state_document(
            PageState(
                version=page.version if page else "",
                running=status.driven or bool(status.running),
                lines=tuple(state_lines(status)),
                bars=tuple(map(bar, status.running[:MOST_BARS])),
                problems=status.problems,
                computing=page.computing if page else WAITING,
            )
        )

    def _present(self, patience: float = 0.0) -> ViewedPage | None:
        """The page of the newest records that any page was computed from."""
        complete, early = self.page.latest(patience), self._early
        # The early page stays until the complete one of the same records has taken its place.
        is_newer = early and (complete is None or complete.records != early.records)
        return early if is_newer else complete

    def film_document(self, name: str) -> ViewDocument | None:
        """A film that the present page links; None for any other name, and for a changed file."""
        page = self._present()
        film = page.films.get(name) if page else None
        if film is None:
            return None
        try:
            content = read_file(self._viewer.workspace.folder / film.file)
        except OSError:
            return None
        if sha256(content).hexdigest() != film.sum:
            return None
        return ViewDocument(content=content, media_type=media_type(film.file), policy=FILM_POLICY)

    def listed(self) -> ListedExperiment:
        """The experiment in the list; its state may still be unread."""
        state, page = self.state.value, self.page.value
        name = self.paths.name
        address = f"{quote(name, safe='')}/"
        if state is None:
            return ListedExperiment(
                name=name,
                address=address,
                state="being read",
                done=0,
                planned=0,
                counts="",
                answer="",
                changed=None,
            )
        done, planned, counts = progress(state)
        remembered = page.answer if page and page.records == state.records else ""
        return ListedExperiment(
            name=name,
            address=address,
            state=state_name(state),
            done=done,
            planned=planned,
            counts=counts,
            answer=_mask(remembered or short_answer(state, self._viewer.leading)),
            changed=format_time(state.row.last),
        )

    def _read_state(self) -> RecordedState:
        """The state; the records are read only if a file has changed, or while a run is running."""
        former, files = self.state.value, self._files()
        if former and files is not None and former.files == files and not former.status.running:
            return former
        try:
            scan = survey(self.paths, brief=True, in_place=False)
            return self._state_of(scan, files)
        # Damaged records of one experiment must not end the pages of the others.
        except Exception as error:  # noqa: BLE001
            problem = f"the records cannot be read: {error!r}"
        damaged = ExperimentScan(paths=self.paths, experiment=None, runs=(), problem=problem)
        return self._state_of(damaged, files)

    def _state_of(self, scan: ExperimentScan, files: str | None) -> RecordedState:
        status = experiment_status(scan, self._viewer.workspace)
        # A killed process changes no file, but the state of its run.
        parts = [files or time.monotonic_ns(), status.driven, sorted(status.runs.items())]
        row = experiment_row(scan, self._viewer.leading)
        return RecordedState(files=files, records=_digest(parts), status=status, row=row)

    def _files(self) -> str | None:
        stamp = stamp_of_tree(os.path.realpath(self.paths.folder), ANY_TIME, files=IGNORED)
        if stamp is None:
            return None
        workspace = self._viewer.workspace
        films = stamp_of_films(workspace.folder, ANY_TIME)
        registers = [
            numbers_of_file(str(file))
            for file in (workspace.layout.looks, workspace.layout.protocols)
        ]
        return f"{stamp} {films} {registers} {is_held(self.paths.lock)}"

    def _make_page(self) -> ViewedPage:
        former, state = self.page.value, self.state.latest(patience=None)
        assert state is not None
        if former is not None and former.records == state.records:
            return former
        self._early = None
        for page in self._pages(state, is_first=former is None):
            if page.computing:
                self._early = page
        return page

    def _pages(self, state: RecordedState, *, is_first: bool) -> Iterator[ViewedPage]:
        """The pages of a state: early ones of large experiments, and the complete one.

        Where a report cannot be computed, the last page gives the reason.
        """
        viewer = self._viewer
        request = ReportRequest(
            targets=(self.paths.name,), phase=viewer.phase, overrides=viewer.overrides
        )
        of = (request, viewer.parts, viewer.workspace, self._memory)
        try:
            if is_first and state.row.planned >= LARGE:
                # Comparisons of many runs take long: the scores are shown while they are computed.
                yield self._page_of(compute_brief_report(*of), state, COMPARING)
            for study, is_complete in compute_report_in_stages(*of):
                yield self._page_of(study, state, "" if is_complete else INVERTING)
        except RlexpError as error:
            yield self._page_of(_notice(self.paths.name, _mask(str(error))), state)
        # Damaged records of one experiment must not end the pages of the others.
        except Exception as error:  # noqa: BLE001
            reason = f"the records of {self.paths.name} cannot be reported: {error!r}"
            yield self._page_of(_notice(self.paths.name, _mask(reason)), state)

    def _page_of(
        self, study: ReportDocument, state: RecordedState, computing: str = ""
    ) -> ViewedPage:
        is_running = state.status.driven or bool(state.status.running)
        number = _digest((repr(study), is_running))
        folder = self._viewer.workspace.folder
        linked = served_films(study, folder)
        addresses = {film.file: embedded_film(film, folder) for film in study.films}
        addresses |= {film.file: name for name, film in linked.items()}
        live = LiveContent(version=number, home="../", is_running=is_running)
        page = render_page(study, live, addresses)
        return ViewedPage(
            records=state.records,
            version=number,
            page=page,
            answer=study.card.text if study.card else "",
            films=linked,
            computing=computing,
        )

    def _notice(self, text: str) -> RenderedPage:
        return render_page(_notice(self.paths.name, text), LiveContent(version="", home="../"))


class Viewer:
    """The documents of a workspace, by their paths.

    Attributes:
        workspace: The workspace.
        parts: The sections and settings of the reports.
        leading: The aggregate in the list of experiments.
        phase: The phase of the pages; None for that of a report by default.
        overrides: Changed settings of the reports.
        states: Reads the states of experiments.
        pages: Computes pages.
    """

    def __init__(
        self, workspace: Workspace, *, phase: str | None = None, overrides: Sequence[str] = ()
    ) -> None:
        """Read the settings of the reports.

        Raises:
            ConfigError: A file of the configuration, the phase or a setting is wrong.
        """
        read_phase(phase)
        self.workspace = workspace
        self.phase, self.overrides = phase, tuple(overrides)
        # Hydra composes in the main thread only.
        self.parts: ReportParts = read_report(overrides, workspace.folder, workspace.allowed)
        self.leading: HeadlineAggregate = read_headline_aggregate(
            workspace.folder, workspace.allowed
        )
        self.states = BackgroundWorker(STATES_SHARE)
        self.pages = BackgroundWorker(PAGES_SHARE)
        self._views: dict[str, ExperimentView] = {}

    def document(self, path: str) -> ViewDocument | None:
        """The document at a path: the list, `EXPERIMENT/`, the state beside either, or a film.

        Args:
            path: A path relative to the root, after percent-decoding.

        Returns:
            None where there is no such document.
        """
        name, slash, rest = path.rpartition("/")
        if bool(name) != bool(slash) or not (slash or rest in {"", STATE}):
            return None
        views = self._present()
        if not slash:
            return self._list_state(views) if rest else self._list(views)
        view = views.get(name)
        if view is None:
            return None
        if rest == STATE:
            return view.state_document()
        return view.film_document(rest) if rest else view.page_document()

    def has(self, experiment: str) -> bool:
        """Whether there is an experiment of this name."""
        return experiment in self._present()

    def _present(self) -> dict[str, ExperimentView]:
        """The views of the experiments on disk; only these names lead to documents."""
        try:
            experiments = self.workspace.layout.experiments()
        except RlexpError:
            experiments = []
        return {
            e.name: self._views.setdefault(e.name, ExperimentView(e, self)) for e in experiments
        }

    def _list(self, views: Mapping[str, ExperimentView]) -> ViewDocument:
        rows = self._rows(views, PATIENCE)
        live = LiveContent(version=_digest(repr(rows)), experiments=rows)
        root = self.workspace.layout.root
        nothing = f"{root} holds no runs yet; to start some, use 'rlexp run'"
        text = format_count(len(rows), "experiment") if rows else nothing
        study = ReportDocument(
            title="Experiments", subtitle=text, labels=(), parts=(), version=version("rlexp")
        )
        return _as_document(render_page(study, live))

    def _list_state(self, views: Mapping[str, ExperimentView]) -> ViewDocument:
        rows = self._rows(views, 0.0)
        running = sum(row.state == "running" for row in rows)
        line = (
            f"{format_count(running, 'experiment')} running" if running else "Nothing is running"
        )
        return _state_document(
            PageState(version=_digest(repr(rows)), running=running > 0, lines=(line,))
        )

    def _rows(
        self, views: Mapping[str, ExperimentView], patience: float
    ) -> tuple[ListedExperiment, ...]:
        """The rows of the list, after waiting at most `patience` seconds for unread states."""
        deadline = time.monotonic() + patience
        # The oldest state first: where the worker has no time for all, none is left out for ever.
        for view in sorted(views.values(), key=lambda v: v.state.due):
            unread = view.state.value is None
            view.state.latest(max(deadline - time.monotonic(), 0.0) if unread else 0.0)
        return tuple(view.listed() for view in views.values())


WAITING = "The page is being computed."
COMPARING = "The comparisons and the details are being computed."
INVERTING = "The intervals of the differences of pairs are being computed."
READING = "The records are being read."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAddress:
    """Where `rlexp view` serves its pages until it ends.

    Attributes:
        address: The address of the page, with the token that gives access.
        port: The port on 127.0.0.1.
    """

    schema: ClassVar[Schema] = Schema("served-address")

    address: str
    port: int


def view(
    target: str | None,
    workspace: Workspace,
    *,
    phase: str | None = None,
    overrides: Sequence[str] = (),
) -> Viewer:
    """The documents of a workspace, of which the first is that of a target.

    Args:
        target: An experiment; None for the list.
        workspace: The workspace.
        phase: The phase of the pages; None for that of a report by default.
        overrides: Changed settings of `conf/report.yaml`.

    Raises:
        RlexpError: There is no such experiment, phase or setting, or the configuration of reports
            is wrong.
    """
    if target is not None:
        workspace.experiment(target)
    workspace.make_allowed_importable()
    return Viewer(workspace, phase=phase, overrides=overrides)


def page_path(target: str | None, workspace: Workspace) -> str:
    """The path of the page of a target; empty for the list of experiments.

    Raises:
        RecordError: There is no such experiment.
    """
    return "" if target is None else f"{quote(workspace.experiment(target).name, safe='')}/"


def _notice(title: str, text: str) -> ReportDocument:
    """A page that only says something."""
    block = Text(text=text) if text == WAITING else Callout(tone=Tone.PROBLEM, text=text)
    part = SectionContent(name="notice", title="State", blocks=(block,))
    return ReportDocument(
        title=title, subtitle="", labels=(), parts=(part,), version=version("rlexp")
    )


def _as_document(page: RenderedPage) -> ViewDocument:
    return ViewDocument(
        content=page.html.encode(), media_type="text/html; charset=utf-8", policy=page.policy
    )


def _state_document(state: PageState) -> ViewDocument:
    masked = mask_all(to_json(state), secret_values(os.environ))
    content = json.dumps(masked, allow_nan=False).encode()
    return ViewDocument(content=content, media_type="application/json", policy=STATE_POLICY)


def _mask(text: str) -> str:
    return mask_known(text, secret_values(os.environ))


def _digest(value: object) -> str:
    return sha256(repr(value).encode("utf-8", "replace")).hexdigest()[:32]
