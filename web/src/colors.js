// Colors of points. Categories are those of Okabe and Ito, which color-blind readers can tell apart; the one that
// vanishes on the background is left out.

const CATEGORIES = {
  light: ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#222222"],
  dark: ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#d55e00", "#cc79a7", "#3f8fd0"],
};
// From small to large error: one hue, darker or lighter than the background allows for both.
const ERRORS = { light: ["#c9dcec", "#7a0f35"], dark: ["#2b3b52", "#ffc2a1"] };
const STEPS = 24;
export const OTHER = "other";

export const theme = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
export const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Both return { index, colors, entries | range }: the color of item i is colors[index[i]].
export function byLabel(labels) {
  const palette = CATEGORIES[theme()];
  const counts = new Map();
  for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  const frequent = [...counts].sort((a, b) => b[1] - a[1]).slice(0, palette.length);
  const named = frequent.map(([label]) => label).sort(new Intl.Collator("en", { numeric: true }).compare);
  const place = new Map(named.map((label, i) => [label, i]));
  const index = labels.map((label) => place.get(label) ?? palette.length);
  const entries = named.map((label, i) => ({ label, count: counts.get(label), color: palette[i] }));
  const rest = labels.length - entries.reduce((sum, { count }) => sum + count, 0);
  const left = counts.size - named.length;
  if (rest) entries.push({ label: OTHER, count: rest, color: cssColor("--muted"), title: `${left} others` });
  return { index, colors: [...palette, cssColor("--muted")], entries };
}

export function byError(errors) {
  const largest = quantile(errors, 0.98) || 1;
  const index = Array.from(errors, (e) => Math.min(STEPS - 1, Math.max(0, Math.floor((e / largest) * STEPS))));
  const [low, high] = ERRORS[theme()];
  const colors = Array.from({ length: STEPS }, (_, i) => mixed(low, high, i / (STEPS - 1)));
  return { index, colors, range: { low, high, largest } };
}

export function plain(count) {
  return { index: new Array(count).fill(0), colors: [CATEGORIES[theme()][0]], entries: [] };
}

function quantile(values, q) {
  const sorted = Float32Array.from(values).sort();
  return sorted[Math.floor(q * (sorted.length - 1))];
}

function mixed(a, b, t) {
  const channel = (color, i) => Number.parseInt(color.slice(1 + 2 * i, 3 + 2 * i), 16);
  const parts = [0, 1, 2].map((i) => Math.round(channel(a, i) + t * (channel(b, i) - channel(a, i))));
  return `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
