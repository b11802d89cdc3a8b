import { FileError, load, type Space, type Translator } from "relatent";

const t: Translator = await load("t.safetensors");
const one: Float32Array = t.translate(new Float32Array(3));
const plain: Float32Array = t.translate([1, 2, 3]);
const wide: Float64Array = t.translate(new Float64Array(3));
const many: Float32Array[] = t.translate([[1, 2], [3, 4]]);
const prepared: Float32Array[] = t.translateTarget([new Float32Array(3)]);
const score: number = t.score(one, prepared[0]);
const source: Space = t.source;
const model: string | undefined = source.model;
const metric: "cosine" | "inner" = t.metric;
for (const given of [new URL("file:///t"), new ArrayBuffer(8), new Uint8Array(8), new Blob([])]) await load(given);
await load(await fetch("t"));
if (!(new FileError("x") instanceof Error)) throw new Error();

// @ts-expect-error: text is no vector
t.translate("abc");
// @ts-expect-error: a translator is loaded, not made
new (t.constructor as typeof Translator)();
// @ts-expect-error: a number is no file
await load(3);
// @ts-expect-error: nothing is written
t.source.dim = 4;
// @ts-expect-error: not every model is recorded
const known: string = t.source.model;
export { plain, wide, many, score, model, metric, known };
