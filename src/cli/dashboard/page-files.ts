import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** What the page consists of, besides its HTML. */
export interface PageFiles {
  readonly script: string;
  readonly style: string;
}

/** The build writes them beside this file. From the source, which has none, they are built now. */
export async function readPageFiles(folder: string = import.meta.dirname): Promise<PageFiles> {
  try {
    const [script, style] = await Promise.all(["page.js", "page.css"].map((name) => readFile(join(folder, name), "utf8")));
    return { script: script ?? "", style: style ?? "" };
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ENOENT") throw error;
    // By its address: what this file imports is compiled into the package, and the package has no bundler.
    const source = pathToFileURL(join(import.meta.dirname, "page/bundle.ts")).href;
    const { bundlePage } = (await import(source)) as { bundlePage: () => Promise<PageFiles> };
    return bundlePage();
  }
}

/** The script fills it. Its addresses are relative: the token is part of the address of the page. */
export const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Dashboard · azure-storage-concurrency</title>
<link rel="icon" href="icon.svg">
<link rel="stylesheet" href="page.css">
</head>
<body>
<div id="dashboard"><p class="loading">Loading…</p></div>
<script src="page.js"></script>
</body>
</html>
`;

export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#2563eb"/><path d="M10 15v-3a6 6 0 0 1 12 0v3" fill="none" stroke="#fff" stroke-width="3"/><rect x="7" y="14" width="18" height="12" rx="3" fill="#fff"/></svg>`;
