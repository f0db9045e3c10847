// Pictures between two axes: a drag or a key narrows the view; what is told depends on the kind.
function plot(figure) {
  const data = known.figures[figure.dataset.figure];
  const [x, y] = [axis(data.x), axis(data.y)];
  const [area, inner, reset] = [".area", ".curves", ".reset"].map((q) => figure.querySelector(q));
  const [xAxis, yAxis, grid] = [".x-axis", ".y-axis", ".grid"].map((q) => figure.querySelector(q));
  const [hover, selection] = [".hover", ".selection"].map((q) => area.querySelector(q));
  const clips = [...all(".clip", area), inner];
  const inside = inner.classList.contains("inside");
  const home = { left: 0, right: 1, bottom: 0, top: 1 };
  let view = home;
  let pressed = null;

  const across = (share) => (share - view.left) / (view.right - view.left);
  const down = (share) => (view.top - share) / (view.top - view.bottom);
  const frame = { data, x, y, area, hover, across, down, leave, view: () => view };
  const kind = data.clouds ? clouds(frame) : curves(frame);

  function draw() {
    const box = [view.left, 1 - view.top, view.right - view.left, view.top - view.bottom];
    inner.setAttribute("viewBox", box.map((v) => v * UNITS).join(" "));
    kind.moved?.(box);
    const [xs, ys] = [x.ticks(view.left, view.right, 5), y.ticks(view.bottom, view.top, 5)];
    xAxis.replaceChildren(...xs.map((t) => drawn("text", { x: per(t.at), y: 16 }, t.text)));
    yAxis.replaceChildren(...ys.map((t) =>
      drawn("text", { x: "100%", y: per(1 - t.at), dx: -8, dy: "0.32em" }, t.text)));
    grid.replaceChildren(...ys.map((t) =>
      drawn("line", { x1: 0, x2: "100%", y1: per(1 - t.at), y2: per(1 - t.at) })));
    for (const name of all(".mark-name", area)) {
      const place = down(1 - Number(name.dataset.y) / 100);
      name.setAttribute("y", per(place));
      name.toggleAttribute("hidden", place < 0 || place > 1);
    }
    for (const one of clips) one.classList.toggle("inside", inside && view === home);
    reset.hidden = view === home;
    leave();
  }

  function zoom(left, right) {
    if (!xAxis) return;
    const drawnHeights = all("[data-of]:not([hidden])", inner).flatMap((path) =>
      pairs(path).filter(([at]) => left <= at && at <= right).map(([, height]) => 1 - height));
    const heights = [...drawnHeights, ...(kind.heights?.(left, right) ?? [])];
    const [low, high] = heights.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [9, -9]);
    const room = 0.05 * (high - low) || 0.05;
    view = { left, right, bottom: low - room, top: high + room };
    if (low > high) view = { ...home, left, right };
    draw();
  }

  function back() {
    if (view === home) return;
    view = home;
    draw();
  }

  function leave() {
    [pressed, tip.hidden] = [null, true];
    kind?.forget();
    for (const one of [hover, selection]) one.setAttribute("hidden", "");
  }

  const clamped = (share) => Math.min(1, Math.max(0, share));

  function place(event) {
    const box = area.getBoundingClientRect();
    const [a, b] = [event.clientX - box.left, event.clientY - box.top];
    return [view.left + clamped(a / box.width) * (view.right - view.left),
      view.top - clamped(b / box.height) * (view.top - view.bottom)];
  }

  function drag(event) {
    const [a, b] = [across(pressed), across(place(event)[0])];
    selection.setAttribute("x", per(Math.min(a, b)));
    selection.setAttribute("width", per(Math.abs(a - b)));
    selection.removeAttribute("hidden");
  }

  area.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button !== 0 || !xAxis) return;
    [pressed] = place(event);
    area.setPointerCapture(event.pointerId);
  });
  for (const event of ["pointermove", "click"])
    area.addEventListener(event, (event) => {
      if (pressed !== null) drag(event);
      kind.tell(place(event), [event.clientX, event.clientY]);
    });
  area.addEventListener("pointerup", (event) => {
    if (pressed === null) return;
    const [a, b] = [pressed, place(event)[0]].sort((p, q) => p - q);
    leave();
    if (across(b) - across(a) > 0.03) zoom(a, b);
  });
  for (const event of ["pointerleave", "pointercancel", "blur"])
    area.addEventListener(event, leave);
  area.addEventListener("dblclick", back);
  reset.addEventListener("click", back);
  area.addEventListener("keydown", (event) => {
    const width = view.right - view.left;
    const middle = kind.focus() ?? view.left + width / 2;
    const actions = {
      ArrowLeft: () => kind.step(-1),
      ArrowRight: () => kind.step(1),
      "+": () => zoom(Math.max(0, middle - width / 4), Math.min(1, middle + width / 4)),
      "-": back,
      Escape: () => { leave(); back(); },
    };
    if (!actions[event.key]) return;
    actions[event.key]();
    event.preventDefault();
  });
  return { leave };
}

