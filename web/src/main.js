// Starts the page: the store decides what is drawn and shown.
import { openData } from "./data.js";
import { startExports } from "./exports.js";
import { startItems } from "./items.js";
import { calm } from "./motion.js";
import { fitRenderer, Panel } from "./panel.js";
import { startSettings } from "./settings.js";
import { startSlider } from "./slider.js";
import { startStage } from "./stage.js";
import { createStore } from "./store.js";
import * as words from "./words.js";

const find = (id) => document.getElementById(id);
const REST = 1200; // milliseconds that the original spaces are shown before the page plays

async function start() {
  const data = openData();
  const about = await data.about();
  const store = createStore(initialState(about));
  const page = { data, about, store, panels: makePanels(about), problem };
  words.page(about, data.live);
  const stage = startStage(page);
  const slider = startSlider(page, stage);
  startItems(page);
  startSettings(page, stage);
  startExports(page);
  await stage.load();
  await stage.draw();
  document.documentElement.dataset.ready = "true";
  globalThis.explorer = page; // for the console and for tests
  if (!calm()) playUnlessTouched(slider);
}

function initialState(about) {
  return {
    layout: about.layouts.find(({ missing }) => !missing).name,
    k: about.k,
    color: about.labels ? "label" : "error",
    t: 0, // from 0, original, to 1, translated
    playing: false,
    view: null,
    hovered: null,
    item: null,
    selection: null,
    neighbors: null,
    showAnchors: true,
    showTarget: false,
  };
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

function playUnlessTouched({ play }) {
  const timer = setTimeout(play, REST);
  for (const touch of ["pointerdown", "keydown"]) addEventListener(touch, () => clearTimeout(timer), { once: true });
}

function problem(error) {
  const box = find("problem");
  box.textContent = error.message;
  box.hidden = false;
}

start().catch(problem);
