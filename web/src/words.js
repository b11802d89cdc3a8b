// All texts of the page.

const find = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(100 * share)} %`;
const number = (n) => n.toLocaleString("en");
const listed = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);

export function page(about, live) {
  const names = about.spaces.map(({ name }) => name);
  const target = names.at(-1);
  find("lead").textContent =
    `Every dot is one item, placed by ${names.length === 2 ? "two" : names.length} models: ${listed(names)}. ` +
    `The slider translates ${listed(names.slice(0, -1))} into ${target}.`;
  find("to").textContent = `Translated into ${target}`;
  const shown = about.keys.length;
  const items =
    shown < about.total
      ? `A sample of ${number(shown)} of the ${number(about.total)} items that all spaces share; neighbors are found within it.`
      : `All ${number(shown)} items that the spaces share.`;
  const still = live ? "" : " This page was exported and cannot refit.";
  find("notes").textContent =
    `${items}${still} Drag to pan, scroll to zoom, Shift-drag to lasso. ` +
    "Tab reaches all controls; arrow keys move between points, Enter selects, Escape clears.";
}

export function moved(about, { t, layout, playing }) {
  const sources = listed(about.spaces.slice(0, -1).map(({ name }) => name));
  const target = about.spaces.at(-1).name;
  const end =
    layout === "relative"
      ? "Each item by its similarities to the anchors, which agree across spaces without a translator."
      : `Translated: the items of ${sources} at their positions in ${target}.`;
  const start = "Original: each model has its own coordinates, so the same clusters may be rotated or mirrored.";
  find("caption").textContent = t === 0 ? start : t === 1 ? end : `In between: ${percent(t)}`;
  find("slider").setAttribute("aria-valuetext", t === 0 ? "original" : t === 1 ? "translated" : percent(t));
  find("play").textContent = playing ? "❚❚" : t === 1 ? "◀" : "▶";
  find("play").ariaLabel = playing ? "Pause" : t === 1 ? "Play backward" : "Play the translation";
}

export function scores(panels, about, view) {
  const target = about.spaces.at(-1).name;
  for (const [i, panel] of panels.entries()) {
    const score = view.scores[i];
    panel.scores.replaceChildren();
    if (!score) panel.scores.textContent = "The target of the translation.";
    else {
      const strong = document.createElement("strong");
      strong.textContent = percent(score.after);
      panel.scores.append(`Neighbors shared with ${target}: `, strong, ` translated, ${percent(score.before)} before · cosine ${score.cosine.toFixed(2)}`);
    }
  }
}

export function fitted(about, { k }, live) {
  const given = about.translator !== null && k === 0;
  anchorsSlid(given ? about.defaultK : k, about.anchors.max);
  if (given) find("k-says").textContent = "the translator's own pairs";
  find("given").hidden = about.translator === null || given || !live;
  const how = given ? `Given: ${about.translator}.` : "Anchors are items that both models encoded.";
  find("fit-says").textContent = live
    ? `${how} Scores are on items that were not used to fit.`
    : `${how} To fit on another number of anchors, run relatent explore.`;
}

export function anchorsSlid(k, max) {
  find("k-says").textContent = `${number(k)} of ${number(max)}`;
  find("k").setAttribute("aria-valuetext", `${number(k)} anchors`);
}

export function errors(about, view, item) {
  const one = (i) => (1 - view.errors[i][item]).toFixed(3);
  const named = about.spaces.slice(0, -1).map(({ name }, i) => `${name} ${one(i)}`);
  return `Cosine of the translation to the target: ${named.join(", ")}`;
}

export function hovered(about, { hovered: item, view }) {
  const says = find("search-says");
  if (item === null) return;
  const label = about.labels ? `, ${about.labelName} ${about.labels[item]}` : "";
  says.textContent = view ? `${about.keys[item]}${label}` : "";
}
