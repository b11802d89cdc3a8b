// Exports: the panels as they are now in one PNG image, and the page with its data.
import { cssColor } from "./colors.js";

const [PAD, HEAD, FOOT] = [24, 40, 44];

const find = (id) => document.getElementById(id);

export function startExports({ data, about, store: { state }, panels, problem }) {
  const name = about.spaces.map((space) => space.name.replace(/\W+/g, "-")).join("-");
  const onClick = (button, make) =>
    button.addEventListener("click", async () => {
      button.disabled = true;
      await make().catch(problem);
      button.disabled = false;
    });
  onClick(find("png"), async () => download(await picture(panels, find("caption").textContent), `${name}.png`));
  onClick(find("html"), async () => download(await data.exported(state.k), `${name}.html`));
  find("html").hidden = !data.live;
}

function picture(panels, caption) {
  const ratio = devicePixelRatio;
  const width = panels.reduce((sum, { canvas }) => sum + canvas.clientWidth + PAD, PAD);
  const height = Math.max(...panels.map(({ canvas }) => canvas.clientHeight)) + HEAD + FOOT;
  const sheet = Object.assign(document.createElement("canvas"), { width: width * ratio, height: height * ratio });
  const pen = sheet.getContext("2d");
  pen.scale(ratio, ratio);
  pen.fillStyle = cssColor("--page");
  pen.fillRect(0, 0, width, height);
  let left = PAD;
  for (const panel of panels) {
    const { clientWidth: w, clientHeight: h } = panel.canvas;
    pen.fillStyle = cssColor("--ink");
    pen.font = "600 16px system-ui, sans-serif";
    pen.fillText(panel.name, left, 27);
    for (const layer of [panel.canvas, panel.above]) pen.drawImage(layer, left, HEAD, w, h);
    left += w + PAD;
  }
  pen.fillStyle = cssColor("--soft");
  pen.font = "14px system-ui, sans-serif";
  pen.fillText(caption, PAD, height - 16);
  return new Promise((resolve) => sheet.toBlob(resolve, "image/png"));
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
