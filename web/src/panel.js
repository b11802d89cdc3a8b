// One space: its points, drawn by the graphics card, and what is marked among them, drawn above.
import createScatterplot, { createRenderer } from "regl-scatterplot";
import { cssColor } from "./colors.js";
import { path } from "./motion.js";
import { drawMarks } from "./marks.js";

const MARGIN = 1.12; // how much of the plane is seen around the unit square
// One for all panels, because a browser gives few, and no larger than they are.
const renderer = createRenderer({ canvas: document.createElement("canvas") });

export function fitRenderer() {
  const sizes = [...document.querySelectorAll(".plot")].map(({ clientWidth, clientHeight }) => [clientWidth, clientHeight]);
  renderer.resize(...[0, 1].map((side) => Math.max(...sizes.map((size) => size[side]))));
  renderer.refresh();
}

export class Panel {
  // `behind`, if any, is the panel whose points are shown in gray beneath these.
  constructor(root, { name, dim, behind }) {
    this.name = name;
    this.behind = behind;
    root.querySelector("figcaption strong").textContent = name;
    root.querySelector("figcaption span").textContent = `${dim} coordinates`;
    this.scores = root.querySelector(".scores");
    this.plot = root.querySelector(".plot");
    this.plot.setAttribute("aria-label", `Points of ${name}. Arrow keys go from point to point, Enter selects.`);
    [this.canvas, this.above] = root.querySelectorAll("canvas");
    this.marks = {};
    this.scatter = createScatterplot({
      renderer,
      canvas: this.canvas,
      colorBy: "category",
      cameraDistance: MARGIN,
      pointSizeSelected: 2,
      pointOutlineWidth: 1.5,
      lassoMinDelay: 0,
      lassoMinDist: 2,
      lassoOnLongPress: false,
      deselectOnDblClick: true,
      deselectOnEscape: false,
      opacityInactiveScale: 0.35,
      opacityInactiveMax: 0.35,
      spatialIndexUseWorker: false,
    });
    this.scatter.subscribe("view", () => this.mark());
    this.scatter.subscribe("draw", () => this.mark());
  }

  // Tells which items are hovered and selected: `hover(item | null)`, `select(items)`, `deselect()`.
  listen({ hover, select, deselect }) {
    this.scatter.subscribe("pointOver", (point) => hover(this.item(point)));
    this.scatter.subscribe("pointOut", () => hover(null));
    this.scatter.subscribe("deselect", deselect);
    this.scatter.subscribe("select", ({ points }) => {
      const own = points.filter((point) => point >= this.first);
      select((own.length ? own : points.slice(0, 1)).map((point) => this.item(point)));
    });
  }

  // Takes the positions of all items at both ends of the slider.
  place({ start, end }) {
    this.path = path(start, end);
    this.end = end;
    this.moves = start.some((value, i) => value !== end[i]);
    this.shown ??= new Float32Array(start.length);
    this.count = start.length / 2;
  }

  paint({ index, colors }) {
    this.index = index;
    const all = [cssColor("--ghost"), ...colors];
    this.scatter.set({
      backgroundColor: cssColor("--surface"),
      pointColor: all,
      pointColorActive: all,
      pointColorHover: all,
      lassoColor: cssColor("--accent"),
      pointSize: this.count > 5000 ? 3.5 : this.count > 1500 ? 5 : 7,
      opacity: this.count > 5000 ? 0.7 : 0.85,
    });
  }

  positions(t, out = new Float32Array(2 * this.count)) {
    return this.path(t, out);
  }

  get ghosts() {
    return this.behind && this.showBehind ? this.behind.end : null;
  }

  // The number of points that stand before the items' own; they are the same items in the other space.
  get first() {
    return this.ghosts ? this.count : 0;
  }

  item(point) {
    return point % this.count;
  }

  // Draws items at positions. While points move, `moving` spares the search index, which is made when they rest.
  async draw(positions, moving = false) {
    this.next = { positions: positions.slice(), moving };
    if (this.drawing) return this.drawing;
    this.drawing = this.drawAll().finally(() => {
      this.drawing = null;
    });
    return this.drawing;
  }

  async drawAll() {
    while (this.next) {
      const { positions, moving } = this.next;
      this.next = null;
      this.shown.set(positions);
      const points = this.points(positions);
      const index = moving && this.indexed === points.x.length ? this.scatter.get("spatialIndex") : undefined;
      this.indexed = points.x.length;
      await this.scatter.draw(points, {
        zDataType: "categorical",
        preventFilterReset: true,
        spatialIndex: index,
        select: this.selection?.map((item) => item + this.first),
      });
    }
  }

  points(positions) {
    const [ghosts, first, n] = [this.ghosts, this.first, this.count];
    const [x, y, category] = [new Float32Array(first + n), new Float32Array(first + n), new Uint8Array(first + n)];
    for (let i = 0; i < first; i++) {
      x[i] = ghosts[2 * i];
      y[i] = ghosts[2 * i + 1];
    }
    for (let i = 0; i < n; i++) {
      x[first + i] = positions[2 * i];
      y[first + i] = positions[2 * i + 1];
      category[first + i] = 1 + this.index[i];
    }
    return { x, y, category };
  }

  select(items) {
    this.selection = items.length ? items : undefined;
    if (items.length) this.scatter.select(items.map((item) => item + this.first), { preventEvent: true });
    else this.scatter.deselect({ preventEvent: true });
  }

  // Marks items above the points: { anchors, neighbors, selected, hovered, label }.
  mark(marks = this.marks) {
    this.marks = marks;
    if (!this.scatter.get("isPointsDrawn")) return; // they have no place yet
    drawMarks(this.above, marks, (item) => this.scatter.getScreenPosition(item + this.first));
  }

  // The item that lies next in a direction, for arrow keys.
  beside(item, [dx, dy]) {
    const [x, y] = [this.shown[2 * item], this.shown[2 * item + 1]];
    let [best, cost] = [item, Infinity];
    for (let i = 0; i < this.count; i++) {
      const [ax, ay] = [this.shown[2 * i] - x, this.shown[2 * i + 1] - y];
      const along = ax * dx + ay * dy;
      if (along <= 0) continue;
      const price = along + 3 * Math.abs(ax * dy - ay * dx);
      if (price < cost) [best, cost] = [i, price];
    }
    return best;
  }
}
