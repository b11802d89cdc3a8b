/** Translate vectors with a translator that relatent (Python) has saved. docs/translator-file.md describes the format. */

const FORMAT_VERSION = "2";
const HEADER_LIMIT = 16 * 2 ** 20;
// Types of arrays as safetensors and NumPy name them, and their bytes. Maps have floats; the others are only checked.
const DTYPES = {
  F32: ["<f4", 4], F64: ["<f8", 8], F16: ["<f2", 2], I64: ["<i8", 8], I32: ["<i4", 4], I16: ["<i2", 2], I8: ["|i1", 1],
  U64: ["<u8", 8], U32: ["<u4", 4], U16: ["<u2", 2], U8: ["|u1", 1], BOOL: ["|b1", 1],
};
const FLOATS = { F32: Float32Array, F64: Float64Array };
const NORMALIZATIONS = ["none", "l2", "center", "center+l2", "iso", "standard", "weighted", "whiten"];
const MAP_ENTRIES = ["before", "width", "mixed", "bank", "lengths"];

/** A file that is not a translator, is damaged, or is of another version than this package reads. */
export class FileError extends Error {
  name = "FileError";
}

/** Read a translator from a path, a URL, bytes, a Blob or a Response. */
export async function load(source) {
  const bytes = await read(source);
  if (!globalThis.crypto?.subtle) {
    throw new Error("Checksums need crypto.subtle: use Node.js 20.16 or newer, and in a browser https or localhost.");
  }
  try {
    const { metadata, tensors, data } = parse(bytes);
    const same = (await checksum(metadata, tensors, data)) === metadata.sha256;
    expect(same, "is damaged (its checksum does not match): get a new copy");
    return new Translator(JSON.parse(metadata.about), finiteArrays(tensors, data));
  } catch (error) {
    if (error instanceof FileError) throw error;
    throw new FileError(`The file lacks what a translator should hold (${error.message}): update this package.`);
  }
}

/** A fitted map of the source's vectors, and for retrieval of the target's. */
export class Translator {
  #source;
  #target = null;

  constructor(about, arrays) {
    [this.source, this.target] = ["source", "target"].map((side, i) => {
      const { probe, quiet, ...recorded } = JSON.parse(about.endpoints[side]);
      return Object.freeze({ name: about.endpoints.names[i], ...recorded });
    });
    this.goal = about.parameters.goal;
    this.#source = readMap(about.map, arrays, "map.", this.source.dim);
    if (about.target) this.#target = readMap(about.target, arrays, "target.", this.target.dim);
    this.metric = this.#target ? "inner" : "cosine";
    this.dims = Object.freeze([this.#source.dimIn, this.#source.dimOut]);
    expect(String(about.dims) === String(this.dims), `holds maps of ${this.dims} and says ${about.dims}`);
    const compared = this.#target ? this.#target.dimOut : this.target.dim;
    expect(this.dims[1] === compared, `translates to ${this.dims[1]} coordinates and compares with ${compared}`);
    Object.freeze(this);
  }

  /** Translate one vector of the source, or several. */
  translate(vectors) {
    return applied(vectors, this.#source, "source");
  }

  /** Prepare one vector of the target, or several, for comparison; changes them only if `metric` is "inner". */
  translateTarget(vectors) {
    return applied(vectors, this.#target ?? { dimIn: this.target.dim, steps: [] }, "target");
  }

  /** Score a translated vector against a prepared one of the target, by `metric`: the more alike, the higher. */
  score(translated, prepared) {
    const [x, y] = [translated, prepared].map((v) => checked(v, this.dims[1], "result", 0));
    return this.metric === "inner" ? dot(x, y) : dot(unit(x), unit(y));
  }
}

// The file ------------------------------------------------------------------------------------------------------------

async function read(source) {
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (Object.prototype.toString.call(source) === "[object ArrayBuffer]") return new Uint8Array(source);
  if (typeof source === "string" || source instanceof URL) {
    const files = globalThis.process?.getBuiltinModule?.("node:fs/promises"); // Node, Deno and Bun; no import to bundle
    const local = files && !/^(https?|data|blob):/i.test(source);
    if (local) return read(await files.readFile(/^file:/i.test(source) ? new URL(source) : source));
    source = await fetch(source);
  }
  if (source?.ok === false) throw new FileError(`${source.url} cannot be had: HTTP ${source.status}.`);
  if (typeof source?.arrayBuffer === "function") return new Uint8Array(await source.arrayBuffer());
  throw new TypeError("load takes a path, a URL, an ArrayBuffer, a typed array, a Blob or a Response.");
}

function parse(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = bytes.length < 8 ? Infinity : Number(view.getBigUint64(0, true));
  expect(length <= Math.min(HEADER_LIMIT, bytes.length - 8), "is not a safetensors file, or only the beginning of one");
  let header = null;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + length)));
  } catch {} // what is not JSON is reported below
  expect(header && typeof header === "object", "is not a safetensors file");
  const { __metadata__: metadata, ...tensors } = header;
  expect(metadata?.format === "relatent", "was not written by relatent");
  const version = metadata.format_version;
  const newer = Number(version) > Number(FORMAT_VERSION);
  const advice = newer ? "update this package" : "save the translator again with a newer relatent";
  expect(version === FORMAT_VERSION, `has format version ${version}, and this package reads ${FORMAT_VERSION}: ${advice}`);
  expect(metadata.kind === "translator", `holds a ${metadata.kind}, and this package reads translators only`);
  const data = bytes.subarray(8 + length);
  let size = 0;
  for (const [name, { dtype, shape, data_offsets: at }] of Object.entries(tensors)) {
    expect(Object.hasOwn(DTYPES, dtype), `holds ${name} as ${dtype}, which this package does not know: update it`);
    const counts = [...shape, ...at].every((n) => Number.isSafeInteger(n) && n >= 0);
    const whole = counts && at[1] - at[0] === shape.reduce((n, m) => n * m, 1) * DTYPES[dtype][1];
    expect(whole, `has a damaged header (${name}): get a new copy`);
    size = Math.max(size, at[1]);
  }
  expect(size === data.length, `should have ${size} bytes of arrays and has ${data.length}: get a new copy`);
  return { metadata, tensors, data };
}

