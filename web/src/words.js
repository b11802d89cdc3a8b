// Everything that the page says.

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
  const still = live ? "" : " This page was exported: fits are as they were then.";
  find("notes").textContent =
    `${items}${still} Drag moves the view, the wheel zooms, Shift-drag lassoes. ` +
    "Tab reaches everything; arrow keys go through points, Enter selects, Escape clears.";
}

export function moved(about, { t, layout, playing }) {
  const sources = listed(about.spaces.slice(0, -1).map(({ name }) => name));
  const target = about.spaces.at(-1).name;
  const end =
    layout === "relative"
      ? "Each item by its similarities to the anchors: alike in every space, without a translator."
      : `Translated: ${sources} ${about.spaces.length > 2 ? "lie" : "lies"} where ${target} puts the same items.`;
  const start = "As they are: each model has coordinates of its own, so that pictures may be alike, but turned or mirrored.";
  find("caption").textContent = t === 0 ? start : t === 1 ? end : `On the way: ${percent(t)}`;
  find("slider").setAttribute("aria-valuetext", t === 0 ? "as they are" : t === 1 ? "translated" : percent(t));
  find("play").textContent = playing ? "❚❚" : t === 1 ? "◀" : "▶";
  find("play").ariaLabel = playing ? "Pause" : t === 1 ? "Play back" : "Play the translation";
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
  anchorsSlid(given ? about.usualK : k, about.anchors.most);
  if (given) find("k-says").textContent = "the translator's own pairs";
  find("given").hidden = about.translator === null || given || !live;
  const how = given ? `Given: ${about.translator}.` : "Anchors are items that both models have encoded.";
  find("fit-says").textContent = live
    ? `${how} Figures are on items that were not fitted on.`
    : `${how} To fit on other numbers, run relatent explore.`;
}

export function anchorsSlid(k, most) {
  find("k-says").textContent = `${number(k)} of ${number(most)}`;
  find("k").setAttribute("aria-valuetext", `${number(k)} anchors`);
}

export function errors(about, view, item) {
  const one = (i) => (1 - view.errors[i][item]).toFixed(3);
  const named = about.spaces.slice(0, -1).map(({ name }, i) => `${name} ${one(i)}`);
  return `Cosine of the translation to the item itself: ${named.join(", ")}`;
}

export function hovered(about, { hovered: item, view }) {
  const says = find("search-says");
  if (item === null) return;
  const label = about.labels ? `, ${about.labelName} ${about.labels[item]}` : "";
  says.textContent = view ? `${about.keys[item]}${label}` : "";
}
