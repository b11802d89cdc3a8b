// The slider from original to translated: by hand, or played.
import { animate } from "./motion.js";
import * as words from "./words.js";

const PLAY = 2600; // milliseconds from one end to the other

export function startSlider({ about, store: { state, set, on } }, { draw }) {
  const slider = document.getElementById("slider");
  let stop = () => {};
  let sliding = false; // until the slider is let go

  function play() {
    const [from, to] = [state.t, state.t < 1 ? 1 : 0];
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
  slider.addEventListener("change", () => {
    sliding = false;
    draw();
  });
  document.getElementById("play").addEventListener("click", () => (state.playing ? pause() : play()));
  on(["t", "playing"], () => {
    slider.value = Math.round(1000 * state.t);
    draw(state.playing || sliding);
  });
  on(["t", "playing", "layout"], () => words.moved(about, state));
  words.moved(about, state);
  return { play };
}