/** The SHA-256 of metadata and arrays as Python writes them: JSON in ASCII with sorted keys, NumPy's names of types. */
async function checksum({ sha256, ...metadata }, tensors, data) {
  const ascii = (text) =>
    JSON.stringify(text).replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const entries = Object.keys(metadata).sort().map((key) => `${ascii(key)}: ${ascii(metadata[key])}`);
  const parts = [`{${entries.join(", ")}}`];
  for (const name of Object.keys(tensors).sort()) {
    const { dtype, shape, data_offsets: at } = tensors[name];
    const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
    parts.push(`\n${name} ${DTYPES[dtype][0]} ${tuple}\n`, data.subarray(...at));
  }
  const digest = await crypto.subtle.digest("SHA-256", await new Blob(parts).arrayBuffer());
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The arrays of floats by name, copied to where they are aligned. */
function finiteArrays(tensors, data) {
  const floats = Object.entries(tensors).filter(([, { dtype }]) => dtype in FLOATS);
  return new Map(
    floats.map(([name, { dtype, shape, data_offsets: at }]) => {
      const values = new FLOATS[dtype](data.slice(...at).buffer);
      expect(values.every(Number.isFinite), `holds NaN or infinity in ${name}`);
      return [name, { values, shape }];
    }),
  );
}

// Maps ----------------------------------------------------------------------------------------------------------------

/** The steps of a map, in order: each a function of one vector. `any` stands for a size that the array decides. */
function readMap(about, arrays, prefix, dimIn) {
  const left = new Set([...arrays.keys()].filter((name) => name.startsWith(prefix)));
  const unknown = Object.keys(about).filter((name) => !MAP_ENTRIES.includes(name));
  const any = null;
  const take = (name, ...sizes) => {
    const { values, shape } = arrays.get(prefix + name) ?? {};
    const fits = shape?.length === sizes.length && sizes.every((n, i) => n === any || n === shape[i]);
    expect(fits, `has no ${prefix}${name} of the expected shape: get a new copy`);
    left.delete(prefix + name);
    return { values, shape };
  };
  const [steps, { before, width, bank, lengths }] = [[], about];
  let dim = dimIn;
  if (before) {
    expect(NORMALIZATIONS.includes(before.name), `has the normalization ${before.name}: update this package`);
    const mean = take("before.mean", dim).values;
    const full = arrays.get(`${prefix}before.scale`)?.shape.length === 2;
    const [scale] = ["before.scale", "before.unscale"].map((name) => take(name, ...(full ? [dim, dim] : [dim])).values);
    if (!["none", "l2"].includes(before.name)) steps.push((x) => x.map((value, i) => value - mean[i]));
    if (["iso", "standard", "weighted", "whiten"].includes(before.name)) {
      steps.push(full ? linear(scale) : (x) => x.map((value, i) => value * scale[i]));
    }
    if (before.unit) steps.push(unit);
  }
  if (left.has(`${prefix}basis`)) {
    const basis = take("basis", dim, any);
    dim = basis.shape[1];
    steps.push(linear(basis.values));
  }
  if (width != null) {
    const centers = take("centers", any, dim);
    dim += centers.shape[0];
    steps.push(gaussian(centers.values, width));
  }
  const matrix = take("matrix", dim, any);
  dim = matrix.shape[1];
  steps.push(linear(matrix.values, take("offset", dim).values));
  if (left.has(`${prefix}bias`)) {
    const weights = take("bias", dim).values;
    const queries = bank && take("bank.queries", any, dim);
    const offsets = bank && take("bank.offsets", queries.shape[0]).values;
    steps.push(bank ? hubness(weights, queries.values, offsets, bank) : squares(weights));
    dim += 1;
  }
  if (lengths) {
    const center = take("center", dim).values;
    steps.push(length(lengths), (x) => x.map((value, i) => value + center[i]), ...(lengths.unit ? [unit] : []));
  }
  expect(unknown.length + left.size === 0, `holds ${[...unknown, ...left]}, which this package does not know: update it`);
  return { steps, dimIn, dimOut: dim };
}

const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);

