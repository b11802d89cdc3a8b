// Bundles src/ into one HTML file that needs nothing else: `npm ci && npm run build`.
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import esbuild from "esbuild";

const OUT = "../src/relatent/explore/static";

async function bundled(entry) {
  const built = await esbuild.build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    metafile: true,
    write: false,
  });
  return { text: built.outputFiles[0].text.trim(), inputs: Object.keys(built.metafile.inputs) };
}

// The terms of what is bundled go with it, wherever the page goes.
async function licenses(inputs) {
  const folders = new Set(inputs.map((path) => path.match(/^node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0]).filter(Boolean));
  const texts = [...folders].sort().map(async (folder) => {
    const { name, version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    return `${name} ${version} (${license})\n\n${file ? (await readFile(join(folder, file), "utf8")).trim() : ""}`;
  });
  return (await Promise.all(texts)).join("\n\n").replaceAll("--", "- -");
}

const hashed = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const [script, style, page] = await Promise.all([
  bundled("src/main.js"),
  bundled("src/style.css"),
  readFile("src/index.html", "utf8"),
]);
const parts = {
  SCRIPT: script.text,
  STYLE: style.text,
  SCRIPT_HASH: hashed(script.text),
  LICENSES: await licenses(script.inputs),
};
const html = page.replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
await mkdir(OUT, { recursive: true });
await writeFile(join(OUT, "explorer.html"), html);
console.log(`${OUT}/explorer.html: ${(html.length / 1000).toFixed(0)} kB`);
