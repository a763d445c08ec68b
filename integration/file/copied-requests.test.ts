import type { ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { BlobLocks, createIfNotExists, fileMetadata, leasedUpdate, overwrite, textFile } from "../../src/index.js";
import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { freshContainer } from "../support/clients.js";
import { startCopyingProxy } from "../support/copying-proxy.js";
import { freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let file: ShareFileClient;
let shareName: string;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  const share = await freshShare(server);
  shareName = share.name;
  file = share.rootDirectoryClient.getFileClient("file");
});

const content = async (): Promise<string> => (await file.downloadToBuffer()).toString();

const names = async (): Promise<string[]> => {
  const found: string[] = [];
  for await (const { name } of serviceOf(server).getShareClient(shareName).rootDirectoryClient.listFilesAndDirectories()) found.push(name);
  return found;
};

// Every request that changes something, or every second or third one: of the requests of an update, each is copied in one of these.
describe.each([1, 2, 3])("a proxy sends one write in %i twice", (nth) => {
  const through = async (run: (copied: ShareFileClient) => Promise<void>): Promise<void> => {
    await using proxy = await startCopyingProxy(server.url, nth);
    await run(serviceOf(server, proxy.url).getShareClient(shareName).rootDirectoryClient.getFileClient("file"));
    expect(proxy.copies).toBeGreaterThan(0);
  };

  it("updates of another length have their effect once", async () => {
    await file.uploadData(Buffer.from("0"));
    await through(async (copied) => {
      for (let i = 1; i <= 12; i++) expect(await leasedUpdate(textFile(copied), (text) => `${text}${i % 10}`)).toMatchObject({ outcome: "updated" });
    });
    expect(await content()).toBe("0123456789012");
    expect(await names()).toEqual(["file"]);
  });

  it("updates of another length under a crash guard have their effect once", async () => {
    await file.uploadData(Buffer.from("0"));
    const crashGuard = new BlobLocks(await freshContainer());
    await through(async (copied) => {
      for (let i = 1; i <= 6; i++) await leasedUpdate(textFile(copied), (text) => `${text}${i}`, { crashGuard });
    });
    expect(await content()).toBe("0123456");
  });

  it("updates in place and of metadata have their effect once", async () => {
    await file.uploadData(Buffer.from("a"));
    await through(async (copied) => {
      for (let i = 0; i < 6; i++) {
        await leasedUpdate(textFile(copied), (text) => String.fromCharCode(text.charCodeAt(0) + 1));
        await leasedUpdate(fileMetadata(copied), (metadata) => void (metadata["n"] = `${metadata["n"] ?? ""}.`));
      }
    });
    expect(await content()).toBe("g");
    expect((await file.getProperties()).metadata).toEqual({ n: "......" });
  });

  it("an update that creates the file has its effect once", async () => {
    await through(async (copied) => {
      for (let i = 0; i < 6; i++) {
        await file.deleteIfExists();
        expect(await leasedUpdate(textFile(copied), (text) => `${text}!`, { initial: "new" })).toMatchObject({ outcome: "created", value: "new!" });
        expect(await content()).toBe("new!");
      }
    });
    expect(await names()).toEqual(["file"]);
  });

  it("createIfNotExists says who created the file", async () => {
    await through(async (copied) => {
      for (let i = 0; i < 6; i++) {
        await file.deleteIfExists();
        expect(await createIfNotExists(textFile(copied), "mine")).toMatchObject({ outcome: "created", value: "mine" });
        expect(await createIfNotExists(textFile(copied), "another")).toMatchObject({ outcome: "unchanged", value: "mine" });
      }
    });
    expect(await names()).toEqual(["file"]);
  });

  it("an overwrite that was carried out resolves", async () => {
    await through(async (copied) => {
      for (let i = 0; i < 6; i++) {
        await overwrite(textFile(copied), `number ${i}`);
        expect(await content()).toBe(`number ${i}`);
      }
    });
    expect(await names()).toEqual(["file"]);
  });
});