function linear(matrix, offset) {
  return (x) => {
    const size = matrix.length / x.length;
    const y = new Float64Array(size);
    if (offset) y.set(offset);
    for (let i = 0, at = 0; i < x.length; i++) {
      const value = x[i];
      for (let j = 0; j < size; j++) y[j] += value * matrix[at++];
    }
    return y;
  };
}

/** The norm, by the largest entry first: a square might overflow. */
function norm(x) {
  const largest = x.reduce((found, value) => Math.max(found, Math.abs(value)), 0);
  return largest && largest * Math.sqrt(x.reduce((sum, value) => sum + (value / largest) ** 2, 0));
}

function unit(x) {
  const size = norm(x) || 1;
  return x.map((value) => value / size);
}

function length({ length: typical, power }) {
  return (x) => {
    const factor = (typical / (norm(x) || 1)) ** power;
    return x.map((value) => value * factor);
  };
}

function gaussian(centers, width) {
  return (x) => {
    const y = new Float64Array(x.length + centers.length / x.length);
    y.set(x);
    for (let k = x.length, at = 0; k < y.length; k++) {
      let square = 0;
      for (let i = 0; i < x.length; i++) square += (x[i] - centers[at++]) ** 2;
      y[k] = Math.exp(-square / width);
    }
    return y;
  };
}

const appended = (x, value) => Float64Array.of(...x, value);
const weighted = (x, weights) => x.reduce((sum, value, i) => sum + value * value * weights[i], 0);

function squares(weights) {
  return (x) => appended(x, weighted(x, weights));
}

function hubness(weights, queries, offsets, { weight, neighbors }) {
  expect(neighbors >= 1 && neighbors <= offsets.length, `has ${neighbors} neighbors in a bank of ${offsets.length}`);
  return (x) => {
    const scores = Float64Array.from(offsets, (o, j) => o + dot(x, queries.subarray(j * x.length)));
    const best = scores.sort().subarray(scores.length - neighbors);
    const bias = weighted(x, weights);
    return appended(x, bias - weight * (bias + best.reduce((sum, score) => sum + score, 0) / neighbors));
  };
}

// Vectors -------------------------------------------------------------------------------------------------------------

function applied(vectors, { dimIn, steps }, side) {
  const one = ArrayBuffer.isView(vectors) || typeof vectors?.[0] === "number";
  if (!one && !Array.isArray(vectors)) throw new TypeError(`Expected a vector or an array of vectors, not ${vectors}.`);
  const rows = one ? [vectors] : vectors;
  const found = rows.map((row, i) => {
    const y = steps.reduce((x, step) => step(x), checked(row, dimIn, side, i));
    return row instanceof Float64Array ? y : Float32Array.from(y);
  });
  return one ? found[0] : found;
}

function checked(row, dim, side, i) {
  if (!ArrayBuffer.isView(row) && !Array.isArray(row)) {
    throw new TypeError(`Vector ${i} is ${row}: expected an array of numbers.`);
  }
  if (row.length !== dim) {
    throw new RangeError(`Vector ${i} has ${row.length} coordinates: expected ${dim}, as the ${side} has.`);
  }
  const at = Array.prototype.findIndex.call(row, (value) => !Number.isFinite(value));
  if (at >= 0) throw new RangeError(`Coordinate ${at} of vector ${i} is ${row[at]}: expected finite numbers.`);
  return Float64Array.from(row);
}

function expect(condition, problem) {
  if (!condition) throw new FileError(`The file ${problem}.`);
}
