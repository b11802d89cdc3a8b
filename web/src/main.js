// Wires the page: what is in the store decides what is drawn and said.
import { byError, byLabel, OTHER, plain } from "./colors.js";
import { openData } from "./data.js";
import { showItem, showNothing, showSelection } from "./details.js";
import { keyboard } from "./keyboard.js";
import { showLegend } from "./legend.js";
import { animate, calm } from "./motion.js";
import { fitRenderer, Panel } from "./panel.js";
import { download, picture } from "./picture.js";
import { startSearch } from "./search.js";
import { createStore } from "./store.js";
import * as words from "./words.js";

const find = (id) => document.getElementById(id);
const data = openData();
const PLAY = 2600; // milliseconds from as they are to translated
const SETTLE = 350;

async function start() {
  const about = await data.about();
  const store = createStore({
    layout: about.layouts.find(({ missing }) => !missing).name,
    k: about.k,
    color: about.labels ? "label" : "error",
    t: 0,
    view: null,
    hovered: null,
    item: null,
    selection: null,
    neighbors: null,
    playing: false,
    showAnchors: true,
    showTarget: false,
  });
  const { state, set, on } = store;
  const panels = makePanels(about);

  // --- the view: where points are ---
  let asked = 0;
  async function load() {
    const turn = ++asked;
    find("panels").ariaBusy = "true";
    try {
      const view = await data.view(state.layout, state.k);
      if (turn === asked) set({ view });
    } catch (error) {
      problem(error);
    } finally {
      if (turn === asked) find("panels").ariaBusy = "false";
    }
  }
  on(["layout", "k"], load);

  let settling = () => {};
  on(["view"], () => {
    const before = panels.map((panel) => panel.shown?.slice());
    panels.forEach((panel, i) => panel.place(state.view.panels[i]));
    words.scores(panels, about, state.view);
    words.fitted(about, state, data.live);
    paint();
    settle(before);
    tell();
  });

  // Points go from where they were seen to where they belong now.
  function settle(before) {
    settling();
    const after = panels.map((panel) => panel.positions(state.t));
    if (!before[0]) return draw();
    const between = (a, b, t) => a.map((value, i) => value + t * (b[i] - value));
    settling = animate(SETTLE, (t) => panels.forEach((panel, i) => panel.draw(between(before[i], after[i], t), t < 1)));
  }

  function draw(moving = false) {
    const drawn = moving ? panels.filter((panel) => panel.moves) : panels;
    return Promise.all(drawn.map((panel) => panel.draw(panel.positions(state.t), moving)));
  }

  function paint() {
    for (const [i, panel] of panels.entries()) panel.paint(colorsOf(i));
    showLegend(find("legend"), colorsOf(0), selectLabel);
  }

  function colorsOf(panel) {
    if (state.color === "error") return byError(state.view.errors[Math.min(panel, state.view.errors.length - 1)]);
    return about.labels ? byLabel(about.labels) : plain(about.keys.length);
  }

  function selectLabel(label) {
    const named = new Set(byLabel(about.labels).entries.map((entry) => entry.label));
    const wanted = (one) => (label === OTHER ? !named.has(one) : one === label);
    set({ item: null, selection: about.labels.flatMap((one, i) => (wanted(one) ? [i] : [])) });
  }

  on(["color"], () => {
    paint();
    draw();
  });
  on(["showTarget"], () => {
    for (const panel of panels) panel.showBehind = state.showTarget;
    draw();
  });

  // --- the slider ---
  const slider = find("slider");
  let stop = () => {};
  let sliding = false; // until the slider is let go
  function play(from, to) {
    stop();
    set({ playing: true });
    stop = animate(PLAY * Math.abs(to - from), (t) => set({ t: from + t * (to - from) }), () => set({ playing: false }));
  }
  function pause() {
    stop();
    set({ playing: false });
  }
  slider.addEventListener("input", () => {
    sliding = true;
    pause();
    set({ t: slider.value / 1000 });
  });
  find("play").addEventListener("click", () => {
    if (state.playing) pause();
    else play(state.t, state.t < 1 ? 1 : 0);
  });
  on(["t", "playing"], () => {
    settling();
    slider.value = Math.round(1000 * state.t);
    words.moved(about, state);
    draw(state.playing || sliding);
  });
  slider.addEventListener("change", () => {
    sliding = false;
    draw();
  });

  // --- items ---
  const choose = {
    hover: (item) => set({ hovered: item }),
    select: (item) => set({ item, selection: null }),
  };
  function selected(items) {
    if (items.length === 1) choose.select(items[0]);
    else set({ item: null, selection: items });
  }
  const nothing = () => set({ item: null, selection: null });
  for (const panel of panels) panel.listen({ hover: choose.hover, select: selected, deselect: nothing });
  keyboard(panels, store, { hover: choose.hover, select: choose.select, nothing });

  on(["item", "selection"], () => {
    for (const panel of panels) panel.select(state.selection ?? []); // one item has its ring, and dims no others
    set({ neighbors: null });
    tell();
  });

  async function tell() {
    const [item, k] = [state.item, state.k];
    if (item === null) {
      const root = find("details");
      return state.selection ? showSelection(root, { about, items: state.selection, choose }) : showNothing(root);
    }
    try {
      const neighbors = await data.neighbors(item, k);
      if (item !== state.item || k !== state.k) return;
      showItem(find("details"), { about, item, error: words.errors(about, state.view, item), neighbors, choose });
      set({ neighbors });
    } catch (error) {
      problem(error);
    }
  }

  on(["hovered", "item", "neighbors", "view", "showAnchors"], () => {
    for (const [i, panel] of panels.entries()) {
      panel.mark({
        anchors: state.showAnchors ? (state.view?.anchors ?? []) : [],
        neighbors: state.neighbors ? (state.neighbors[`after ${i}`] ?? state.neighbors.target) : [],
        selected: state.item,
        hovered: state.hovered,
        label: state.hovered === null ? "" : about.keys[state.hovered],
      });
    }
  });
  on(["hovered"], () => words.hovered(about, state));

  // --- settings ---
  startSearch(find("search"), about.keys, choose);
  words.page(about, data.live);
  fillSelect("layout", about.layouts.map(({ name, words: text, missing }) => ({ name, text, missing })), state.layout);
  fillSelect("color", [
    { name: "label", text: about.labelName ?? "Label", missing: about.labels ? "" : "no column of labels" },
    { name: "error", text: "Error of the translation", missing: "" },
  ], state.color);
  find("layout").addEventListener("change", (event) => set({ layout: event.target.value }));
  find("color").addEventListener("change", (event) => set({ color: event.target.value }));
  find("show-anchors").addEventListener("change", (event) => set({ showAnchors: event.target.checked }));
  find("show-target").addEventListener("change", (event) => set({ showTarget: event.target.checked }));
  find("lasso").addEventListener("change", (event) => {
    for (const panel of panels) panel.scatter.set({ mouseMode: event.target.checked ? "lasso" : "panZoom" });
  });
  anchorsSlider(about, store);
  exportButtons(panels, about, store);

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    paint();
    draw();
  });

  for (const panel of panels) panel.showBehind = state.showTarget;
  words.moved(about, state);
  showNothing(find("details"));
  await load();
  await draw();
  document.documentElement.dataset.ready = "true";
  if (!calm()) {
    const timer = setTimeout(() => state.view && !state.playing && state.t === 0 && play(0, 1), 1200);
    addEventListener("pointerdown", () => clearTimeout(timer), { once: true });
    addEventListener("keydown", () => clearTimeout(timer), { once: true });
  }
  globalThis.explorer = { store, panels, about };
}

