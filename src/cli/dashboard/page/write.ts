import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { bundlePage } from "./bundle.js";

const folder = process.argv[2];
if (folder === undefined) throw new Error("pass the folder of the compiled dashboard");
const { script, style } = await bundlePage();
await mkdir(folder, { recursive: true });
await Promise.all([writeFile(join(folder, "page.js"), script), writeFile(join(folder, "page.css"), style)]);
