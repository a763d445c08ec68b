import { join } from "node:path";

import { test } from "vitest";

import { root } from "./support/repository.js";
import { runProgram } from "./support/run-program.js";

test("the reference is made without a warning: no link leads nowhere, no type in a signature is left out", async () => {
  await runProgram(process.execPath, [join(root, "node_modules/typedoc/bin/typedoc"), "--emit", "none"], { cwd: root });
});
