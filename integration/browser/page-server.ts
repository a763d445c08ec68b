import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

import { build } from "esbuild";

export interface PageServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Bundles `page.ts` as any application for browsers is, and serves it on a free port of 127.0.0.1. */
export async function servePage(): Promise<PageServer> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, "page.ts")],
    bundle: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    sourcemap: "inline",
    write: false,
  });
  const script = outputFiles[0]?.contents;
  const server = createServer((request, response) => {
    if (request.url === "/page.js") response.setHeader("content-type", "text/javascript").end(script);
    else response.setHeader("content-type", "text/html").end(`<!doctype html><title>page</title><script type="module" src="page.js"></script>`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, stop: () => close(server) };
}

function close(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}
