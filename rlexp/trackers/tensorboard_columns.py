"""The columns of TensorBoard's table of hyperparameters: settings, and the score.

Without a declaration, TensorBoard shows every metric of every run as a column. It reads a single
declaration, the first that it finds. So there is one for all experiments of a folder, made of the
settings that each experiment keeps in a file of its own.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlexp.trackers.event_file import EventFileWriter

SETTINGS = ".settings"
"""The file of an experiment with the kind of each of its settings, by name."""
DECLARATION = Path("~ columns", "events.out.tfevents.0000000000.rlexp")
"""The file of the declaration; its folder sorts after those of all experiments."""
AFTER_ALL = float(2**32)
"""A time after the start of every run: TensorBoard lists runs by the time of their first event."""
FIRST_SHOWN = ("label", "phase", "seed")
KINDS = ("number", "text", "truth")


def declare_columns(experiment: Path, settings: Mapping[str, Any]) -> None:
    """Declare the settings of a run as columns, together with those of all other experiments.

    Args:
        experiment: The folder of the experiment. One process at a time writes into it.
        settings: The settings of one of its runs.
    """
    stored = _read(experiment)
    kinds = {**stored, **{name: _kind(value) for name, value in settings.items()}}
    file = experiment.parent / DECLARATION
    if kinds == stored and file.exists():
        return
    (experiment / SETTINGS).write_text(json.dumps(kinds))
    every: dict[str, str] = {}
    for path in sorted(experiment.parent.glob(f"*/{SETTINGS}")):
        every |= _read(path.parent)
    # Published whole: another experiment may write its declaration at the same time.
    temporary = file.parent / f".{experiment.name}"
    writer = EventFileWriter(temporary, 0, AFTER_ALL)
    writer.summary(_declaration(every), 0, AFTER_ALL)
    writer.length()
    writer.close()
    temporary.replace(file)


def _read(experiment: Path) -> dict[str, str]:
    """The kinds of an experiment's settings; empty where the file is missing or damaged."""
    try:
        kinds = json.loads((experiment / SETTINGS).read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(kinds, dict):
        return {}
    return {str(name): kind for name, kind in kinds.items() if kind in KINDS}


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, int | float) else "text"


def _declaration(kinds: Mapping[str, str]) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
    from tensorboard.plugins.hparams.metadata import (
        EXPERIMENT_TAG,
        NULL_TENSOR,
        create_summary_metadata,
    )

    types = {
        "number": api_pb2.DATA_TYPE_FLOAT64,
        "text": api_pb2.DATA_TYPE_STRING,
        "truth": api_pb2.DATA_TYPE_BOOL,
    }
    first = ("label", "task", "phase", "trial", "seed")
    names = [*(n for n in first if n in kinds), *(n for n in sorted(kinds) if n not in first)]
    experiment = api_pb2.Experiment(
        # TensorBoard shows five columns at first: those that are said to differ, then by name.
        hparam_infos=[
            api_pb2.HParamInfo(name=n, type=types[kinds[n]], differs=n in FIRST_SHOWN)
            for n in names
        ],
        metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag="score"))],
    )
    content = plugin_data_pb2.HParamsPluginData(experiment=experiment)
    about = create_summary_metadata(content)
    return Summary(value=[Summary.Value(tag=EXPERIMENT_TAG, metadata=about, tensor=NULL_TENSOR)])
