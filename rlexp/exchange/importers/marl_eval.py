"""JSON of marl-eval: environment → task → algorithm → run → step → episodes of an evaluation."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlexp.errors import did_you_mean
from rlexp.exchange.importers.parse_values import (
    parse_name,
    parse_number,
    parse_whole_number,
    seed_from_name,
    shortened_repr,
)
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, unused_files
from rlexp.exchange.importers.study import (
    ImportedRun,
    ImportedStudy,
    Point,
    Returns,
    Unit,
    Wanted,
    malformed_error,
    until_not_finite,
)

ABSOLUTE = "absolute_metrics"
"""Of the best policy: the maximum of noisy evaluations, which is never a score here."""
OTHERS = frozenset({"step_count", "elapsed_time"})
"""What stands beside the metrics of a step."""
USUAL = ("return", "episode_return", "mean_episode_return", "episode_reward")
"""Names of the metric that is taken where there are several."""
LEVELS = ("environment", "task", "algorithm", "run")
DEEPEST = 20


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a file that looks like one."""
    return any(file.last.endswith(".json") for file in files)


def read_marl_eval(files: Sequence[SourceFile], wanted: Wanted) -> ImportedStudy:
    """Read runs.

    Raises:
        MalformedError: A file is not in this form; names the key.
        ConfigError: Nothing says what a step is.
    """
    unit = wanted.required_unit("marl-eval")
    used = [file for file in files if file.last.endswith(".json")]
    runs: list[ImportedRun] = []
    left_out = unused_files(files, used)
    for file in used:
        loaded = file.load()
        for path, plain in _runs(_parsed(loaded), loaded.name):
            runs.append(_run(path, plain, loaded, wanted, unit))
            if ABSOLUTE in plain:
                left_out.append(f"{'/'.join(path)}/{ABSOLUTE}, which are of the best policy")
    return ImportedStudy(kind="marl-eval", runs=tuple(runs), left_out=tuple(left_out))


def _parsed(loaded: LoadedFile) -> Any:
    try:
        return json.loads(loaded.text(), object_pairs_hook=lambda pairs: _once(pairs, loaded.name))
    except json.JSONDecodeError as error:
        raise malformed_error(
            loaded.name, f"line {error.lineno}", f"no JSON: {error.msg}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise malformed_error(loaded.name, "", "it is nested too deep, or no JSON") from error


def _once(pairs: Sequence[tuple[str, Any]], name: str) -> dict[str, Any]:
    """A mapping, in which no key may stand twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise malformed_error(name, f"key {shortened_repr(twice)}", "it stands there twice")
    return found


def _runs(plain: Any, name: str) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Every run under its path of keys."""
    layer: list[tuple[tuple[str, ...], Any]] = [((), plain)]
    for level in LEVELS:
        below: list[tuple[tuple[str, ...], Any]] = []
        for path, value in layer:
            for key, item in _mapping(value, path, name).items():
                own = (*path, parse_name(key, name, _place(path), level))
                below.append((own, item))
        layer = below
    yield from ((path, _mapping(value, path, name)) for path, value in layer)


def _mapping(value: Any, path: Sequence[str], name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise malformed_error(
            name, _place(path), f"it is {shortened_repr(value)}, and not a mapping with keys"
        )
    return value


def _place(path: Sequence[str]) -> str:
    return f"key {'/'.join(path)}" if path else "top"


def _run(
    path: tuple[str, ...], plain: Mapping[str, Any], loaded: LoadedFile, wanted: Wanted, unit: Unit
) -> ImportedRun:
    environment, task, algorithm, run = path
    steps = {key: value for key, value in plain.items() if key != ABSOLUTE}
    metric = _metric(steps, path, loaded.name, wanted)
    points = sorted(
        (_point((*path, key), value, metric, loaded.name, unit) for key, value in steps.items()),
        key=lambda point: point.step,
    )
    kept, trouble = until_not_finite(tuple(points))
    return ImportedRun(
        name="/".join(path),
        label=wanted.label or algorithm,
        task=wanted.task or f"{environment}/{task}",
        seed=int(run) if run.isdecimal() and len(run) < 10 else seed_from_name(run),
        points=kept,
        returns=wanted.returns or Returns.EVALUATIONS,
        files=(loaded.sum,),
        details={"metric": metric},
        trouble=trouble,
    )


def _metric(steps: Mapping[str, Any], path: tuple[str, ...], name: str, wanted: Wanted) -> str:
    if not steps:
        raise malformed_error(name, _place(path), "it has no step")
    key, first = next(iter(steps.items()))
    metrics = [k for k in _mapping(first, (*path, key), name) if k not in OTHERS]
    usual = [metric for metric in USUAL if metric in metrics]
    chosen = wanted.metric or next(iter(usual or metrics), None)
    ambiguous = wanted.metric is None and not usual and len(metrics) > 1
    if chosen not in metrics or ambiguous:
        there = ", ".join(sorted(metrics)[:20]) or "none"
        hint = did_you_mean(chosen, metrics) if chosen and not ambiguous else ""
        what = f"name the metric with --metric (there are: {there}){hint}"
        raise malformed_error(name, _place((*path, key)), what)
    return str(chosen)


def _point(path: tuple[str, ...], value: Any, metric: str, name: str, unit: Unit) -> Point:
    plain, where = _mapping(value, path, name), _place(path)
    for key in ("step_count", metric):
        if key not in plain:
            raise malformed_error(name, where, f"it has no {key!r}")
    values = plain[metric] if isinstance(plain[metric], list) else [plain[metric]]
    if not values:
        raise malformed_error(name, where, f"{metric!r} holds no episode")
    return Point(
        step=unit.convert(parse_whole_number(plain["step_count"], name, where, "step_count")),
        returns=tuple(parse_number(v, name, where, metric) for v in values),
    )
