// The panels: where points are, how they get there, and their colors.
import { byError, byLabel, plain } from "./colors.js";
import { animate } from "./motion.js";
import * as words from "./words.js";

const MOVE = 350; // milliseconds from one view to another

export function startStage({ data, about, store: { state, set, on }, panels, problem }) {
  const busy = document.getElementById("panels");
  let asked = 0;
  let stopMoving = () => {};

  // Requests the view of the chosen layout and anchors; of several pending requests only the last counts.
  async function load() {
    const turn = ++asked;
    busy.ariaBusy = "true";
    try {
      const view = await data.view(state.layout, state.k);
      if (turn === asked) set({ view });
    } catch (error) {
      problem(error);
    } finally {
      if (turn === asked) busy.ariaBusy = "false";
    }
  }

  // Points move from their last positions to the new ones.
  function moveFrom(before) {
    const after = panels.map((panel) => panel.positions(state.t));
    const between = (a, b, t) => a.map((value, i) => value + t * (b[i] - value));
    stopMoving = animate(MOVE, (t) => panels.forEach((panel, i) => panel.draw(between(before[i], after[i], t), t < 1)));
  }

  function draw(moving = false) {
    if (!state.view) return null; // nothing to draw yet
    stopMoving();
    const drawn = moving ? panels.filter((panel) => panel.moves) : panels;
    return Promise.all(drawn.map((panel) => panel.draw(panel.positions(state.t), moving)));
  }

  function colors(panel) {
    if (state.color === "error") return byError(state.view.errors[Math.min(panel, state.view.errors.length - 1)]);
    return about.labels ? byLabel(about.labels) : plain(about.keys.length);
  }

  const paint = () => panels.forEach((panel, i) => panel.paint(colors(i)));

  function repaint() {
    if (state.view) paint();
    draw();
  }

  on(["layout", "k"], load);
  on(["view"], () => {
    const before = panels.map((panel) => panel.shown?.slice());
    panels.forEach((panel, i) => panel.place(state.view.panels[i]));
    words.scores(panels, about, state.view);
    paint();
    stopMoving();
    if (before[0]) moveFrom(before);
    else draw();
  });
  on(["color"], repaint);
  on(["showTarget"], () => {
    for (const panel of panels) panel.showBehind = state.showTarget;
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  return { load, draw, colors };
}
