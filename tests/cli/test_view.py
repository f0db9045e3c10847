"""`rlexp view` serves pages to this machine only, changes nothing, and follows the records."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pexpect
import pytest
from command_line import typed
from stored_runs import PROVENANCE, configuration, stored, study
from viewing import Client, served

from rlexp.app.commands.judge import report as report_case
from rlexp.app.commands.judge.report import compute_report_in_stages
from rlexp.app.commands.look import view as use_case
from rlexp.cli.look.page_server import PageServer
from rlexp.protocol.seeds import Phase
from rlexp.store.locks.lease import hold

RUNS = 60
"""Runs of an experiment that is large enough for a catalogue."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of the user is a folder of the test."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a server with the experiment `alpha`, which lasts for the module."""
    folder = tmp_path_factory.mktemp("view")
    experiment = stored(study(folder).layout, "alpha")
    for seed, score in enumerate((10.0, 20.0, 40.0)):
        experiment.complete(seed, score)
    with served(study(folder)) as made:
        yield made


def test_the_page_has_the_report_and_the_list_has_the_experiment(client: Client) -> None:
    """The page shows the answer of the report, and the list its state and a link."""
    page = client.page("alpha")
    assert "3 of 3 runs" in page
    state = client.get("alpha/state.json").state
    assert ["Not running: 3 runs (3 completed)"] == state["lines"]
    listing = client.get().content.decode()
    assert '<a href="alpha/">' in listing
    assert "3 of 3 done" in listing
    assert "complete</span>" in listing


@pytest.mark.parametrize(
    "path",
    ["/", "/alpha/", "/wrong/", "/wrong/alpha/", "/TOKEX/", "//", "/%00/", "/TOKEN", "*"],
)
def test_nothing_is_served_without_the_token(client: Client, path: str) -> None:
    """A path without the exact token gives 404 and no content."""
    token = client.server.token
    refused = client.raw(path.replace("TOKEX", token[:-1]).replace("TOKEN", token))
    assert (404, b"") == (refused.status, refused.content)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:PORT", "127.0.0.1", "", "[::1]:PORT"]
)
def test_a_foreign_name_of_the_server_is_refused(client: Client, host: str) -> None:
    """A page whose name was bound to this address later (DNS rebinding) gets 403 and no content."""
    refused = client.get("alpha/", Host=host.replace("PORT", str(client.server.port)))
    assert (403, b"") == (refused.status, refused.content)
    assert 200 == client.get(Host=f"localhost:{client.server.port}").status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "X"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    """Only GET and HEAD are answered."""
    refused = client.get("alpha/", method)
    assert (405, b"", "GET, HEAD") == (refused.status, refused.content, refused.headers["Allow"])


def test_head_is_answered_without_content(client: Client) -> None:
    """HEAD has the headers of GET and no content."""
    answer = client.get("alpha/", "HEAD")
    assert (200, b"") == (answer.status, answer.content)
    assert int(answer.headers["Content-Length"]) > 1000


@pytest.mark.parametrize(
    "path",
    [
        *("../alpha/", "..%2f..%2fetc/passwd", "alpha/../alpha/", "alpha/experiment.json"),
        *("alpha//", "%2e%2e/", "runs/alpha/", "alpha", "alpha/state.json/", "//", "beta/"),
        *("%ff/", "alpha%00/", "state.json/", "alpha\\/"),
    ],
)
def test_only_names_of_experiments_lead_to_documents(client: Client, path: str) -> None:
    """No other path leads anywhere, in the workspace or out of it."""
    refused = client.get(path)
    assert (404, b"") == (refused.status, refused.content)


@pytest.mark.parametrize("path", ["", "alpha/", "state.json", "beta/"])
def test_every_answer_has_the_headers_of_a_private_page(client: Client, path: str) -> None:
    """Nothing is stored, framed, sniffed or told to other sites; scripts have the page's hash."""
    headers = client.get(path).headers
    assert "no-store" == headers["Cache-Control"]
    assert "nosniff" == headers["X-Content-Type-Options"]
    assert "no-referrer" == headers["Referrer-Policy"]
    assert "DENY" == headers["X-Frame-Options"]
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert ("connect-src 'self'" in policy) == (path in {"", "alpha/"})


def test_tokens_differ_and_the_address_is_loopback() -> None:
    """Each server has its own token of 192 bits, and listens on 127.0.0.1 only."""
    with PageServer(0, lambda _: None) as first, PageServer(0, lambda _: None) as second:
        assert first.token != second.token
        assert 32 == len(first.token)
        assert "127.0.0.1" == first.socket.getsockname()[0]


def test_a_new_run_gives_a_new_version(tmp_path: Path) -> None:
    """When a run is completed, the version of the page, the page and the list change."""
    experiment = stored(study(tmp_path).layout, "alpha")
    experiment.complete(0, 10.0)
    with served(study(tmp_path)) as client:
        client.page("alpha")
        old = client.get("alpha/state.json").state
        experiment.complete(1, 20.0)
        page = client.page("alpha", other_than=old["version"])
        assert "2 of 3 runs" in page
        assert "2 completed" in client.get("alpha/state.json").state["lines"][0]
        assert "2 of 3 done" in client.get().content.decode()


