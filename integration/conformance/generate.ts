import { writeFileSync } from "node:fs";

import { operationsPage } from "./page.js";

writeFileSync(new URL("../../docs/operations.md", import.meta.url), operationsPage());
