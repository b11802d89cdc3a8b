// What the page shows, in one place: whoever changes it says so, and whoever depends on it is told.

export function createStore(initial) {
  const state = { ...initial };
  const listeners = [];
  return {
    state,
    set(change) {
      const names = Object.keys(change).filter((name) => state[name] !== change[name]);
      if (!names.length) return;
      Object.assign(state, change);
      for (const { when, then } of listeners) if (when.some((name) => names.includes(name))) then(state);
    },
    on(when, then) {
      listeners.push({ when, then });
    },
  };
}
