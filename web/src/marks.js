// What is marked above the points of a panel: anchors, neighbors, the selected and the hovered item.
import { cssColor } from "./colors.js";

export function drawMarks(canvas, { anchors = [], neighbors = [], selected, hovered, label }, screen) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio;
  if (canvas.width !== width * ratio) canvas.width = width * ratio;
  if (canvas.height !== height * ratio) canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const at = (item, draw) => {
    const place = screen(item);
    if (place && place.every(Number.isFinite)) draw(...place);
  };
  const [ink, accent, surface] = ["--ink", "--accent", "--surface"].map(cssColor);
  pen.beginPath(); // all anchors are one stroke, which costs as much as one of them
  for (const item of anchors) at(item, (x, y) => diamond(pen, x, y));
  Object.assign(pen, { strokeStyle: ink, lineWidth: 1, globalAlpha: anchors.length > 100 ? 0.55 : 1 });
  pen.stroke();
  pen.globalAlpha = 1;
  for (const item of neighbors) at(item, (x, y) => ring(pen, x, y, 6, accent, surface, 1.75));
  if (selected != null) at(selected, (x, y) => ring(pen, x, y, 10, accent, surface, 3));
  if (hovered != null) {
    at(hovered, (x, y) => {
      ring(pen, x, y, 8, ink, surface, 2);
      if (label) tag(pen, x, y, label, { width, ink, surface });
    });
  }
}

function diamond(pen, x, y) {
  pen.moveTo(x, y - 4);
  pen.lineTo(x + 4, y);
  pen.lineTo(x, y + 4);
  pen.lineTo(x - 4, y);
  pen.closePath();
}

function ring(pen, x, y, radius, color, halo, lineWidth) {
  for (const [style, extra] of [[halo, 2.5], [color, 0]]) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.strokeStyle = style;
    pen.lineWidth = lineWidth + extra;
    pen.stroke();
  }
}

function tag(pen, x, y, text, { width, ink, surface }) {
  pen.font = "13px system-ui, sans-serif";
  const shown = text.length > 40 ? `${text.slice(0, 39)}…` : text;
  const room = pen.measureText(shown).width + 14;
  const left = Math.max(4, Math.min(width - room - 4, x + 13));
  const top = y > 34 ? y - 34 : y + 13;
  pen.fillStyle = ink;
  pen.beginPath();
  pen.roundRect(left, top, room, 23, 5);
  pen.fill();
  pen.fillStyle = surface;
  pen.fillText(shown, left + 7, top + 16);
}
