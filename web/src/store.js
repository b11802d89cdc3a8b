// The state of the page, in one place: changes notify the listeners of their names.

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
