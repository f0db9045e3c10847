// The live page: every two seconds the strip of states, and a new content when records have changed.
(() => {
  const PAUSE = 2000;
  const strip = document.getElementById("live");
  let [version, timer] = [strip.dataset.version, null];

  const line = (kind, text) => element("p", { class: kind, dir: "auto" }, text);

  function bar({ name, share, text }) {
    const made = element("li");
    const row = element("div", { class: "row" });
    row.append(element("bdi", {}, name), element("span", {}, text));
    made.append(row, element("progress", { max: 1, value: share, "aria-label": `${name}: ${text}` }));
    return made;
  }

  function tell(state, waits) {
    const [first, ...others] = state.lines;
    const bars = element("ul", { class: "bars" });
    bars.append(...state.bars.map(bar));
    const news = waits ? "There are newer records. They are shown when no figure is zoomed, no text is selected and no film is playing."
      : state.computing;
    strip.classList.toggle("running", state.running);
    strip.replaceChildren(...(first ? [line("lines", first)] : []),
      ...others.map((text) => line("further", text)),
      ...state.problems.map((text) => line("trouble", text)),
      ...(state.bars.length ? [bars] : []), ...(news ? [line("news", news)] : []));
  }

  function ended(text) {
    strip.classList.remove("running");
    strip.querySelector(".lost")?.remove();
    strip.append(line("lost", text));
  }

  // A reader who zooms into a figure, selects text or plays a film keeps it.
  const busy = () => all(".reset:not([hidden])").length > 0 || !getSelection().isCollapsed
    || all("video").some((film) => !film.paused && !film.ended);

  function folds() {
    return new Map(all("main details").map((fold) => {
      const part = fold.closest("[id]")?.id;
      return [`${part}/${all("details", fold.closest("[id]")).indexOf(fold)}`, fold];
    }));
  }

  async function renew() {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const gone = new Set([...hidden].map((label) => known.labels[label]));
    const open = new Map([...folds()].map(([key, fold]) => [key, fold.open]));
    const passed = parts.filter((part) => part.getBoundingClientRect().top < 140).at(-1);
    const [here, top] = [passed?.id, passed?.getBoundingClientRect().top];
    // Asked before: without its content the page is short, and the browser moves to its top.
    const reading = window.scrollY > 0;
    const focus = document.activeElement?.id;
    const scrolled = new Map(all("main .scroll[aria-label]").map((box) =>
      [box.getAttribute("aria-label"), [box.scrollLeft, box.scrollTop]]));

    for (const query of ["#numbers", ".side", "main", ".subtitle", ".unseen[width]"]) {
      const [before, after] = [document, page].map((one) => one.querySelector(query));
      if (before && after) before.replaceWith(document.adoptNode(after));
      else if (after) document.body.append(document.adoptNode(after));
    }
    known = numbers();
    hidden.clear();
    connect();
    known.labels.forEach((name, label) => { if (gone.has(name)) toggle(label); });
    for (const [key, fold] of folds()) fold.open = open.get(key) ?? fold.open;
    for (const box of all("main .scroll[aria-label]"))
      [box.scrollLeft, box.scrollTop] = scrolled.get(box.getAttribute("aria-label")) ?? [0, 0];
    if (focus && focus !== "content") document.getElementById(focus)?.focus({ preventScroll: true });
    const same = here && document.getElementById(here);
    if (same && reading)
      window.scrollBy({ top: same.getBoundingClientRect().top - top, behavior: "instant" });
    version = page.getElementById("live").dataset.version;
    strip.dataset.version = version;
  }

  async function look() {
    try {
      const answer = await fetch("state.json", { cache: "no-store" });
      if (answer.status === 404) {
        ended("There are no records of this name any more.");
      } else {
        const state = await answer.json();
        const newer = state.version && state.version !== version;
        tell(state, newer && busy());
        if (newer && !busy()) await renew();
      }
    } catch {
      ended("There is no answer: rlexp view has ended. The page shows its last state.");
    }
    plan();
  }

  // A hidden tab asks nothing.
  function plan() {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(look, PAUSE);
  }
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) look();
  });
  look();
})();
