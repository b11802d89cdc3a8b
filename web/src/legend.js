// The legend of the colors. A click on a label selects its items.

export function showLegend(root, { entries, range }, selectLabel) {
  root.replaceChildren(...(range ? [ramp(range)] : entries.map((entry) => labelButton(entry, selectLabel))));
}

function labelButton({ label, color, count, title }, selectLabel) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "swatch";
  const dot = document.createElement("i");
  dot.style.background = color;
  const number = document.createElement("small");
  number.textContent = count.toLocaleString("en");
  made.append(dot, title ?? label, number);
  made.addEventListener("click", () => selectLabel(label));
  return made;
}

function ramp({ low, high, largest }) {
  const made = document.createElement("div");
  made.className = "ramp";
  const bar = document.createElement("i");
  bar.style.background = `linear-gradient(to right, ${low}, ${high})`;
  const words = document.createElement("p");
  words.innerHTML = "<span>0</span><span></span>";
  words.lastChild.textContent = `≥ ${largest.toPrecision(2)}`;
  const about = document.createElement("p");
  about.className = "quiet";
  about.textContent = "1 − cosine to the item's own vector in the target";
  made.append(bar, words, about);
  return made;
}
