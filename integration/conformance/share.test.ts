import type { ShareClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { freshShare, serviceOf } from "../file/support.js";
import { freshName } from "../support/clients.js";
import { exchange } from "./exchange.js";
import type { FileOptions } from "./file.rows.js";
import { shareLeaseAnswers, type ShareRow, shareRows } from "./share.rows.js";

const own = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d11";
const another = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d12";

let server: FileShareServer;
beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());

const subject = ({ given }: ShareRow): Promise<ShareClient> | ShareClient =>
  given === "missing" ? serviceOf(server).getShareClient(freshName()) : freshShare(server);

async function leased(seconds: number): Promise<ShareClient> {
  const share = await freshShare(server);
  await share.getShareLeaseClient(own).acquireLease(seconds);
  return share;
}

async function answerOf(row: ShareRow, share: ShareClient, leaseId?: string): Promise<string> {
  const options: FileOptions = leaseId === undefined ? {} : { leaseAccessConditions: { leaseId } };
  const { answer, sent } = await exchange(() => row.call(share, options, "7"));
  expect(sent("x-ms-lease-id")).toBe(leaseId);
  return /^2\d\d$/.test(answer) ? "passes" : answer;
}

describe.each(shareRows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
  it(row.returnsETag ? "returns an ETag" : "returns no ETag", async () => {
    const share = await subject(row);
    const { answer, etag } = await exchange(() => row.call(share, {}, "7"));
    expect(answer).toMatch(/^2\d\d$/);
    if (row.returnsETag) expect(etag).toMatch(/^".+"$/);
    else expect(etag).toBeUndefined();
  });

  if (row.changesETag !== undefined) {
    it(row.changesETag ? "changes the ETag" : "leaves the ETag as it is", async () => {
      const share = await subject(row);
      const { etag } = await share.getProperties();
      await row.call(share, {}, "7");
      expect((await share.getProperties()).etag !== etag).toBe(row.changesETag);
    });
  }

  it("does not take If-Match: it is not sent, and goes through even if it does not hold", async () => {
    const share = await subject(row);
    const { answer, sent } = await exchange(() => row.call(share, { conditions: { ifMatch: '"0x8D0000000000000"' } }, "7"));
    expect(answer).toMatch(/^2\d\d$/);
    expect(sent("if-match")).toBeUndefined();
  });

  if (row.lease !== undefined) {
    it(row.lease === "required" ? "is refused on a leased share without the id" : "needs no id on a leased share", async () => {
      expect(await answerOf(row, await leased(-1))).toBe(row.lease === "required" ? shareLeaseAnswers.missing : "passes");
    });

    it("goes through on a leased share with its id, and is refused with another", async () => {
      const share = await leased(-1);
      expect(await answerOf(row, share, another)).toBe(shareLeaseAnswers.mismatch);
      expect(await answerOf(row, share, own)).toBe("passes");
    });

    it("is refused with an id on a share that was never leased", async () => {
      expect(await answerOf(row, await subject(row), own)).toBe(shareLeaseAnswers.neverLeased);
    });

    it("is refused with the id when the lease has run out, and goes through without", async () => {
      const share = await leased(15);
      server.clock.advance(15_001);
      expect(await answerOf(row, share, own)).toBe(shareLeaseAnswers.expired);
      expect(await answerOf(row, share)).toBe("passes");
    });
  }

  if (row.read !== undefined) {
    const { read } = row;
    it("lets the last writer win", async () => {
      const share = await subject(row);
      await read(share); // by both, who then write in turn
      for (const value of ["2", "3"]) expect((await exchange(() => row.call(share, {}, value))).answer).toMatch(/^2\d\d$/);
      expect(await read(share)).toBe("3");
    });
  }
});
