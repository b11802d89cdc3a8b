// Hovered, selected and searched items: marked in every panel, and described below.
import { showItem, showNothing, showSelection } from "./details.js";
import { keyboard } from "./keyboard.js";
import { startSearch } from "./search.js";
import * as words from "./words.js";

export function startItems({ data, about, store, panels, problem }) {
  const { state, set, on } = store;
  const root = document.getElementById("details");
  const choose = {
    hover: (hovered) => set({ hovered }),
    select: (item) => set({ item, selection: null }),
    nothing: () => set({ item: null, selection: null }),
  };
  const several = (items) => (items.length === 1 ? choose.select(items[0]) : set({ item: null, selection: items }));
  for (const panel of panels) panel.listen({ hover: choose.hover, select: several, deselect: choose.nothing });
  keyboard(panels, store, choose);
  startSearch(document.getElementById("search"), about.keys, choose);

  async function tellItem() {
    const [item, k] = [state.item, state.k];
    const neighbors = await data.neighbors(item, k);
    if (item !== state.item || k !== state.k) return; // another item was chosen in the meantime
    showItem(root, { about, item, error: words.errors(about, state.view, item), neighbors, choose });
    set({ neighbors });
  }

  function tell() {
    if (state.item !== null) tellItem().catch(problem);
    else if (state.selection) showSelection(root, { about, items: state.selection, choose });
    else showNothing(root);
  }

  function mark() {
    for (const [i, panel] of panels.entries()) {
      panel.mark({
        anchors: state.showAnchors ? (state.view?.anchors ?? []) : [],
        neighbors: state.neighbors ? (state.neighbors[`after ${i}`] ?? state.neighbors.target) : [],
        selected: state.item,
        hovered: state.hovered,
        label: state.hovered === null ? "" : about.keys[state.hovered],
      });
    }
  }

  on(["item", "selection"], () => {
    for (const panel of panels) panel.select(state.selection ?? []); // one item has its ring, and dims no others
    set({ neighbors: null });
    tell();
  });
  on(["view"], tell);
  on(["hovered", "item", "neighbors", "view", "showAnchors"], mark);
  on(["hovered"], () => words.hovered(about, state));
  showNothing(root);
}
