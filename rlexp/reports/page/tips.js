// What the parts of the script share: the page's numbers, elements, and the box that tells values.
const numbers = () => JSON.parse(document.getElementById("numbers").textContent);
let known = numbers();
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

function tellAt(content, [left, top]) {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const [width, height] = [root.clientWidth, window.innerHeight];
  const fits = left + 16 + box.width < width - 8;
  tip.style.left = `${Math.max(8, fits ? left + 16 : left - box.width - 16)}px`;
  tip.style.top = `${Math.max(8, Math.min(top + 16, height - box.height - 8))}px`;
}

const look = (label) => `c${label % 8} d${Math.floor(label / 8) % 4}`;
const precise = (value) => value && Math.abs(value) < 1e-3
  ? minus(value.toExponential()).replace("e-", "e−")
  : shown(value, { maximumSignificantDigits: 5 });

// A title with its value, on a line of the box.
function told(title, value) {
  const made = element("div", { class: "row told" });
  made.append(element("bdi", {}, title), element("b", {}, value));
  return made;
}
