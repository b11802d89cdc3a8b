// The data of the page: from its server, or embedded in the page.

export function openData() {
  const inside = document.getElementById("data").textContent;
  return inside ? fromPage(JSON.parse(inside)) : fromServer(new URLSearchParams(location.search).get("token"));
}

function fromServer(token) {
  async function ask(path, query = {}) {
    const headers = { Authorization: `Bearer ${token}` };
    const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { headers }).catch(() => {
      throw new Error("The server does not answer. Is `relatent explore` still running?");
    });
    if (!answer.ok) throw new Error((await answer.json()).error);
    return answer;
  }
  const json = async (...request) => (await ask(...request)).json();
  return {
    live: true,
    about: () => json("about"),
    view: async (layout, k) => unpackView(await json("view", { layout, k })),
    neighbors: (row, k) => json("neighbors", { row, k }),
    exported: async (k) => (await ask("export", { k })).blob(),
  };
}

function fromPage({ about, views, neighbors }) {
  const lists = mapped(neighbors, (text) => numbers(text, Uint32Array));
  const size = about.keys.length;
  const of = (row) => (list) => Array.from(list.slice((row * list.length) / size, ((row + 1) * list.length) / size));
  return {
    live: false,
    about: async () => ({ ...about, layouts: about.layouts.filter(({ name }) => name in views) }),
    view: async (layout) => unpackView(views[layout]),
    neighbors: async (row) => mapped(lists, of(row)),
  };
}

const mapped = (object, change) => Object.fromEntries(Object.entries(object).map(([name, v]) => [name, change(v)]));

function unpackView(view) {
  return {
    ...view,
    panels: view.panels.map((panel) => mapped(panel, (text) => numbers(text, Float32Array))),
    errors: view.errors.map((text) => numbers(text, Float32Array)),
  };
}

function numbers(text, Type) {
  return new Type(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer);
}
