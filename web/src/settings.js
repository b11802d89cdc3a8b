// The settings: layout, colors, marks, and the number of anchors to fit on.
import { byLabel, OTHER } from "./colors.js";
import { showLegend } from "./legend.js";
import * as words from "./words.js";

const STEPS = 40; // numbers of anchors on the slider
const DELAY = 80; // milliseconds without a move before a fit is requested

const find = (id) => document.getElementById(id);

export function startSettings(page, { colors }) {
  const { about, store, panels } = page;
  const { state, set, on } = store;
  const labels = { name: "label", title: about.labelName ?? "Label", missing: about.labels ? "" : "no column of labels" };
  choice("layout", about.layouts, store);
  choice("color", [labels, { name: "error", title: "Error of the translation", missing: "" }], store);
  find("show-anchors").addEventListener("change", ({ target }) => set({ showAnchors: target.checked }));
  find("show-target").addEventListener("change", ({ target }) => set({ showTarget: target.checked }));
  find("lasso").addEventListener("change", ({ target }) => {
    for (const panel of panels) panel.scatter.set({ mouseMode: target.checked ? "lasso" : "panZoom" });
  });
  on(["view", "color"], () => {
    if (state.view) showLegend(find("legend"), colors(0), (label) => selectLabel(label, page));
  });
  anchorsSlider(page);
  on(["k", "view"], () => words.fitted(about, state, page.data.live));
}

function choice(name, options, { state, set, on }) {
  const made = options.map(({ name: value, title: text, missing }) => {
    const option = new Option(missing ? `${text} (${missing})` : text, value);
    option.disabled = Boolean(missing);
    return option;
  });
  const show = () => {
    find(name).value = state[name];
  };
  find(name).replaceChildren(...made);
  find(name).addEventListener("change", ({ target }) => set({ [name]: target.value }));
  on([name], show);
  show();
}

function selectLabel(label, { about, store }) {
  const named = new Set(byLabel(about.labels).entries.map((entry) => entry.label));
  const wanted = (one) => (label === OTHER ? !named.has(one) : one === label);
  store.set({ item: null, selection: about.labels.flatMap((one, i) => (wanted(one) ? [i] : [])) });
}

// The slider goes through numbers of anchors at equal ratios: few anchors matter more than many.
function anchorsSlider({ data, about, store: { state, set } }) {
  const { min, max } = about.anchors;
  const numbers = Array.from({ length: STEPS + 1 }, (_, i) => Math.round(min * (max / min) ** (i / STEPS)));
  const ks = [...new Set([...numbers, about.defaultK])].sort((a, b) => a - b);
  const slider = find("k");
  Object.assign(slider, { max: ks.length - 1, disabled: !data.live });
  slider.value = ks.indexOf(state.k || about.defaultK);
  let waiting;
  slider.addEventListener("input", () => {
    words.anchorsSlid(ks[slider.value], max);
    clearTimeout(waiting);
    waiting = setTimeout(() => set({ k: ks[slider.value] }), DELAY);
  });
  find("given").addEventListener("click", () => set({ k: about.k }));
}
