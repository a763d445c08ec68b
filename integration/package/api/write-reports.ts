import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { makeReports, reportFolder } from "./reports.js";

const { files, problems } = makeReports();
mkdirSync(reportFolder, { recursive: true });
for (const [name, text] of Object.entries(files)) writeFileSync(join(reportFolder, name), text);
for (const problem of problems) console.error(problem);
console.log(`The reports are in ${reportFolder}.`);
if (problems.length > 0) process.exitCode = 1;
