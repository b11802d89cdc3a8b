/** The golden files in tests/golden, inputs that are refused, and files that are damaged. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { test } from "node:test";

import { FileError, load } from "relatent";

const GOLDEN = process.env.RELATENT_GOLDEN ?? fileURLToPath(new URL("../../tests/golden/2", import.meta.url));
const golden = JSON.parse(await readFile(join(GOLDEN, "vectors.json"), "utf8"));
const names = (await readdir(GOLDEN)).filter((name) => name.endsWith(".safetensors")).map((name) => name.slice(0, -12));
const path = (name) => join(GOLDEN, `${name}.safetensors`);
const bytes = await readFile(path("kernel"));

/** The largest error of a row, in units of its norm. */
function error(found, expected) {
  assert.equal(found.length, expected.length);
  return Math.max(
    ...expected.map((row, i) => {
      assert.equal(found[i].length, row.length);
      return Math.hypot(...row.map((value, j) => value - found[i][j])) / (Math.hypot(...row) || 1);
    }),
  );
}

for (const name of names) {
  test(`${name}: the golden vectors`, async () => {
    const [t, known] = [await load(path(name)), golden[name]];
    assert.equal(t.metric, known.metric);
    for (const [from, to] of [
      [(rows) => t.translate(rows), [known.source, known.translated]],
      [(rows) => t.translateTarget(rows), [known.target, known.prepared]],
    ]) {
      assert.ok(error(from(to[0].map((row) => Float64Array.from(row))), to[1]) < 1e-11);
      assert.ok(error(from(to[0].map((row) => Float32Array.from(row))), to[1]) < 1e-6);
      assert.ok(error(from(to[0]), to[1]) < 1e-6);
    }
  });
}

test("one vector gives one vector, an array of them as many, none gives none", async () => {
  const [t, rows] = [await load(path("affine")), golden.affine.source];
  const one = t.translate(Float32Array.from(rows[0]));
  assert.ok(one instanceof Float32Array);
  assert.deepEqual(t.translate(rows)[0], one);
  assert.ok(t.translate(Float64Array.from(rows[0])) instanceof Float64Array);
  assert.deepEqual(t.translate([]), []);
  assert.deepEqual(rows, golden.affine.source);
});

test("a file says what it joins", async () => {
  const t = await load(path("retrieval-bank"));
  assert.deepEqual([t.goal, t.metric, [...t.dims]], ["retrieval", "inner", [6, 5]]);
  assert.deepEqual({ ...t.source }, { name: "old", dim: 6, model: "example/old" });
  assert.deepEqual({ ...t.target }, { name: "new", dim: 4, model: "example/new" });
});

test("scores are cosines, or inner products where both sides are moved", async () => {
  for (const name of ["affine", "retrieval"]) {
    const [t, known] = [await load(path(name)), golden[name]];
    const [x, y] = [known.translated[0], known.prepared[1]];
    const inner = x.reduce((sum, value, i) => sum + value * y[i], 0);
    const expected = name === "affine" ? inner / Math.hypot(...x) / Math.hypot(...y) : inner;
    assert.ok(Math.abs(t.score(x, y) - expected) < 1e-12);
    assert.throws(() => t.score(x, y.slice(1)), RangeError);
  }
});

test("every way to name a file", async () => {
  const url = pathToFileURL(path("kernel"));
  const data = `data:application/octet-stream;base64,${bytes.toString("base64")}`;
  const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  for (const source of [path("kernel"), url, url.href, data, new URL(data), bytes, copy, new Blob([bytes]), new Response(bytes)]) {
    assert.equal((await load(source)).dims[0], 6);
  }
  await assert.rejects(load(new Response("", { status: 404 })), /HTTP 404/);
  await assert.rejects(load(path("absent")), { code: "ENOENT" });
  for (const source of [undefined, null, 3, {}]) await assert.rejects(load(source), TypeError);
});

test("vectors that do not fit are refused", async () => {
  const t = await load(path("affine"));
  const refused = [
    [Float32Array.of(1, 2), /Vector 0 has 2 coordinates: expected 6, as the source has/],
    [[[1, 2, 3, 4, 5, 6], [1]], /Vector 1 has 1 coordinates/],
    [new Float32Array(0), /has 0 coordinates/],
    [[1, 2, NaN, 4, 5, 6], /Coordinate 2 of vector 0 is NaN/],
    [[1, 2, 3, 4, 5, Infinity], /Coordinate 5 of vector 0 is Infinity/],
    [[1, null, 3, 4, 5, 6], /Coordinate 1 of vector 0 is null/],
    [[["1", 2, 3, 4, 5, 6]], /Coordinate 0 of vector 0 is 1/],
    [[null], /Vector 0 is null/],
    ["abcdef", /array of vectors/],
    [undefined, /array of vectors/],
    [7, /array of vectors/],
  ];
  for (const [given, message] of refused) assert.throws(() => t.translate(given), message);
  assert.throws(() => t.translateTarget(golden.affine.source), /expected 4, as the target has/);
});

/** The same file with another header. */
function withHeader(change) {
  const length = Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString());
  const text = Buffer.from(JSON.stringify(change(header) ?? header));
  const start = Buffer.alloc(8);
  start.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([start, text, bytes.subarray(8 + length)]);
}

test("a file that was cut off anywhere, or has more than it should, is refused", async () => {
  for (let end = 0; end < bytes.length; end += 7) await assert.rejects(load(bytes.subarray(0, end)), FileError);
  await assert.rejects(load(bytes.subarray(0, -1)), /should have \d+ bytes of arrays and has \d+/);
  await assert.rejects(load(Buffer.concat([bytes, bytes.subarray(-4)])), FileError);
});

test("a flipped bit anywhere is found", async () => {
  for (let at = 0; at < bytes.length; at += 11) {
    const damaged = Buffer.from(bytes);
    damaged[at] ^= 1 << at % 8;
    await assert.rejects(load(damaged), FileError, `byte ${at}`);
  }
});

test("other files are refused, and say why", async () => {
  const metadata = (change) => withHeader((header) => void Object.assign(header.__metadata__, change));
  const refused = [
    [Buffer.from("no file of this kind"), /is not a safetensors file/],
    [withHeader(() => 3), /is not a safetensors file/],
    [withHeader((header) => void delete header.__metadata__), /was not written by relatent/],
    [metadata({ format: "pt" }), /was not written by relatent/],
    [metadata({ format_version: "10" }), /format version 10, and this package reads 2: update this package/],
    [metadata({ format_version: "1" }), /format version 1, .* save the translator again/],
    [metadata({ kind: "hub" }), /holds a hub/],
    [metadata({ about: "{}" }), /checksum does not match/],
    [withHeader((header) => void (header["map.matrix"].dtype = "F8_E4M3")), /F8_E4M3, which this package does not know/],
    [withHeader((header) => void (header["map.matrix"].shape = [-1, 4])), /damaged header \(map.matrix\)/],
    [withHeader((header) => void (header["map.matrix"] = null)), /lacks what a translator should hold/],
  ];
  for (const [file, message] of refused) {
    await assert.rejects(load(file), (found) => found instanceof FileError && message.test(found.message), `${message}`);
  }
});
