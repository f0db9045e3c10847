"""Scripts and helpers with which tests inspect a page in a browser."""

from collections.abc import Callable
from typing import Literal

from playwright.sync_api import Locator, Page

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
"""Colour schemes that a reader's system may prefer."""

Open = Callable[..., Page]
"""Function that opens a sample by its name, for a `touch` screen or in a `color_scheme`."""

SMALLEST = """
() => Math.min(...[...document.querySelectorAll("body *")]
  .filter((e) => e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3
    && n.textContent.trim()))
  .map((e) => parseFloat(getComputedStyle(e).fontSize)))
"""
"""Size of the smallest visible letters in pixels."""

TICKS = """
(figure) => Object.fromEntries([["x", ".x-axis"], ["y", ".y-axis"]].map(([name, axis]) => [
  name,
  Object.fromEntries([...document.querySelectorAll(`${figure} ${axis} text`)].map((t) => [
    Number.parseFloat(t.getAttribute(name)).toFixed(2), t.textContent])),
]))
"""
"""Texts of the ticks by position, on both axes of a figure."""

CONTRAST = """
() => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [1, 1];
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  const painted = (colours) => {
    brush.clearRect(0, 0, 1, 1);
    for (const colour of colours) {
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 1, 1);
    }
    return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (colours) => painted(colours)
    .map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (e) => e ? [...behind(e.parentElement), getComputedStyle(e).backgroundColor] : [];
  const says = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  return [...document.querySelectorAll("body *")]
    .filter((e) => e.checkVisibility() && says(e) && !["SCRIPT", "STYLE"].includes(e.tagName))
    .map((e) => {
      const style = getComputedStyle(e);
      const ground = behind(e);
      const ink = light([...ground, e instanceof SVGElement ? style.fill : style.color]);
      const [low, high] = [ink, light(ground)].sort((a, b) => a - b);
      return [(high + 0.05) / (low + 0.05), e.tagName, e.textContent.slice(0, 30)];
    })
    .filter(([contrast]) => contrast < 4.5);
}
"""
"""Every text with a contrast below 4.5 : 1, with its contrast."""


def point(element: Locator) -> None:
    """Scroll to an element, wait until the page is still, and move the pointer onto the element."""
    element.scroll_into_view_if_needed()
    element.page.evaluate(
        "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))"
    )
    element.hover()
