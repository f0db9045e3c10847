// Axes and their ticks, as axes.py draws them: a zoom must not change what a tick looks like.
"use strict";

const minus = (text) => text.replace("-", "−");

function tickStep(wanted) {
  const power = 10 ** Math.floor(Math.log10(wanted));
  const near = [[1, Math.SQRT2], [2, Math.sqrt(10)], [5, Math.sqrt(50)]];
  return power * (near.find(([, below]) => wanted / power < below)?.[0] ?? 10);
}

function linearTicks(low, high, count) {
  const step = tickStep(((high / 2 - low / 2) / count) * 2);
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
}

function decadeTicks(low, high, count) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((last - first) / count));
  const factors = last - first <= 2 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let k = first; k <= last; k += every) for (const f of factors) ticks.push(f * 10 ** k);
  return ticks.filter((v) => low * (1 - 1e-9) <= v && v <= high * (1 + 1e-9));
}

function tickText(value, most, step) {
  const units = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [unit, sign] = units.find(([u]) => most >= 10 * u || (most >= u && u >= 1e6)) ?? [1, ""];
  if (value === 0) return "0";
  if (most < 1e-3 || most >= 1e13) {
    const significant = Math.max(2, 1 + Math.ceil(Math.log10(most) - Math.log10(step)));
    return minus(String(Number(value.toPrecision(Math.min(100, significant)))));
  }
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  return minus((value / unit).toFixed(Math.min(20, digits))) + sign;
}

function tickTexts(values) {
  if (values.length < 2 || (values[0] > 0 && 50 * values[0] < values.at(-1)))
    return values.map((v) => tickText(v, Math.abs(v), Math.abs(v)));
  const most = Math.max(...values.map(Math.abs));
  return values.map((v) => tickText(v, most, values[1] - values[0]));
}

// An axis counts in shares of its whole length: 0 at the low end, 1 at the high.
function axis({ low, high, log, title }) {
  const [a, b] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  // Quarters, for the difference of two large numbers may be infinite.
  const at = (value) => ((log ? Math.log10(value) : value) / 4 - a / 4) / (b / 4 - a / 4);
  const value = (share) => (log ? 10 ** (a + share * (b - a)) : (1 - share) * a + share * b);
  const ticks = (from, to, count) => {
    const decades = log ? decadeTicks(value(from), value(to), count) : [];
    const values = decades.length > 1 ? decades : linearTicks(value(from), value(to), count);
    const texts = tickTexts(values);
    return values.map((v, k) => ({ at: (at(v) - from) / (to - from), text: texts[k] }));
  };
  return { at, value, ticks, title };
}
