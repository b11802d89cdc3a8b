// Translate rows with files: reads {file: {source, target}} from stdin, writes {file: {translated, prepared} or {error}}.
import { load } from "relatent";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const answer = {};
for (const [file, { source, target }] of Object.entries(JSON.parse(text))) {
  try {
    const t = await load(file);
    const both = [t.translate(source.map((row) => Float64Array.from(row))), t.translateTarget(target)];
    const [translated, prepared] = both.map((rows) => rows.map((row) => Array.from(row)));
    answer[file] = { translated, prepared, model: t.source.model ?? null };
  } catch (error) {
    answer[file] = { error: `${error.name}: ${error.message}` };
  }
}
console.log(JSON.stringify(answer));
