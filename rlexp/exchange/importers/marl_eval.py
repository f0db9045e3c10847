"""Importer of marl-eval's JSON: environment → task → algorithm → run → step → returns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlexp.errors import RlexpError, did_you_mean
from rlexp.exchange.importers.imported_study import (
    EvaluationPoint,
    ImportedRun,
    ImportedStudy,
    ImportOptions,
    ReturnKind,
    StepUnit,
    malformed_error,
    until_not_finite,
)
from rlexp.exchange.importers.naming import RunFacts, RunIdentity, RunNaming
from rlexp.exchange.importers.parse_values import (
    parse_name,
    parse_number,
    parse_whole_number,
    seed_from_name,
    shortened_repr,
)
from rlexp.exchange.importers.series import names_returns
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, unused_files

ABSOLUTE = "absolute_metrics"
"""Results of the best policy. They are not imported: the maximum of noisy evaluations is biased."""
OTHERS = frozenset({"step_count", "elapsed_time"})
"""Keys of a step that are not metrics."""
USUAL = ("return", "episode_return", "mean_episode_return", "episode_reward")
"""Metrics that are imported if there are several and none is named."""
LEVELS = ("environment", "task", "algorithm", "run")
DEEPEST = 20


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a JSON file with runs below environment, task and algorithm."""
    return any(_holds_runs(file) for file in files if file.last.endswith(".json"))


def _holds_runs(file: SourceFile) -> bool:
    """Whether a JSON file has the levels of marl-eval, down to the first step of the first run."""
    try:
        text = file.load().text()
    except RlexpError:
        return True
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        # Other tools write an object a line. Anything else is a damaged file, which reading names.
        return not _is_json(text.partition("\n")[0])
    # Below the levels of names follow the steps of a run, and the metrics of a step.
    for _ in range(len(LEVELS) + 1):
        if not isinstance(value, dict) or not value:
            return False
        value = next(iter(value.values()))
    return isinstance(value, dict)


def read_marl_eval(files: Sequence[SourceFile], options: ImportOptions) -> ImportedStudy:
    """Read runs.

    Raises:
        MalformedError: A file has another form; the message names the key.
        ConfigError: The user does not give the unit of steps.
    """
    used = [file for file in files if file.last.endswith(".json")]
    runs: list[ImportedRun] = []
    left_out = unused_files(files, used)
    naming = RunNaming(options)
    for file in used:
        loaded = file.load()
        for path, steps in _runs(_parsed(loaded), loaded.name):
            identity = naming.identify(_facts(path, loaded.name))
            if identity is None:
                continue
            runs.append(_run(path, steps, loaded, identity, options))
            if ABSOLUTE in steps:
                left_out.append(f"{'/'.join(path)}/{ABSOLUTE}, the results of the best policy")
    naming.check()
    left_out += naming.left_out()
    return ImportedStudy(kind="marl-eval", runs=tuple(runs), left_out=tuple(left_out))


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(loaded: LoadedFile) -> Any:
    try:
        # Python's parser would silently keep the last of repeated keys.
        return json.loads(
            loaded.text(),
            object_pairs_hook=lambda pairs: _without_repeated_keys(pairs, loaded.name),
        )
    except json.JSONDecodeError as error:
        raise malformed_error(
            loaded.name, f"line {error.lineno}", f"it is not JSON: {error.msg}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise malformed_error(loaded.name, "", "it is nested too deeply, or not JSON") from error


def _without_repeated_keys(pairs: Sequence[tuple[str, Any]], name: str) -> dict[str, Any]:
    """The mapping of these pairs; a repeated key is an error."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise malformed_error(name, f"key {shortened_repr(twice)}", "it is repeated")
    return mapping


def _runs(content: Any, name: str) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Every run under its path of keys."""
    layer: list[tuple[tuple[str, ...], Any]] = [((), content)]
    for level in LEVELS:
        below: list[tuple[tuple[str, ...], Any]] = []
        for path, value in layer:
            for key, item in _mapping(value, path, name).items():
                key_path = (*path, parse_name(key, name, _key_path(path), level))
                below.append((key_path, item))
        layer = below
    yield from ((path, _mapping(value, path, name)) for path, value in layer)


def _mapping(value: Any, path: Sequence[str], name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise malformed_error(
            name, _key_path(path), f"it is {shortened_repr(value)}, and not a mapping with keys"
        )
    return value


def _key_path(path: Sequence[str]) -> str:
    return f"key {'/'.join(path)}" if path else "top"


def _facts(path: tuple[str, ...], name: str) -> RunFacts:
    environment, task, algorithm, run = path
    return RunFacts(
        name="/".join(path),
        source=name,
        paths=(name, "/".join(path)),
        parameters=dict(zip(LEVELS, path, strict=True)),
        label=algorithm,
        task=f"{environment}/{task}",
        seed=int(run) if run.isdecimal() and len(run) < 10 else seed_from_name(run),
        where=_key_path(path),
    )


def _run(
    path: tuple[str, ...],
    content: Mapping[str, Any],
    loaded: LoadedFile,
    identity: RunIdentity,
    options: ImportOptions,
) -> ImportedRun:
    steps = {key: value for key, value in content.items() if key != ABSOLUTE}
    metric = _metric(steps, path, loaded.name, options)
    unit = options.required_unit("marl-eval")
    points = sorted(
        (_point((*path, key), value, metric, loaded.name, unit) for key, value in steps.items()),
        key=lambda point: point.step,
    )
    kept, trouble = until_not_finite(tuple(points))
    return ImportedRun(
        name="/".join(path),
        label=identity.label,
        task=identity.task,
        seed=identity.seed,
        points=kept,
        returns=options.returns or ReturnKind.EVALUATIONS,
        files=(loaded.sum,),
        settings=identity.settings,
        details={"metric": metric},
        trouble=trouble,
        metric=None if names_returns(metric) else metric,
    )


def _metric(
    steps: Mapping[str, Any], path: tuple[str, ...], name: str, options: ImportOptions
) -> str:
    if not steps:
        raise malformed_error(name, _key_path(path), "it has no step")
    key, first = next(iter(steps.items()))
    metrics = [k for k in _mapping(first, (*path, key), name) if k not in OTHERS]
    usual = [metric for metric in USUAL if metric in metrics]
    chosen = options.metric or next(iter(usual or metrics), None)
    ambiguous = options.metric is None and not usual and len(metrics) > 1
    if chosen not in metrics or ambiguous:
        there = ", ".join(sorted(metrics)[:20]) or "none"
        hint = did_you_mean(chosen, metrics) if chosen and not ambiguous else ""
        what = f"name the metric with --metric (there are: {there}){hint}"
        raise malformed_error(name, _key_path((*path, key)), what)
    return str(chosen)


def _point(
    path: tuple[str, ...], value: Any, metric: str, name: str, unit: StepUnit
) -> EvaluationPoint:
    metrics, where = _mapping(value, path, name), _key_path(path)
    for key in ("step_count", metric):
        if key not in metrics:
            raise malformed_error(name, where, f"it has no {key!r}")
    values = metrics[metric] if isinstance(metrics[metric], list) else [metrics[metric]]
    if not values:
        raise malformed_error(name, where, f"{metric!r} holds no episode")
    return EvaluationPoint(
        step=unit.convert(parse_whole_number(metrics["step_count"], name, where, "step_count")),
        returns=tuple(parse_number(v, name, where, metric) for v in values),
    )
