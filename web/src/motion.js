// How points get from one place to another.

// Returns a function of t in [0, 1] that fills `out` with positions (x, y, x, y, …) from `start` to `end`.
// The rotation between both is taken along the circle, and a reflection as turning a sheet over, because straight
// lines would squeeze the picture through its middle. What the rotation leaves goes straight.
export function path(start, end) {
  const { angle, flip } = alignment(start, end);
  const at = (t) => turn(angle * t, flip ? 1 - 2 * t : 1);
  const rest = difference(end, moved(start, at(1)));
  return (t, out) => {
    const [a, b, c, d] = at(t);
    for (let i = 0; i < start.length; i += 2) {
      out[i] = start[i] * a + start[i + 1] * c + t * rest[i];
      out[i + 1] = start[i] * b + start[i + 1] * d + t * rest[i + 1];
    }
    return out;
  };
}

// Orthogonal Procrustes in two dimensions: the angle, and whether a reflection of y before it fits better.
function alignment(start, end) {
  let [xx, xy, yx, yy] = [0, 0, 0, 0];
  for (let i = 0; i < start.length; i += 2) {
    xx += start[i] * end[i];
    xy += start[i] * end[i + 1];
    yx += start[i + 1] * end[i];
    yy += start[i + 1] * end[i + 1];
  }
  const straight = [xx + yy, xy - yx];
  const reflected = [xx - yy, xy + yx];
  const flip = Math.hypot(...reflected) > Math.hypot(...straight);
  const [cosine, sine] = flip ? reflected : straight;
  return { angle: Math.atan2(sine, cosine), flip };
}

// The matrix that scales y and then rotates, by rows: (x, y) → (x·a + y·c, x·b + y·d).
function turn(angle, scaleY) {
  const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
  return [cosine, sine, -sine * scaleY, cosine * scaleY];
}

function moved(points, [a, b, c, d]) {
  const out = new Float32Array(points.length);
  for (let i = 0; i < points.length; i += 2) {
    out[i] = points[i] * a + points[i + 1] * c;
    out[i + 1] = points[i] * b + points[i + 1] * d;
  }
  return out;
}

const difference = (a, b) => a.map((value, i) => value - b[i]);

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Calls `onFrame` with eased progress from 0 to 1. Returns a function that stops it; where people asked for less
// motion there is one frame only.
export function animate(milliseconds, onFrame, onEnd = () => {}) {
  let begun = null;
  let stopped = false;
  const frame = (now) => {
    if (stopped) return;
    begun ??= now;
    const t = calm() ? 1 : Math.min(1, (now - begun) / milliseconds);
    onFrame(t * t * (3 - 2 * t));
    if (t < 1) requestAnimationFrame(frame);
    else onEnd();
  };
  requestAnimationFrame(frame);
  return () => {
    stopped = true;
  };
}
