"""Colours of labels differ for every colour vision, on light and dark pages."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from study_samples import LABELS, SAMPLES, many_labels, sweep, typical

from rlexp.reports.drawing.blocks import (
    Axis,
    IntervalFigure,
    IntervalMark,
    Panel,
    PointSeries,
    ReportDocument,
    ScatterFigure,
    SectionContent,
)
from rlexp.reports.drawing.palette import (
    DARK,
    DASHES,
    FURTHER_SHAPES,
    LIGHT,
    MARKERS,
    RISING_DARK,
    RISING_LIGHT,
    SHAPES,
    Style,
    legend_labels,
    shade,
    styles,
)
from rlexp.stats.interval import Interval

# Machado, Oliveira, Fernandes (2009): a physiologically based model, severity 1
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
# Ottosson (2020): a perceptual colour space
CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
OPPONENT = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear_rgb(colour: str) -> NDArray[np.float64]:
    """Linear red, green and blue of `#RRGGBB`."""
    part = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def perceived(colour: str, sight: str) -> NDArray[np.float64]:
    """The position of a colour in a perceptual space, under this colour vision."""
    visible_rgb = np.clip(SIGHT[sight] @ linear_rgb(colour), 0, 1)
    return np.asarray(OPPONENT @ np.cbrt(CONES @ visible_rgb), dtype=np.float64)


def contrast(first: str, second: str) -> float:
    """The contrast of two colours, as WCAG 2 defines it."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    dark, bright = sorted(float(linear_rgb(colour) @ weights) for colour in (first, second))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_any_two_colours_differ(colours: tuple[str, ...], sight: str) -> None:
    """Under each kind of colour vision, colours differ by three just noticeable steps (0.02)."""
    pairs = combinations(colours, 2)
    distances = [
        float(np.linalg.norm(perceived(a, sight) - perceived(b, sight))) for a, b in pairs
    ]
    assert min(distances) > 0.06


@pytest.mark.parametrize(("colours", "paper"), [(LIGHT, "#FFFFFF"), (DARK, "#101216")])
def test_colours_stand_out_from_the_page(colours: tuple[str, ...], paper: str) -> None:
    """Every colour has a contrast of about 3 : 1, as WCAG requires of graphics."""
    assert [] == [colour for colour in colours if contrast(colour, paper) < 2.95]


def test_labels_have_the_colour_of_their_place() -> None:
    """A label's colour follows from its position in the report, in every figure."""
    assert dict(zip(LABELS, map(Style, range(3)), strict=True)) == styles(typical())
    study = replace(typical(), labels=LABELS[1:])
    assert {"a2c": Style(0), "dqn": Style(1), "ppo": Style(2)} == styles(study)


def test_labels_of_one_colour_differ_in_dash_and_marker() -> None:
    """The ninth label has the first colour with dashes."""
    looks = list(styles(many_labels()).values())
    assert (looks[0].colour, looks[0].light) == (looks[8].colour, looks[8].light)
    assert (looks[0].dash, looks[0].marker) != (looks[8].dash, looks[8].marker)
    all_styles = [Style(k) for k in range(len(LIGHT) * len(DASHES))]
    assert len(all_styles) == len({(look.light, look.dash) for look in all_styles})
    assert len(all_styles) == len({(look.light, look.marker) for look in all_styles})
    assert len(DASHES) == len(MARKERS)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_drawn_label_has_a_look(name: str) -> None:
    """A label that occurs only in a figure has a style too."""
    study = SAMPLES[name]()
    assert set(study.labels) <= styles(study).keys()


def scattered(*labels: str) -> ReportDocument:
    """A figure with a cloud for each label."""
    axis = Axis(title="")
    clouds = tuple(PointSeries(label=label, x=(0,), y=(0,), names=("a",)) for label in labels)
    figure = ScatterFigure(name="f", title="", x=axis, y=axis, clouds=clouds)
    return replace(typical(), parts=(SectionContent(name="p", title="", blocks=(figure,)),))


def test_states_of_trials_have_shapes_of_their_own() -> None:
    """Each trial state has the same shape in every report; other labels have none."""
    looks = styles(sweep())
    shapes = {name: looks[name].shape for name in ("complete", "pruned", "failed", "default")}
    expected = {"complete": "disc", "pruned": "cross", "failed": "triangle", "default": "diamond"}
    assert expected == shapes
    assert ("", "") == (looks["winner"].shape, looks["best so far"].shape)


def test_other_clouds_take_the_further_shapes() -> None:
    """Other point series take the remaining shapes in order, so that none is repeated."""
    labels = ("complete", "one", "two", "screened", "three")
    looks = styles(scattered(*labels))
    assert ["disc", "square", "peak", "ring", "plus"] == [looks[name].shape for name in labels]
    assert len(SHAPES) == len(set(SHAPES.values()))
    assert set(FURTHER_SHAPES) - set(SHAPES.values())


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize(("colours", "sign"), [(RISING_LIGHT, -1), (RISING_DARK, 1)])
def test_rising_colours_rise_for_everyone(colours: tuple[str, ...], sign: int, sight: str) -> None:
    """Rising colours get darker on white and brighter on dark, for every colour vision."""
    lightness = np.array([perceived(colour, sight)[0] for colour in colours])
    assert (sign * np.diff(lightness) > 0.015).all()


@pytest.mark.parametrize("colours", [RISING_LIGHT, RISING_DARK])
def test_rising_colours_are_even(colours: tuple[str, ...]) -> None:
    """Perceived steps between neighbouring colours differ by less than a tenth."""
    positions = np.array([perceived(colour, "normal") for colour in colours])
    steps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    assert steps.max() < 1.1 * steps.min()


@pytest.mark.parametrize(
    ("colours", "paper"), [(RISING_LIGHT, "#FAFAF8"), (RISING_DARK, "#101216")]
)
def test_rising_colours_are_seen(colours: tuple[str, ...], paper: str) -> None:
    """The lowest colour is visible on the page, and the highest has the contrast of text."""
    contrasts = [contrast(colour, paper) for colour in colours]
    assert 1.7 < min(contrasts) == contrasts[0]
    assert contrasts[-1] > 7


def test_shades_share_the_axis() -> None:
    """Shades divide the axis evenly; values outside get the shade of the nearer end."""
    assert [0, 0, 5, 6, 11, 11, 11] == [shade(at) for at in (-1.0, 0.0, 0.49, 0.5, 0.99, 1.0, 9.0)]


def test_the_legend_leaves_out_names_that_stand_beside_their_intervals() -> None:
    """The legend has the compared labels, and no effect that only a figure of intervals names."""
    effect = Interval(estimate=0.1, low=0.0, high=0.2, level=0.95, method="t", repetitions=0, n=9)
    figure = IntervalFigure(
        name="effects",
        title="Effects",
        panels=(
            Panel(
                title="",
                axis=Axis(title="difference"),
                marks=(IntervalMark(label="n_epochs", interval=effect),),
            ),
        ),
    )
    study = typical()
    first = study.parts[0]
    changed = replace(first, blocks=(*first.blocks, figure))
    with_effects = replace(study, parts=(changed, *study.parts[1:]))
    assert "n_epochs" in styles(with_effects)
    assert legend_labels(study) == legend_labels(with_effects)
    assert study.labels == legend_labels(study)[: len(study.labels)]
