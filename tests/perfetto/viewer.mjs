// Imports a file as chrome://tracing does:
//
//   node viewer.mjs FOLDER FILE
//
// FOLDER holds `trace_viewer_full.html`, the page behind chrome://tracing. Its scripts run here without the page: its
// parts for the screen, which fail without one, are left out. Prints a JSON object: what the importer warns of, slices
// by thread and depth, what is around each arrow's beginning and where it ends.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { argv } from "node:process";
import { createContext, runInContext } from "node:vm";

const [folder, file] = argv.slice(2);
const html = readFileSync(join(folder, "trace_viewer_full.html"), "utf8");
const begin = html.indexOf("const global=this.window||this.global;this.tr=");
if (begin < 0) throw new Error("this page is not the one that is known");
// As the page does with a file of this name.
const data = file.endsWith(".gz") ? new Uint8Array(readFileSync(file)).buffer : readFileSync(file, "utf8");
const context = createContext({ setTimeout, TextDecoder, Uint8Array, ArrayBuffer, DataView, isVinn: true, data });
runInContext("this.global = this; this.self = this;", context);
for (const [number, part] of html.slice(begin).split(/(?='use strict';)/).entries()) {
  const script = part.split("</script>")[0];
  try {
    runInContext(number === 0 ? script : `(function () { ${script}\n}).call(this)`, context);
  } catch {
    // Of the screen; what the import needs would be missed below.
  }
}
const model = runInContext(
  `const options = new tr.importer.ImportOptions();
   options.showImportWarnings = false;
   const model = new tr.Model();
   new tr.importer.Import(model, options).importTraces([data]);
   model`,
  context,
);
const slices = {};
const count = (of, key) => (of[key] = (of[key] ?? 0) + 1);
for (const thread of model.getAllThreads()) {
  const walk = (slice, depth) => {
    count((slices[thread.name] ??= {}), `${depth} ${slice.title}`);
    for (const inner of slice.subSlices) walk(inner, depth + 1);
  };
  for (const slice of thread.sliceGroup.topLevelSlices) walk(slice, 0);
}
const flows = {};
for (const { startSlice, endSlice } of model.flowEvents) {
  count(flows, `${startSlice?.parentSlice?.title} -> ${endSlice?.title}`);
}
const processes = model.getAllProcesses().map((process) => process.userFriendlyName);
const warnings = model.importWarnings.map((warning) => warning.message);
console.log(JSON.stringify({ warnings, processes, slices, flows }));