def test_two_viewers_share_one_computation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is computed once for all viewers, and not again while the records stay."""
    computed = []
    compute = compute_report_in_stages

    def counted(*arguments: object) -> object:
        computed.append(threading.get_ident())
        return compute(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(use_case, "compute_report_in_stages", counted)
    monkeypatch.setattr(use_case, "PAGE_AGE", 0.0)
    stored(study(tmp_path).layout, "alpha").complete(0, 10.0)
    with served(study(tmp_path)) as client:
        viewers = [threading.Thread(target=client.page, args=("alpha",)) for _ in range(2)]
        for viewer in viewers:
            viewer.start()
        for viewer in viewers:
            viewer.join()
        for _ in range(20):
            client.get("alpha/state.json")
        assert 1 == len(computed)


def contents(folder: Path) -> dict[str, tuple[float, bytes]]:
    """Times and contents of all files and folders below a folder."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [folder, *sorted(folder.rglob("*"))]
    }


def test_nothing_is_written_into_runs(tmp_path: Path, cache: Path) -> None:
    """The folder stays as it is, also for an experiment whose catalogue is worth writing."""
    experiment = stored(study(tmp_path).layout, "alpha", test=RUNS)
    for seed in range(RUNS):
        run = experiment.complete(seed, float(seed))
        for path in [*run.folder.rglob("*"), run.folder]:
            # Only runs that have not changed for a while are put into a catalogue.
            os.utime(path, (1.0, 1.0))
    before = contents(tmp_path / "runs")
    with served(study(tmp_path)) as client:
        assert f"{RUNS} of {RUNS} runs" in client.page("alpha")
        client.get()
    assert before == contents(tmp_path / "runs")


def test_damaged_records_are_named_and_others_are_shown(tmp_path: Path) -> None:
    """An experiment that cannot be read has a page that says why; the others stay."""
    good, bad = (stored(study(tmp_path).layout, name) for name in ("good", "bad"))
    good.complete(0, 10.0)
    bad.complete(0, 10.0)
    bad.paths.definition.write_text('{"seeds": 3}')
    with served(study(tmp_path)) as client:
        assert "1 of 3 runs" in client.page("good")
        assert "experiment.json" in client.page("bad")
        listing = client.get().content.decode()
        assert "damaged</span>" in listing
        assert '<a href="good/">' in listing
        assert client.get("bad/state.json").state["problems"]


def test_an_empty_workspace_says_how_to_begin(tmp_path: Path) -> None:
    """Without experiments, the list says what to type."""
    with served(study(tmp_path)) as client:
        assert "holds no runs yet" in client.get().content.decode()
        assert not (tmp_path / "runs").exists()


