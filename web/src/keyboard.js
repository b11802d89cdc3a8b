// Arrow keys move between the points of a panel, Enter selects, Escape clears.

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export function keyboard(panels, { state }, { hover, select, nothing }) {
  for (const panel of panels) {
    panel.plot.addEventListener("keydown", (event) => {
      const direction = DIRECTIONS[event.key];
      if (direction) hover(panel.beside(state.hovered ?? state.item ?? 0, direction));
      else if (event.key === "Enter" && state.hovered !== null) select(state.hovered);
      else return;
      event.preventDefault();
    });
    panel.plot.addEventListener("blur", () => hover(null));
  }
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") nothing();
  });
}