function makePanels(about) {
  const figures = about.spaces.map(() => {
    const figure = document.createElement("figure");
    figure.innerHTML =
      "<figcaption><strong></strong><span></span></figcaption>" +
      '<div class="plot" tabindex="0" role="application"><canvas></canvas><canvas></canvas></div>' +
      '<p class="scores"></p>';
    return figure;
  });
  find("panels").replaceChildren(...figures);
  fitRenderer();
  addEventListener("resize", fitRenderer);
  const target = new Panel(figures.at(-1), about.spaces.at(-1));
  return [...about.spaces.slice(0, -1).map((space, i) => new Panel(figures[i], { ...space, behind: target })), target];
}

function fillSelect(id, options, chosen) {
  const made = options.map(({ name, text, missing }) => {
    const option = new Option(missing ? `${text} (${missing})` : text, name, false, name === chosen);
    option.disabled = Boolean(missing);
    return option;
  });
  find(id).replaceChildren(...made);
}

// The slider goes through numbers of anchors at equal ratios: few anchors matter more than many.
function anchorsSlider(about, { state, set, on }) {
  const { fewest, most } = about.anchors;
  const steps = 40;
  const numbers = Array.from({ length: steps + 1 }, (_, i) => Math.round(fewest * (most / fewest) ** (i / steps)));
  const ks = [...new Set([...numbers, about.usualK])].sort((a, b) => a - b);
  const slider = find("k");
  Object.assign(slider, { max: ks.length - 1, value: ks.indexOf(state.k || about.usualK), disabled: !data.live });
  let waiting;
  slider.addEventListener("input", () => {
    words.anchorsSlid(ks[slider.value], most);
    clearTimeout(waiting);
    waiting = setTimeout(() => set({ k: ks[slider.value] }), 80);
  });
  find("given").addEventListener("click", () => set({ k: about.k }));
  on(["k"], () => words.fitted(about, state, data.live));
}

function exportButtons(panels, about, { state }) {
  const name = about.spaces.map((space) => space.name.replace(/\W+/g, "-")).join("-");
  find("png").addEventListener("click", async () => {
    download(await picture(panels, find("caption").textContent), `${name}.png`);
  });
  const page = find("html");
  page.hidden = !data.live;
  page.addEventListener("click", async () => {
    page.disabled = true;
    try {
      download(await data.exported(state.k), `${name}.html`);
    } catch (error) {
      problem(error);
    } finally {
      page.disabled = false;
    }
  });
}

function problem(error) {
  const box = find("problem");
  box.textContent = error.message;
  box.hidden = false;
}

start().catch(problem);
