/* Scenes for the tests of what runs the samples: one that holds, and one that does not. */
import { check } from "../../samples/support/check.js";
import { runSamples } from "../../samples/support/run-samples.js";
import type { Sample } from "../../samples/support/sample.js";

const scene = (name: string, run: Sample["run"]): Sample => ({ name, title: name, helper: "", section: "", plan: "A plan.", lesson: "A lesson.", run });

await runSamples([
  scene("holds", async () => "as promised"),
  scene("breaks", async () => {
    // What a failed sample leaves running must not keep the process from ending.
    setInterval(() => undefined, 1_000);
    check(Math.random() > 1, "water flows uphill");
    return "";
  }),
  scene("never-reached", async () => ""),
]);
