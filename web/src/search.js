// Search by key: suggestions while typing, and the item itself once a key is complete or Enter is pressed.

const SUGGESTED = 12;

export function startSearch(input, keys, choose) {
  const lower = keys.map((key) => key.toLowerCase());
  const list = document.getElementById("found");
  const says = document.getElementById("search-says");
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    const found = wanted ? matches(lower, wanted) : [];
    list.replaceChildren(...found.slice(0, SUGGESTED).map((item) => new Option(keys[item])));
    says.textContent = wanted ? count(found.length) : "";
    const exact = lower.indexOf(wanted);
    if (exact >= 0 && found.length === 1) choose.select(exact);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const wanted = input.value.trim().toLowerCase();
    const exact = lower.indexOf(wanted);
    const item = exact >= 0 ? exact : matches(lower, wanted)[0];
    if (wanted && item !== undefined) choose.select(item);
  });
  input.addEventListener("change", () => {
    const exact = lower.indexOf(input.value.trim().toLowerCase());
    if (exact >= 0) choose.select(exact);
  });
}

function matches(keys, wanted) {
  return keys.flatMap((key, i) => (key.includes(wanted) ? [i] : []));
}

function count(n) {
  return n === 0 ? "no such key" : n === 1 ? "1 key" : `${n.toLocaleString("en")} keys`;
}
