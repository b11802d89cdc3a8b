/** One vector. Float64Array is answered with Float64Array, all else with Float32Array. */
export type Vector = Float32Array | Float64Array | readonly number[];
export type Translated<V extends Vector> = V extends Float64Array ? Float64Array : Float32Array;

/** What is recorded about a space. What is not known is absent. */
export interface Space {
  readonly name: string;
  readonly dim: number;
  readonly model?: string;
  readonly revision?: string;
  readonly pooling?: string;
  readonly normalization?: string;
  readonly layer?: number;
}

/** A file that is not a translator, is damaged, or is of another version than this package reads. */
export class FileError extends Error {}

export class Translator {
  private constructor();
  readonly goal: "vectors" | "index" | "retrieval" | "stitching";
  /** What translated and prepared vectors are compared by. */
  readonly metric: "cosine" | "inner";
  /** Coordinates of the source, and of translated vectors. */
  readonly dims: readonly [number, number];
  readonly source: Space;
  readonly target: Space;
  /** Translate one vector of the source, or several. */
  translate<V extends Vector>(vector: V): Translated<V>;
  translate<V extends Vector>(vectors: readonly V[]): Translated<V>[];
  /** Prepare one vector of the target, or several, for comparison; changes them only if `metric` is "inner". */
  translateTarget<V extends Vector>(vector: V): Translated<V>;
  translateTarget<V extends Vector>(vectors: readonly V[]): Translated<V>[];
  /** Score a translated vector against a prepared one of the target, by `metric`: the more alike, the higher. */
  score(translated: Vector, prepared: Vector): number;
}

/** Read a translator from a path (Node, Deno, Bun), a URL, bytes, a Blob or a Response. */
export function load(source: string | URL | ArrayBuffer | ArrayBufferView | Blob | Response): Promise<Translator>;