def test_secrets_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a secret variable is on no page."""
    secret = "Tr0ub4dor-and-3-staples"
    monkeypatch.setenv("SERVICE_PASSWORD", secret)
    experiment = stored(study(tmp_path).layout, "alpha")
    provenance = {**PROVENANCE, "command": ["rlexp", "run", f"x={secret}"]}
    experiment.complete(0, 10.0, provenance=provenance)
    with served(study(tmp_path)) as client:
        page = client.page("alpha")
        assert "x=********" in page
        assert secret not in page + client.get().content.decode()


def test_a_large_experiment_has_scores_before_its_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the comparisons are computed, the page has the scores of every label."""
    computing, shown = threading.Event(), threading.Event()

    def waits(*arguments: object) -> object:
        computing.set()
        shown.wait(120)
        return compute_report_in_stages(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(use_case, "compute_report_in_stages", waits)
    monkeypatch.setattr(use_case, "LARGE", 9)
    labels = ("ppo", "a2c", "dqn")
    experiment = stored(study(tmp_path).layout, "alpha", *map(configuration, labels))
    for label in labels:
        for seed in range(3):
            experiment.complete(seed, 10.0 * seed, label=label)
    with served(study(tmp_path)) as client:
        client.get("alpha/")
        assert computing.wait(120)
        first = client.get("alpha/").content.decode()
        state = client.get("alpha/state.json").state
        assert "3 labels on CartPole-v1, being compared" in first
        assert "Interquartile mean (IQM) of the return." in first
        assert state["computing"]
        shown.set()
        page = client.page("alpha", other_than=state["version"])
        assert "being compared" not in page
        assert "Verdict on every pair" in page
        assert "" == client.get("alpha/state.json").state["computing"]


def test_a_new_page_of_many_pairs_comes_before_their_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a run has ended, the page with its score is there while intervals are computed."""
    computing, shown = threading.Event(), threading.Event()

    def waits(*arguments: object) -> Iterator[object]:
        early, complete = compute_report_in_stages(*arguments)  # type: ignore[arg-type]
        yield early
        computing.set()
        shown.wait(120)
        yield complete

    labels = ("ppo", "a2c", "dqn")
    monkeypatch.setattr(report_case, "STAGED", len(labels))
    experiment = stored(study(tmp_path).layout, "alpha", *map(configuration, labels))
    for label in labels:
        for seed in range(2):
            experiment.complete(seed, 10.0 * seed, label=label)
    with served(study(tmp_path)) as client:
        client.until("alpha/", lambda s: s["version"] and not s["computing"])
        old = client.get("alpha/state.json").state
        monkeypatch.setattr(use_case, "compute_report_in_stages", waits)
        experiment.complete(2, 70.0, label="ppo")
        client.until("alpha/", lambda _: computing.is_set())
        early = client.get("alpha/state.json").state
        assert early["version"] != old["version"]
        assert "intervals" in early["computing"]
        assert "7 of 9 test runs finished" in client.get("alpha/").content.decode()
        shown.set()
        complete = client.until("alpha/", lambda s: not s["computing"])
        assert complete["version"] not in {old["version"], early["version"]}


def test_runs_wait_while_a_command_drives_them(tmp_path: Path) -> None:
    """The list says that runs wait while a command is about to execute them, and else that they miss."""
    experiment = stored(study(tmp_path).layout, "alpha")
    experiment.complete(0, 10.0)
    with served(study(tmp_path)) as client:
        assert "Checks that failed" in client.page("alpha")
        assert "1 of 3 done, 2 missing" in client.get().content.decode()
    held = hold(experiment.paths.lock, "experiment alpha", now=time.time())
    with held, served(study(tmp_path)) as client:
        assert "Checks that fail so far" in client.page("alpha")
        assert "1 of 3 done, 2 waiting" in client.get().content.decode()


def test_phase_and_settings_are_those_of_the_report(tmp_path: Path) -> None:
    """`--phase` and `--set` change the pages; a wrong one is refused before anything is served."""
    experiment = stored(study(tmp_path).layout, "alpha")
    experiment.complete(0, 10.0, phase=Phase.TUNING)
    settings = ("section=[protocol]",)
    with served(study(tmp_path), phase="tuning", overrides=settings) as client:
        page = client.page("alpha")
        assert "1 of 2 tuning runs finished" in page
        assert 'id="protocol"' in page
        assert 'id="verdicts"' not in page
    for words, said in (
        (("--phase", "tset"), "there is no phase 'tset'"),
        (("--set", "levl=0.9"), "levl"),
    ):
        refused = typed(tmp_path, "view", *words)
        assert (2, "", 1) == (refused.code, refused.out, len(refused.err.splitlines()))
        assert said in refused.err


def test_an_unknown_experiment_is_one_line(tmp_path: Path) -> None:
    """The error names the experiments that there are, and nothing is served."""
    stored(study(tmp_path).layout, "alpha")
    refused = typed(tmp_path, "view", "alpa")
    assert (2, "", 1) == (refused.code, refused.out, len(refused.err.splitlines()))
    assert "did you mean 'alpha'?" in refused.err


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    """A port that was asked for and is taken is an error that says what to type."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        refused = typed(tmp_path, "view", "--port", str(other.getsockname()[1]))
    assert (2, "", 1) == (refused.code, refused.out, len(refused.err.splitlines()))
    assert "leave --port out" in refused.err


def test_ctrl_c_ends_the_command_without_an_error(tmp_path: Path) -> None:
    """In a terminal, the command prints one line with the address, and Ctrl-C ends it with 0."""
    stored(study(tmp_path).layout, "alpha").complete(0, 10.0)
    words = ["-m", "rlexp", "view", "alpha"]
    command = pexpect.spawn(
        sys.executable, words, cwd=tmp_path, encoding="utf-8", timeout=120, dimensions=(24, 200)
    )
    command.expect(r"http://127\.0\.0\.1:\d+/[\w-]{32}/alpha/ \(Ctrl-C ends it\)\r\n")
    command.sendintr()
    command.expect(pexpect.EOF)
    command.close()
    assert 0 == command.exitstatus
    assert command.before.replace("^C", "").strip() == ""


def test_json_is_one_document_with_the_address(tmp_path: Path) -> None:
    """A script reads the address from a pipe while the pages are served."""
    stored(study(tmp_path).layout, "alpha").complete(0, 10.0)
    words = [sys.executable, "-m", "rlexp", "view", "alpha", "--json"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        lines = iter(command.stdout.readline, b"}\n")
        document = json.loads(b"".join(lines) + b"}")
        with urlopen(document["address"], timeout=120) as answer:
            assert 200 == answer.status
        command.send_signal(signal.SIGINT)
        assert 0 == command.wait(120)
    assert f":{document['port']}/" in document["address"]
    assert "served-address" == document["schema"]["name"]
