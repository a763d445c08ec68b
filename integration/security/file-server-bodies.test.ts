import { request } from "node:http";

import { afterAll, beforeAll, expect, it } from "vitest";

import { startFileShareServer } from "../../src/testing.js";
import type { FileShareServer } from "../../src/testing.js";

let server: FileShareServer;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());

/** Sends so many MiB without credentials. Returns the status, or what ended the connection. */
function send(mebibytes: number): Promise<number | string> {
  return new Promise((resolve) => {
    const call = request(`${server.url}/share/file?comp=range`, { method: "PUT" }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    call.on("error", (error) => resolve((error as NodeJS.ErrnoException).code ?? error.message));
    const chunk = Buffer.alloc(1024 * 1024);
    let left = mebibytes;
    const write = (): void => {
      while (left-- > 0) {
        if (!call.write(chunk)) {
          call.once("drain", write);
          return;
        }
      }
      call.end();
    };
    write();
  });
}

it("the file-share server keeps no body without limit in memory of a client that has not authenticated", async () => {
  const refused = await send(1);
  expect(refused).toBeGreaterThanOrEqual(400);
  const before = process.memoryUsage().rss;
  const ends = await Promise.all(Array.from({ length: 4 }, () => send(100)));
  expect(ends.every((end) => typeof end === "string"), ends.join()).toBe(true);
  expect(process.memoryUsage().rss - before).toBeLessThan(250 * 1024 * 1024);
  // It still serves.
  expect(await send(1)).toBe(refused);
});
