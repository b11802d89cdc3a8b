// Details of the selected item: its neighbors before and after translation.

const MAX_KEYS = 100; // keys of a selection that are listed

const element = (name, options = {}, children = []) => {
  const made = Object.assign(document.createElement(name), options);
  made.append(...children);
  return made;
};

// Every list is a line of keys; those that are also in the target's list are marked.
export function showItem(root, { about, item, error, neighbors, choose }) {
  const target = about.spaces.at(-1).name;
  const own = new Set(neighbors.target);
  const lines = about.spaces.slice(0, -1).flatMap(({ name }, i) => [
    line(`Before, within ${name}`, neighbors[`before ${i}`], own),
    line(`After, ${name} translated`, neighbors[`after ${i}`], own),
  ]);
  const label = about.labels ? ` · ${about.labelName} ${about.labels[item]}` : "";
  const says = `${label} · ${error} · nearest neighbors, ✓ also in ${target}:`;
  root.replaceChildren(
    element("h2", {}, [element("strong", { textContent: about.keys[item] }), says]),
    element("dl", {}, [...lines, { title: `Within ${target}`, items: neighbors.target }].flatMap(({ title, items, tick }) => [
      element("dt", { textContent: title }),
      element("dd", {}, items.map((one) => keyButton(one, about, choose, own.has(one), tick))),
    ])),
  );
}

function line(title, items, own) {
  return { title: `${title}: ${items.filter((item) => own.has(item)).length} of ${items.length}`, items, tick: "✓ " };
}

export function showSelection(root, { about, items, choose }) {
  const more = items.length > MAX_KEYS ? `, the first ${MAX_KEYS}` : "";
  root.replaceChildren(
    element("h2", { textContent: `${items.length.toLocaleString("en")} items selected${more}:` }),
    element("div", { className: "keys" }, items.slice(0, MAX_KEYS).map((item) => keyButton(item, about, choose))),
  );
}

export function showNothing(root) {
  const words = "Point at a dot to find it in every space. Click it, or search, to see its neighbors.";
  root.replaceChildren(element("h2", { textContent: words }));
}

function keyButton(item, about, choose, hit = false, tick = "") {
  const key = about.keys[item];
  const made = element("button", { type: "button", textContent: (hit ? tick : "") + key, title: key });
  made.classList.toggle("hit", hit);
  made.addEventListener("click", () => choose.select(item));
  made.addEventListener("mouseenter", () => choose.hover(item));
  made.addEventListener("mouseleave", () => choose.hover(null));
  made.addEventListener("focus", () => choose.hover(item));
  made.addEventListener("blur", () => choose.hover(null));
  return made;
}
