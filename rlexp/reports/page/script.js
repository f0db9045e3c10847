// What paper cannot do: tell a value under the pointer, hide a label everywhere, zoom into a curve.
(() => {
  const known = JSON.parse(document.getElementById("numbers").textContent);
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  const hidden = new Set();
  const plots = [];
  const [SVG, UNITS] = ["http://www.w3.org/2000/svg", 10000];
  const all = (query, within = document) => [...within.querySelectorAll(query)];

  function element(name, attributes = {}, text = "", space = null) {
    const made = space ? document.createElementNS(space, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }
  const drawn = (name, attributes, text) => element(name, attributes, text, SVG);

  const shown = (value, kind) => value === null ? "—" : minus(value.toLocaleString("en-US", kind));
  const fixed = (digits) => digits === null ? { maximumSignificantDigits: 4 }
    : { minimumFractionDigits: digits, maximumFractionDigits: digits };

  const per = (share) => `${Number((100 * share).toFixed(3))}%`;
  const pairs = (path) => (path.pairs ??= path.getAttribute("d").match(/-?\d+ -?\d+/g)
    .map((pair) => pair.split(" ").map((n) => Number(n) / UNITS)));

  function plot(figure) {
    const data = known.figures[figure.dataset.figure];
    const [x, y] = [axis(data.x), axis(data.y)];
    const [area, inner, reset] = [".area", ".curves", ".reset"].map((q) => figure.querySelector(q));
    const [xAxis, yAxis, grid] = [".x-axis", ".y-axis", ".grid"].map((q) => figure.querySelector(q));
    const [hover, selection] = [".hover", ".selection"].map((q) => area.querySelector(q));
    const inside = inner.classList.contains("inside");
    const home = { left: 0, right: 1, bottom: 0, top: 1 };
    let view = home;
    let pressed = null;
    let focus = null;

    const across = (share) => (share - view.left) / (view.right - view.left);
    const down = (share) => (view.top - share) / (view.top - view.bottom);

    function draw() {
      const box = [view.left, 1 - view.top, view.right - view.left, view.top - view.bottom];
      inner.setAttribute("viewBox", box.map((v) => v * UNITS).join(" "));
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
      inner.classList.toggle("inside", inside && view === home);
      reset.hidden = view === home;
      leave();
    }

    function zoom(left, right) {
      const heights = all("[data-of]:not([hidden])", inner).flatMap((path) =>
        pairs(path).filter(([at]) => left <= at && at <= right).map(([, height]) => 1 - height));
      const [low, high] = heights.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [9, -9]);
      const room = 0.05 * (high - low) || 0.05;
      view = { left, right, bottom: low - room, top: high + room };
      if (low > high) view = { ...home, left, right };
      draw();
    }

    const back = () => { view = home; draw(); };

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
      return found.filter((f) => f.far <= closest.far + 0.02 * (view.right - view.left))
        .map((f) => ({ ...f, at: f.curve.x[f.k] }));
    }

    function tell(share, where) {
      const found = under(share);
      if (!found.length) { leave(); return; }
      focus = x.at(found.reduce((a, b) => (b.far < a.far ? b : a)).at);
      const place = per(across(focus));
      hover.replaceChildren(drawn("line", { x1: place, x2: place, y1: 0, y2: "100%" }));
      const named = shown(x.value(focus), { maximumSignificantDigits: 6 });
      const rows = [element("strong", {}, `${named} ${x.title}`)];
      for (const { curve, k, at } of found.sort((a, b) => b.curve.y[b.k] - a.curve.y[a.k])) {
        const look = `c${curve.label % 8} d${Math.floor(curve.label / 8) % 4}`;
        const [cx, cy] = [per(across(x.at(at))), per(down(y.at(curve.y[k])))];
        hover.append(drawn("circle", { cx, cy, r: 4, class: look }));
        rows.push(row(curve, k, look, fixed(data.y.digits)));
      }
      hover.removeAttribute("hidden");
      const box = area.getBoundingClientRect();
      tellAt(rows, where ?? [box.left + across(focus) * box.width, box.top + box.height / 3]);
    }

    function leave() {
      [pressed, focus, tip.hidden] = [null, null, true];
      for (const one of [hover, selection]) one.setAttribute("hidden", "");
    }

    const share = (event) => {
      const box = area.getBoundingClientRect();
      const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      return view.left + part * (view.right - view.left);
    };

    function drag(event) {
      const [a, b] = [across(pressed), across(share(event))];
      selection.setAttribute("x", per(Math.min(a, b)));
      selection.setAttribute("width", per(Math.abs(a - b)));
      selection.removeAttribute("hidden");
    }

    area.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" || event.button !== 0) return;
      pressed = share(event);
      area.setPointerCapture(event.pointerId);
    });
    for (const kind of ["pointermove", "click"])
      area.addEventListener(kind, (event) => {
        if (pressed !== null) drag(event);
        tell(share(event), [event.clientX, event.clientY]);
      });
    area.addEventListener("pointerup", (event) => {
      if (pressed === null) return;
      const [a, b] = [pressed, share(event)].sort((p, q) => p - q);
      leave();
      if (across(b) - across(a) > 0.03) zoom(a, b);
    });
    for (const kind of ["pointerleave", "pointercancel", "blur"]) area.addEventListener(kind, leave);
    area.addEventListener("dblclick", back);
    reset.addEventListener("click", back);
    area.addEventListener("keydown", (event) => {
      const width = view.right - view.left;
      const middle = focus ?? view.left + width / 2;
      const actions = {
        ArrowLeft: () => tell(Math.max(view.left, middle - width / 40)),
        ArrowRight: () => tell(Math.min(view.right, middle + width / 40)),
        "+": () => zoom(Math.max(0, middle - width / 4), Math.min(1, middle + width / 4)),
        "-": back,
        Escape: back,
      };
      if (!actions[event.key]) return;
      actions[event.key]();
      event.preventDefault();
    });
    return { leave };
  }

  function row(curve, k, look, kind) {
    const made = element("div", { class: "row" });
    const swatch = drawn("svg", { class: `swatch ${look}`, width: 22, height: 10 });
    swatch.append(drawn("line", { x1: 1, x2: 21, y1: 5, y2: 5 }));
    const band = curve.low ? `[${shown(curve.low[k], kind)}, ${shown(curve.high[k], kind)}]` : "";
    made.append(swatch, element("bdi", {}, known.labels[curve.label]),
      element("b", {}, shown(curve.y[k], kind)), element("span", {}, band));
    return made;
  }

  function tellAt(content, [left, top]) {
    tip.replaceChildren(...content);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const [width, height] = [root.clientWidth, window.innerHeight];
    const fits = left + 16 + box.width < width - 8;
    tip.style.left = `${Math.max(8, fits ? left + 16 : left - box.width - 16)}px`;
    tip.style.top = `${Math.max(8, Math.min(top + 16, height - box.height - 8))}px`;
  }

  function toggle(label) {
    if (!hidden.delete(label)) hidden.add(label);
    const gone = hidden.has(label);
    for (const one of all(`[data-of="${label}"]`)) one.toggleAttribute("hidden", gone);
    for (const key of all(`.key[data-label="${label}"]`)) key.setAttribute("aria-pressed", !gone);
    for (const one of plots) one.leave();
  }

  plots.push(...all("[data-figure]").map(plot));
  for (const key of all(".key"))
    key.addEventListener("click", () => toggle(Number(key.dataset.label)));

  // Titles show at once, and to a finger too.
  for (const one of all("[title]")) {
    one.dataset.tip = one.title;
    one.setAttribute("aria-description", one.title);
    one.removeAttribute("title");
  }
  for (const kind of ["pointermove", "click"])
    document.addEventListener(kind, (event) => {
      const told = event.target.closest?.("[data-tip]");
      if (told) tellAt([told.dataset.tip], [event.clientX, event.clientY]);
      else if (!event.target.closest?.(".area")) tip.hidden = true;
    });

  const theme = document.querySelector(".theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
  });

  // A link into a folded part opens it, and paper shows every part.
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = target?.querySelector(":scope > details") ?? target?.closest("details");
    if (fold) fold.open = true;
  };
  window.addEventListener("hashchange", open);
  open();
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = all("details.fold:not([open])");
    for (const fold of folded) fold.open = true;
  });
  window.addEventListener("afterprint", () => { for (const fold of folded) fold.open = false; });

  const [links, parts] = [all(".contents a"), all(".part")];
  const mark = () => {
    tip.hidden = true;
    const passed = parts.filter((part) => part.getBoundingClientRect().top < 140);
    const end = window.innerHeight + window.scrollY >= root.scrollHeight - 4 && window.scrollY > 0;
    const here = end ? parts.at(-1) : passed.at(-1) ?? parts[0];
    for (const link of links)
      link.setAttribute("aria-current", decodeURIComponent(link.hash) === `#${here?.id}`);
  };
  document.addEventListener("scroll", mark, { passive: true });
  mark();
})();