// Of curves: every visible one at the nearest x.
function curves({ data, x, y, area, hover, across, down, leave, view }) {
  let focus = null;

  function nearest(curve, share) {
    let best = null;
    for (let k = 0; k < curve.x.length; k += 1) {
      if (curve.y[k] === null) continue;
      const far = Math.abs(x.at(curve.x[k]) - share);
      if (best === null || far < best.far) best = { k, far };
    }
    return best;
  }

  function under(share) {
    const found = data.curves.filter((c) => !hidden.has(c.label))
      .map((curve) => ({ curve, ...nearest(curve, share) })).filter((f) => f.k !== undefined);
    const closest = found.reduce((a, b) => (b.far < a.far ? b : a), { far: Infinity });
    return found.filter((f) => f.far <= closest.far + 0.02 * (view().right - view().left))
      .map((f) => ({ ...f, at: f.curve.x[f.k] }));
  }

  function tell([share], where) {
    const found = under(share);
    if (!found.length) { leave(); return; }
    focus = x.at(found.reduce((a, b) => (b.far < a.far ? b : a)).at);
    const place = per(across(focus));
    hover.replaceChildren(drawn("line", { x1: place, x2: place, y1: 0, y2: "100%" }));
    const named = shown(x.value(focus), { maximumSignificantDigits: 6 });
    const rows = [element("strong", {}, `${named} ${x.title}`)];
    for (const { curve, k, at } of found.sort((a, b) => b.curve.y[b.k] - a.curve.y[a.k])) {
      const [cx, cy] = [per(across(x.at(at))), per(down(y.at(curve.y[k])))];
      hover.append(drawn("circle", { cx, cy, r: 4, class: look(curve.label) }));
      rows.push(row(curve, k, fixed(data.y.digits)));
    }
    hover.removeAttribute("hidden");
    const box = area.getBoundingClientRect();
    tellAt(rows, where ?? [box.left + across(focus) * box.width, box.top + box.height / 3]);
  }

  function step(direction) {
    const { left, right } = view();
    const from = focus ?? (left + right) / 2;
    tell([Math.min(right, Math.max(left, from + direction * (right - left) / 40))]);
  }

  return { tell, step, focus: () => focus, forget: () => { focus = null; } };
}

function row(curve, k, kind) {
  const band = curve.low ? `[${shown(curve.low[k], kind)}, ${shown(curve.high[k], kind)}]` : "";
  const swatch = drawn("svg", { class: `swatch ${look(curve.label)}`, width: 22, height: 10 });
  swatch.append(drawn("line", { x1: 1, x2: 21, y1: 5, y2: 5 }));
  const made = element("div", { class: "row" });
  made.append(swatch, element("bdi", {}, known.labels[curve.label]),
    element("b", {}, shown(curve.y[k], kind)), element("span", {}, band));
  return made;
}

// Of points: the nearest, with its name and values.
function clouds({ data, x, y, area, hover, across, down, leave, view }) {
  const layer = area.querySelector(".points");
  const points = data.clouds.flatMap((cloud) => cloud.x.map((value, k) => ({
    cloud, name: known.names[cloud.named[k]], x: value, y: cloud.y[k],
    at: x.at(value), up: y.at(cloud.y[k]),
  }))).sort((a, b) => a.at - b.at || a.up - b.up);
  let focus = null;

  const seen = () => points.filter(({ cloud, at }) =>
    !hidden.has(cloud.label) && view().left <= at && at <= view().right);

  function tell([share, up], where) {
    const box = area.getBoundingClientRect();
    const far = (p) => Math.hypot((across(p.at) - across(share)) * box.width,
      (down(p.up) - down(up)) * box.height);
    let [best, least] = [null, Infinity];
    for (const one of seen()) {
      const own = far(one);
      if (own < least) [best, least] = [one, own];
    }
    show(best, where);
  }

  function show(point, where) {
    if (!point) { leave(); return; }
    focus = point;
    const [cx, cy] = [per(across(point.at)), per(down(point.up))];
    hover.replaceChildren(
      drawn("circle", { cx, cy, r: 8, class: `halo ${look(point.cloud.label)}` }));
    hover.removeAttribute("hidden");
    const box = area.getBoundingClientRect();
    tellAt(words(point), where ?? [box.left + across(point.at) * box.width,
      box.top + down(point.up) * box.height]);
  }

  function words({ cloud, name, x: value, y: height }) {
    const kind = `swatch cloud ${cloud.shape} ${look(cloud.label)}`;
    const dot = drawn("svg", { class: kind, width: 22, height: 14 });
    dot.append(drawn("use", { href: `#s-${cloud.shape}`, x: 11, y: 7 }));
    const label = element("div", { class: "row" });
    label.append(dot, element("bdi", {}, known.labels[cloud.label]));
    const at = data.ticks[Math.round(value)] ?? precise(value);
    return [element("strong", {}, name), label, told(x.title, at),
      told(y.title, precise(height))];
  }

  function step(direction) {
    const [every, k] = [seen(), seen().indexOf(focus)];
    const middle = direction > 0 ? 0 : every.length - 1;
    show(every[k < 0 ? middle : Math.min(every.length - 1, Math.max(0, k + direction))]);
  }

  function moved([left, top, width, height]) {
    const places = { x: -left / width, y: -top / height, width: 1 / width, height: 1 / height };
    for (const [key, value] of Object.entries(places)) layer.setAttribute(key, per(value));
  }

  const heights = (left, right) => points
    .filter(({ cloud, at }) => !hidden.has(cloud.label) && left <= at && at <= right)
    .map(({ up }) => up);
  return { tell, step, moved, heights, focus: () => focus?.at, forget: () => { focus = null; } };
}
