import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** The path of an installed Chromium, if there is one. Downloading one is nothing that a test should do. */
export function findChromium(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const programs = ["chromium", "chromium-browser", "google-chrome"];
  return programs.flatMap((program) => folders.map((folder) => join(folder, program))).find((path) => existsSync(path));
}
