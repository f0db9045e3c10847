// What paper cannot do: tell a value under the pointer, hide a label everywhere, zoom into a curve.
let [links, parts] = [[], []];

function toggle(label) {
  if (!hidden.delete(label)) hidden.add(label);
  const gone = hidden.has(label);
  for (const one of all(`[data-of="${label}"]`)) one.toggleAttribute("hidden", gone);
  for (const key of all(`.key[data-label="${label}"]`)) key.setAttribute("aria-pressed", !gone);
  for (const one of plots) one.leave();
}

function mark() {
  tip.hidden = true;
  const passed = parts.filter((part) => part.getBoundingClientRect().top < 140);
  const end = window.innerHeight + window.scrollY >= root.scrollHeight - 4 && window.scrollY > 0;
  const here = end ? parts.at(-1) : passed.at(-1) ?? parts[0];
  for (const link of links)
    link.setAttribute("aria-current", decodeURIComponent(link.hash) === `#${here?.id}`);
}

// Everything that belongs to the content, which a live page replaces: then this is called again.
function connect() {
  plots.splice(0, plots.length,
    ...all("[data-figure]").map(plot), ...all("[data-strands]").map(strands));
  for (const key of all(".key"))
    key.addEventListener("click", () => toggle(Number(key.dataset.label)));

  // Titles show at once, and to a finger too.
  for (const one of all("[title]")) {
    one.dataset.tip = one.title;
    one.setAttribute("aria-description", one.title);
    one.removeAttribute("title");
  }

  // A page from disk may not reach the clipboard: then a prompt shows the text, to be copied by hand.
  for (const button of all(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        const label = button.textContent;
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = label; }, 1500);
      } catch {
        prompt("Copy this text:", button.dataset.copy);
      }
    });
  }

  [links, parts] = [all(".contents a[href^='#']"), all(".part")];
  mark();
}

(() => {
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
  connect();
  open();
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    for (const fold of folded) fold.open = true;
  });
  window.addEventListener("afterprint", () => { for (const fold of folded) fold.open = false; });
  document.addEventListener("scroll", mark, { passive: true });
})();
