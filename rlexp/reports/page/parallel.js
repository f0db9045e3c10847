// Parallel coordinates: the thread under the pointer stands out, and all of its values are told.
function strands(figure) {
  const data = known.figures[figure.dataset.strands];
  const [area, hover] = [".area", ".hover"].map((q) => figure.querySelector(q));
  const scales = data.coordinates.map((one) => one && axis(one));
  const count = scales.length;
  const heights = data.threads.map((values) =>
    values.map((value, k) => (value === null ? null : scales[k].at(value))));
  const order = data.threads.map((_, k) => k);
  let focus = null;

  // How far a thread is from a height at a place between coordinates; nothing where it has a gap.
  function far(thread, place, up) {
    const [left, right] = [Math.floor(place), Math.ceil(place)];
    const [a, b] = [heights[thread][left] ?? null, heights[thread][right] ?? null];
    if (a !== null && b !== null) return Math.abs(a + (place - left) * (b - a) - up);
    const [near, off] = a !== null ? [a, place - left] : [b, right - place];
    return near === null || off > 0.2 ? null : Math.abs(near - up);
  }

  function tell(event) {
    const box = area.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    const place = Math.min(count - 1, Math.max(0, share * count - 0.5));
    const up = 1 - (event.clientY - box.top) / box.height;
    const found = order.map((thread) => [thread, far(thread, place, up)])
      .filter(([, own]) => own !== null);
    const best = found.reduce((a, b) => (b[1] <= a[1] ? b : a), [null, Infinity]);
    show(best[0], [event.clientX, event.clientY]);
  }

  function show(thread, where) {
    if (thread === null) { leave(); return; }
    focus = thread;
    const shade = data.shades[thread] === null ? "grey" : `v${data.shades[thread]}`;
    const d = path(heights[thread]);
    hover.replaceChildren(drawn("path", { class: "casing", d }),
      drawn("path", { class: `marked ${shade}`, d }));
    hover.removeAttribute("hidden");
    const box = area.getBoundingClientRect();
    tellAt(words(thread), where ?? [Math.min(box.right, root.clientWidth) - 24, box.top + 24]);
  }

  function path(own) {
    const point = (up, k) => `${2 * k + 1} ${Math.round(1000 * (1 - up))}`;
    return own.map((up, k) => {
      if (up === null) return "";
      if ((own[k - 1] ?? null) !== null) return `L${point(up, k)}`;
      return `M${point(up, k)}${(own[k + 1] ?? null) === null ? "h0" : ""}`;
    }).join("");
  }

  function words(thread) {
    const values = data.threads[thread].flatMap((value, k) => {
      if (value === null) return [];
      const { title, names } = data.coordinates[k];
      return [told(title, names[Math.round(value)] ?? precise(value))];
    });
    return [element("strong", {}, known.names[data.named[thread]]),
      told(data.colour, precise(data.values[thread])), ...values];
  }

  function leave() {
    [focus, tip.hidden] = [null, true];
    hover.setAttribute("hidden", "");
  }

  // In the order of what threads reached, from the highest down.
  const steps = order.toSorted((a, b) =>
    (data.values[b] ?? -Infinity) - (data.values[a] ?? -Infinity) || a - b);

  function step(direction) {
    const k = steps.indexOf(focus);
    const first = direction > 0 ? 0 : steps.length - 1;
    show(steps[k < 0 ? first : Math.min(steps.length - 1, Math.max(0, k + direction))]);
  }

  for (const event of ["pointermove", "click"]) area.addEventListener(event, tell);
  for (const event of ["pointerleave", "pointercancel", "blur"])
    area.addEventListener(event, leave);
  area.addEventListener("keydown", (event) => {
    const actions = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), Escape: leave };
    if (!actions[event.key]) return;
    actions[event.key]();
    event.preventDefault();
  });
  return { leave };
}
