"""Writes the documents of a bundle: the page for readers, the container file, and the metadata.

Every document follows from the records and the manifest, so that `rlexp verify` can write it again and
compare. The metadata are an RO-Crate (https://w3id.org/ro/crate/1.1) and a file in the Citation File
Format 1.2.0 (https://citation-file-format.github.io).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.app.bundling.recorded_versions import (
    RecordedPlaces,
    RecordedVersions,
    constraints,
    versions_document,
)
from rlexp.records.integrity import SHORT
from rlexp.store.bundles.bundle_manifest import BUNDLE_MANIFEST, BundleManifest
from rlexp.text import format_count, join_names

CITATION, CODE = "CITATION.cff", "code.bundle"
CONSTRAINTS, CONTAINER, REQUIREMENTS = "constraints.txt", "Containerfile", "requirements.txt"
CRATE, PAGE, VERSIONS = "ro-crate-metadata.json", "README.md", "versions.json"
CRATE_CONTEXT = "https://w3id.org/ro/crate/1.1"
MEDIA_TYPES: Mapping[str, str] = {
    "cff": "application/yaml",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "svg": "image/svg+xml",
    "tex": "text/x-tex",
    "txt": "text/plain",
    "whl": "application/zip",
}
"""Media types by the endings of names."""
OTHER_TYPE = "application/octet-stream"
PYTHON = re.compile(r"3\.[0-9]{1,3}(\.[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BundledStudy:
    """The runs of an experiment in a bundle.

    Attributes:
        experiment: Its name.
        planned: Number of planned runs of the phases that have a run.
        scored: Number of them with a score.
        failed: Number of failed runs.
        absent: Number of planned runs that have not ended or never began.
        head: The head of its ledger; None where there is none.
        parents: Runs that its runs continue, and that are in no experiment of the bundle.
        datasets: Id and digest of the datasets from which its runs start, which no bundle holds.
    """

    experiment: str
    planned: int
    scored: int
    failed: int
    absent: int
    head: str | None
    parents: int = 0
    datasets: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """The number of runs, with the failed and absent ones."""
        others = {"failed": self.failed, "not finished": self.absent}
        named = "".join(f", {count:,} {state}" for state, count in others.items() if count)
        return f"{self.scored:,} of {format_count(self.planned, 'run')} with a score{named}"


def write_documents(
    manifest: BundleManifest,
    studies: Sequence[BundledStudy],
    versions: Sequence[RecordedVersions],
    places: RecordedPlaces,
    report_files: Sequence[str],
) -> dict[str, bytes]:
    """The documents of a bundle by their names.

    Args:
        manifest: The manifest; its list of files is not used.
        studies: The experiments.
        versions: The versions of the attempts, those of most attempts first.
        places: What provenance says about machines and code.
        report_files: The paths of the files of the reports.
    """
    documents = {
        PAGE: "\n".join(_page(manifest, studies, versions, places)).encode() + b"\n",
        CONTAINER: "\n".join(_container(manifest, studies, versions, places)).encode() + b"\n",
        CONSTRAINTS: constraints(versions),
        REQUIREMENTS: _requirements(manifest),
        VERSIONS: versions_document(versions),
    }
    if not manifest.declared.citation:
        documents[CITATION] = "\n".join(_citation(manifest)).encode() + b"\n"
    crate = _crate(manifest, [*documents, CITATION, *report_files])
    documents[CRATE] = (json.dumps(crate, indent=1, ensure_ascii=False) + "\n").encode(
        errors="backslashreplace"
    )
    return documents


def _requirements(manifest: BundleManifest) -> bytes:
    lines = [f"./{manifest.wheel}" if manifest.wheel else f"rlexp=={manifest.writer}"]
    return "".join(f"{line}\n" for line in [*lines, *manifest.requirements]).encode()


def _page(
    manifest: BundleManifest,
    studies: Sequence[BundledStudy],
    versions: Sequence[RecordedVersions],
    places: RecordedPlaces,
) -> Iterator[str]:
    declared = manifest.declared
    names = " ".join(study.experiment for study in studies)
    yield from (f"# {_one_line(declared.title)}", "")
    if declared.authors:
        yield from (f"By {join_names(_one_line(a.name) for a in declared.authors)}.", "")
    yield from ("| experiment | runs | head of the ledger |", "|---|---|---|")
    for study in studies:
        head = study.head[:SHORT] if study.head else "no ledger"
        yield f"| {study.experiment} | {study} | `{head}` |"
    yield from ("", "## Check it", "")
    yield "```bash"
    yield "rlexp verify ."
    yield "```"
    yield ""
    yield (
        f"Use an rlexp that you trust (this bundle was written by version {manifest.writer}), not the "
        "wheel in this bundle: whoever wrote the bundle could have changed it. `verify` compares every "
        f"file with `{BUNDLE_MANIFEST}`, checks the ledgers and registers, computes every number of the "
        "reports again from the records, and executes nothing from here. Compare the heads above with "
        "those that the paper prints (`--head HEX`): only this finds records that were made up as a whole."
    )
    yield from ("", "## Look at it", "", "```bash")
    yield from (f"rlexp show {study.experiment}" for study in studies)
    yield f"rlexp report {names}"
    yield from ("```", "", "## What is here", "", "| path | content |", "|---|---|")
    yield from _rows(manifest)
    yield from ("", "## Repeat it", "")
    yield from _repeat(manifest, studies, versions, places)
    yield from ("", "## What is not here", "")
    yield from _absent(manifest, studies, places)


def _rows(manifest: BundleManifest) -> Iterator[str]:
    yield f"| `{BUNDLE_MANIFEST}` | the sum of every file, and the heads of the ledgers and registers |"
    yield "| `runs/` | the records: a folder that every command of rlexp reads |"
    for report in manifest.reports:
        yield f"| `{report.folder}/` | the report of {join_names(report.targets)}: page, numbers (`report.json`), tables and data of figures (CSV), figures |"
    yield f"| `{CONSTRAINTS}`, `{REQUIREMENTS}` | the versions of the packages, for pip |"
    yield f"| `{VERSIONS}` | the versions of every attempt |"
    if manifest.wheel:
        yield f"| `{manifest.wheel}` | rlexp as it wrote this bundle |"
    if manifest.code:
        yield f"| `{CODE}` | the repository of the study, for `git fetch` |"
    yield f"| `{CONTAINER}` | installs these versions, checks the bundle, repeats a run |"
    yield f"| `{CRATE}`, `{CITATION}` | metadata |"


def _repeat(
    manifest: BundleManifest,
    studies: Sequence[BundledStudy],
    versions: Sequence[RecordedVersions],
    places: RecordedPlaces,
) -> Iterator[str]:
    yield "```bash"
    yield f"docker build -t study -f {CONTAINER} ."
    yield "docker run --rm study"
    yield "```"
    yield ""
    yield (
        "Without a container: install with `pip install -c constraints.txt -r requirements.txt` in a new "
        f"environment, and type `rlexp reproduce {studies[0].experiment} --runs 1`."
    )
    if len(versions) > 1:
        yield (
            f"The attempts have {len(versions)} sets of versions (`{VERSIONS}`); `{CONSTRAINTS}` has that "
            "of most attempts."
        )
    if places.commits and not manifest.code:
        remotes = f" of {join_names(places.remotes)}" if places.remotes else ""
        yield (
            f"`rlexp reproduce` needs the code of the study, which is not here: commit "
            f"{join_names(c[:SHORT] for c in places.commits[:3])}{remotes}. Copy `runs/` into a checkout."
        )
    elif manifest.code:
        yield f"The code of the study comes first: `git init -q . && git fetch -q {CODE} HEAD`."


def _absent(
    manifest: BundleManifest, studies: Sequence[BundledStudy], places: RecordedPlaces
) -> Iterator[str]:
    yield "- Checkpoints, logs, and files of trackers."
    yield "- Policies, unless `runs/` holds files `model.zip`; `left_out.json` has the sums of those that are not here."
    if not manifest.code:
        changes = f" Uncommitted changes are in `diff.patch` of {format_count(places.patches, 'attempt')}."
        yield f"- The code of the study.{changes if places.patches else ''}"
    for study in studies:
        if study.parents:
            yield f"- {format_count(study.parents, 'run')} that runs of {study.experiment} continue."
    for name, digest in sorted({each for study in studies for each in study.datasets}):
        yield (
            f"- The dataset {_one_line(name)}, from which runs start. The sha256 of its content (`dataset.digest`) is "
            f"`{digest}`. `MINARI_DATASETS_PATH` names the folder in which it is looked for."
        )
    yield ""
    yield (
        "The records name folders and machines of those who made them. They cannot be removed: the ledger "
        "holds the sums of these files. The registers are whole, because a part of a chain cannot be "
        "checked: they also name other experiments of the same workspace."
    )


def _container(
    manifest: BundleManifest,
    studies: Sequence[BundledStudy],
    versions: Sequence[RecordedVersions],
    places: RecordedPlaces,
) -> Iterator[str]:
    python = versions[0].python if versions and PYTHON.fullmatch(versions[0].python) else "3.11"
    yield "# Installs the recorded versions, checks the bundle, and repeats a run:"
    yield f"#   docker build -t study -f {CONTAINER} . && docker run --rm study"
    yield f"FROM docker.io/library/python:{python}-slim"
    yield "RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*"
    yield "WORKDIR /study"
    # Packages come first: this layer stays when other files of the bundle change.
    wheel = f" {manifest.wheel}" if manifest.wheel else ""
    yield f"COPY {CONSTRAINTS} {REQUIREMENTS}{wheel} ./"
    yield f"RUN pip install --no-cache-dir -c {CONSTRAINTS} -r {REQUIREMENTS}"
    yield "COPY . ."
    yield "RUN rlexp verify ."
    if manifest.code:
        yield f"RUN git init -q . && git fetch -q {CODE} HEAD"
    elif places.commits:
        yield f"# The runs recorded commit {places.commits[0]} of a repository that is not in the bundle."
        yield "# 'rlexp reproduce' needs it here: add 'RUN git clone ...' and copy runs/ into it."
    command = ["rlexp", "reproduce", studies[0].experiment, "--runs", "1"]
    yield f"CMD {json.dumps(command)}"


def _citation(manifest: BundleManifest) -> Iterator[str]:
    declared = manifest.declared
    yield "cff-version: 1.2.0"
    yield "message: If you use these records, please cite them as below."
    yield "type: dataset"
    yield f"title: {_yaml(declared.title)}"
    yield f"date-released: {_yaml(declared.published)}"
    if declared.license:
        yield f"license: {_yaml(declared.license)}"
    # The format requires an author.
    yield "authors:"
    for author in declared.authors:
        yield f"  - name: {_yaml(author.name)}"
        if author.orcid:
            yield f"    orcid: {_yaml(author.orcid)}"
    if not declared.authors:
        yield "  - name: The authors of the study"


def _yaml(text: str) -> str:
    """A text in double quotes; a JSON text is a YAML text."""
    return json.dumps(_one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _crate(manifest: BundleManifest, files: Sequence[str]) -> dict[str, Any]:
    graph = [
        {
            "@id": CRATE,
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": CRATE_CONTEXT},
        },
        _root(manifest, files),
        *_data(manifest, files),
        *_people(manifest),
        *_software(manifest),
    ]
    return {"@context": f"{CRATE_CONTEXT}/context", "@graph": graph}


def _root(manifest: BundleManifest, files: Sequence[str]) -> dict[str, Any]:
    declared = manifest.declared
    experiments = join_names(ledger.experiment for ledger in manifest.ledgers)
    root: dict[str, Any] = {
        "@id": "./",
        "@type": "Dataset",
        "name": declared.title,
        "description": f"Records, reports and versions of the reinforcement-learning experiments {experiments}.",
        "datePublished": declared.published,
        "hasPart": [{"@id": name} for name in _parts(manifest, files)],
        "author": [{"@id": _author_id(n, a.orcid)} for n, a in enumerate(declared.authors, 1)],
        "mentions": {"@id": "#rlexp-bundle"},
    }
    if declared.license:
        root["license"] = {"@id": _license_id(declared.license)}
    return root


def _parts(manifest: BundleManifest, files: Sequence[str]) -> list[str]:
    folders = [f"runs/{ledger.experiment}/" for ledger in manifest.ledgers]
    registers = ("looks", manifest.looks), ("protocols", manifest.protocols)
    named = [f"runs/{name}.jsonl" for name, head in registers if head is not None]
    others = [manifest.wheel] if manifest.wheel else []
    others += [CODE] if manifest.code else []
    return [*folders, *named, BUNDLE_MANIFEST, *sorted({*files, *others})]


def _data(manifest: BundleManifest, files: Sequence[str]) -> Iterator[dict[str, Any]]:
    heads = {f"runs/{ledger.experiment}/": ledger for ledger in manifest.ledgers}
    for name in _parts(manifest, files):
        if name in heads:
            ledger = heads[name]
            yield {
                "@id": name,
                "@type": "Dataset",
                "name": f"Records of the experiment {ledger.experiment}",
                "description": f"Head of its ledger: {ledger.head or 'none'}",
            }
        else:
            ending = name.rpartition(".")[2]
            yield {
                "@id": name,
                "@type": "File",
                "name": name.rpartition("/")[2],
                "encodingFormat": MEDIA_TYPES.get(ending, OTHER_TYPE),
            }


def _people(manifest: BundleManifest) -> Iterator[dict[str, Any]]:
    for number, author in enumerate(manifest.declared.authors, 1):
        yield {"@id": _author_id(number, author.orcid), "@type": "Person", "name": author.name}
    if named := manifest.declared.license:
        yield {
            "@id": _license_id(named),
            "@type": "CreativeWork",
            "name": named,
            "description": f"License {named}",
        }


def _software(manifest: BundleManifest) -> Iterator[dict[str, Any]]:
    yield {
        "@id": "#rlexp",
        "@type": "SoftwareApplication",
        "name": "rlexp",
        "softwareVersion": manifest.writer,
        "version": manifest.writer,
    }
    yield {
        "@id": "#rlexp-bundle",
        "@type": "CreateAction",
        "name": "rlexp bundle",
        "instrument": {"@id": "#rlexp"},
        "result": {"@id": "./"},
    }


def _author_id(number: int, orcid: str | None) -> str:
    return orcid or f"#author-{number}"


def _license_id(identifier: str) -> str:
    return f"https://spdx.org/licenses/{identifier}"
