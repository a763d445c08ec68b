import { beforeEach, describe, expect, it } from "vitest";

import { run } from "../../src/cli/run.js";
import { BlobLocks, ClaimInbox, CommitInbox, enqueue, QueueConsumer, withLease } from "../../src/index.js";
import { respondWith, replaceEndpoints, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { FakeTerminal } from "../../test/cli/fake-terminal.js";
import { deliver, request } from "../../test/queue/inbox/deliveries.js";
import { freshShare } from "../file/support.js";
import { azurite, connectionString, freshContainer, freshName, freshQueue, freshTable, queueClient } from "../support/clients.js";

function terminalWith(answers?: string[]): FakeTerminal {
  return new FakeTerminal({ env: { AZURE_STORAGE_CONNECTION_STRING: azurite().connectionString }, ...(answers && { answers }) });
}

let terminal: FakeTerminal;
beforeEach(() => {
  terminal = terminalWith();
});

describe("locks", () => {
  it("lists who holds what, and shows one of them", async () => {
    const container = await freshContainer();
    const locks = new BlobLocks(container, { holder: "orders-7" });
    const free = await locks.withLock("free", (lock) => lock.epoch);
    const held = await locks.acquire("nightly/export", { data: "run 7" });
    try {
      expect(await run(["locks", "list", "-c", container.containerName], terminal)).toBe(0);
      const lines = terminal.stdout.trimEnd().split("\n");
      expect(lines).toHaveLength(3);
      expect(lines[0]).toMatch(/^NAME +STATE +EPOCH +HOLDER +SINCE +DATA$/);
      expect(lines[1]).toMatch(new RegExp(`^free +available +${free} +- +- +-$`));
      expect(lines[2]).toMatch(new RegExp(`^nightly/export +leased +${held.epoch} +orders-7 +\\d+ s ago +run 7$`));

      const json = terminalWith();
      expect(await run(["--json", "locks", "list", "-c", container.containerName, "--held"], json)).toBe(0);
      expect(JSON.parse(json.stdout)).toEqual([expect.objectContaining({ name: "nightly/export", state: "leased", epoch: held.epoch, holder: "orders-7", data: "run 7" })]);

      const one = terminalWith();
      expect(await run(["locks", "show", "nightly/export", "-c", container.containerName], one)).toBe(0);
      expect(one.stdout).toMatch(/^name +nightly\/export\nstate +leased\n/);
      expect(one.stdout).toMatch(/\ndata +run 7\n$/);
    } finally {
      await held.release();
    }
  });

  it("takes a lock away after asking, and the holder is told", async () => {
    const container = await freshContainer();
    const held = await new BlobLocks(container, { holder: "gone" }).acquire("job", { renewIntervalInMs: 200 });
    const asked = terminalWith(["y"]);
    expect(await run(["locks", "break", "job", "-c", container.containerName], asked)).toBe(0);
    expect(asked.asked[0]).toContain("held by gone");
    await expect.poll(() => held.signal.aborted).toBe(true);
    await (await new BlobLocks(container).acquire("job", { waitInMs: 5_000 })).release();
  });

  it("leaves it alone if nobody says yes, or if nobody is there", async () => {
    const container = await freshContainer();
    const held = await new BlobLocks(container).acquire("job");
    expect(await run(["locks", "break", "job", "-c", container.containerName], terminalWith(["n"]))).toBe(5);
    expect(await run(["locks", "break", "job", "-c", container.containerName], terminal)).toBe(5);
    await held.renew();
    await held.release();
  });

  it("does not take it away from the successor of the one that was looked at", async () => {
    const container = await freshContainer();
    const locks = new BlobLocks(container, { holder: "first" });
    const first = await locks.acquire("job");
    let second: Awaited<ReturnType<BlobLocks["acquire"]>> | undefined;
    // While somebody thinks about the question, the lock changes hands.
    const slow = terminalWith();
    const thinking = Object.assign(slow, {
      interactive: true,
      ask: async () => {
        await first.release();
        second = await new BlobLocks(container, { holder: "second" }).acquire("job");
        return "y";
      },
    });
    expect(await run(["locks", "break", "job", "-c", container.containerName], thinking)).toBe(4);
    expect(slow.stderr).toContain(`is not as it was shown any more (epoch ${first.epoch})`);
    await second?.renew();
    await second?.release();
  });

  it("says that a lock is not there, not held, or has another epoch", async () => {
    const container = await freshContainer();
    const name = container.containerName;
    expect(await run(["locks", "show", "nope", "-c", name], terminal)).toBe(3);
    expect(await run(["locks", "break", "nope", "-c", name, "--yes"], terminal)).toBe(3);
    await new BlobLocks(container).withLock("job", async () => {
      expect(await run(["locks", "break", "job", "-c", name, "--yes", "--epoch", "7"], terminal)).toBe(4);
    });
  });
});

describe("locks purge", () => {
  it("deletes after asking what was not used for long enough", async () => {
    const container = await freshContainer();
    const locks = new BlobLocks(container);
    await locks.withLock("old", () => undefined);
    const purge = ["locks", "purge", "-c", container.containerName];
    expect(await run(purge, terminalWith(["n"]))).toBe(5);
    expect(await run([...purge, "--yes"], terminal)).toBe(0);
    expect(terminal.stdout).toBe("0 locks were deleted, 0 are in use.\n");
    const json = terminalWith(["y"]);
    expect(await run(["--json", ...purge, "--older-than-days", "0"], json)).toBe(0);
    expect(json.asked[0]).toContain(container.containerName);
    expect(JSON.parse(json.stdout)).toMatchObject({ deleted: 1, kept: 0 });
    expect(await locks.list().next()).toMatchObject({ done: true });
  });
});

describe("leases show", () => {
  it("tells the state of a blob and of a container", async () => {
    const container = await freshContainer();
    const blob = container.getBlockBlobClient("a b/ü.json");
    await blob.upload("x", 1);
    await blob.getBlobLeaseClient().acquireLease(-1);
    expect(await run(["leases", "show", "-c", container.containerName, "-b", blob.name, "--json"], terminal)).toBe(0);
    expect(JSON.parse(terminal.stdout)).toEqual({ target: `${container.containerName}/a b/ü.json`, state: "leased", duration: "infinite" });

    const other = terminalWith();
    expect(await run(["leases", "show", "-c", container.containerName], other)).toBe(0);
    expect(other.stdout).toMatch(/state +available/);
  });

  it("tells the state of a share and of a file", async () => {
    await using server = await startFileShareServer();
    const filesOf = ["--connection-string", replaceEndpoints(azurite().connectionString, { fileUrl: server.url })];
    const share = await freshShare(server);
    await share.createDirectory("dir ä");
    const { fileClient } = await share.getDirectoryClient("dir ä").createFile("f.json", 0);
    const show = ["leases", "show", "-s", share.name, ...filesOf];

    await withLease(fileClient, async () => {
      expect(await run([...show, "-f", "dir ä/f.json", "--json"], terminal)).toBe(0);
      expect(JSON.parse(terminal.stdout)).toEqual({ target: `${share.name}/dir ä/f.json`, state: "leased", duration: "infinite" });
    });
    const free = terminalWith();
    expect(await run([...show, "-f", "dir ä/f.json"], free)).toBe(0);
    expect(free.stdout).toMatch(/state +available/);

    await withLease(share, async () => {
      const leased = terminalWith();
      expect(await run([...show, "--json"], leased)).toBe(0);
      expect(JSON.parse(leased.stdout)).toEqual({ target: share.name, state: "leased", duration: "fixed" });
    });
    for (const missing of [[...show, "-f", "nope"], ["leases", "show", "-s", "nope", ...filesOf]]) {
      const terminalOfMissing = terminalWith();
      expect(await run(missing, terminalOfMissing)).toBe(3);
      expect(terminalOfMissing.stderr).not.toBe("");
    }
  });

  it("ends with 3 if there is no such blob", async () => {
    const container = await freshContainer();
    expect(await run(["leases", "show", "-c", container.containerName, "-b", "nope"], terminal)).toBe(3);
    expect(terminal.stderr).not.toBe("");
  });
});

describe("queue", () => {
  it("peeks without taking", async () => {
    const queue = await freshQueue();
    await enqueue(queue, { order: 42 }, { idempotencyKey: "order-42" });
    await queue.sendMessage("from somebody\telse");
    expect(await run(["queue", "peek", queue.name], terminal)).toBe(0);
    expect(terminal.stdout).toContain("order-42");
    expect(terminal.stdout).toContain('{"order":42}');
    expect(terminal.stdout).toContain("from somebody else");
    expect((await queue.receiveMessages({ numberOfMessages: 32 })).receivedMessageItems).toHaveLength(2);
  });

  it("shows why messages are in the poison queue, and moves them back", async () => {
    const queue = await freshQueue();
    const poisonQueue = queueClient(`${queue.name}-poison`);
    await enqueue(queue, { order: 7 }, { idempotencyKey: "order-7" });
    const consumer = new QueueConsumer(queue, (_, context) => context.poison("no such customer"), { poisonQueue, minPollIntervalInMs: 50 });
    const poisoned = new Promise((resolve) => consumer.on("poisoned", resolve));
    await consumer.start();
    await poisoned;
    await consumer.stop();

    expect(await run(["queue", "poison", queue.name], terminal)).toBe(0);
    expect(terminal.stdout).toMatch(/POISONED +ATTEMPTS +REASON/);
    expect(terminal.stdout).toContain("no such customer");

    expect(await run(["queue", "redrive", queue.name], terminalWith())).toBe(5);
    expect(await run(["queue", "redrive", queue.name], terminalWith(["no"]))).toBe(5);
    expect((await queue.peekMessages()).peekedMessageItems).toHaveLength(0);

    const redriven = terminalWith();
    expect(await run(["queue", "redrive", queue.name, "--yes", "--json"], redriven)).toBe(0);
    expect(JSON.parse(redriven.stdout)).toEqual({ moved: 1, skipped: 0 });
    expect((await queue.peekMessages()).peekedMessageItems[0]?.messageText).toContain("order-7");
  });

  it("ends with 3 if the queue is not there, before anything is moved", async () => {
    const poison = await freshQueue();
    await poison.sendMessage("x");
    expect(await run(["queue", "peek", freshName()], terminal)).toBe(3);
    expect(await run(["queue", "redrive", freshName(), "--poison-queue", poison.name, "--yes"], terminal)).toBe(3);
    expect((await poison.peekMessages()).peekedMessageItems).toHaveLength(1);
  });
});

describe("files purge", () => {
  it("asks, and deletes the staging files of a directory that nobody has written for an hour", async () => {
    await using server = await startFileShareServer();
    const filesOf = ["--connection-string", replaceEndpoints(azurite().connectionString, { fileUrl: server.url })];
    const share = await freshShare(server);
    const inner = share.getDirectoryClient("a/b ä");
    await share.createDirectory("a");
    await inner.create();
    await inner.createFile("f.json.asc-new", 1);
    await share.createFile("f.json.asc-new", 1);
    server.clock.advance(2 * 3_600_000);
    const purge = ["files", "purge", share.name, ...filesOf];
    expect(await run(purge, terminal)).toBe(5);
    expect(await run([...purge, "--older-than-hours", "3", "--recursive", "--yes"], terminalWith())).toBe(0);
    const one = terminalWith();
    expect(await run([...purge, "-d", "a/b ä", "--yes", "--json"], one)).toBe(0);
    expect(JSON.parse(one.stdout)).toMatchObject({ deleted: 1, kept: 0 });
    const rest = terminalWith(["yes"]);
    expect(await run([...purge, "--recursive"], rest)).toBe(0);
    expect(rest.stdout).toContain("1 staging file was deleted, 0 are in use.");
    expect(await run([...purge, "-d", "none", "--yes"], terminalWith())).toBe(3);
  });
});

describe("overflow purge", () => {
  it("asks, and deletes the payloads of large messages that were sent so long ago", async () => {
    const [queue, container] = [await freshQueue(), await freshContainer()];
    await enqueue(queue, "x".repeat(70_000), { overflow: container, idempotencyKey: "order-1" });
    const shown = terminalWith();
    expect(await run(["queue", "peek", queue.name], shown)).toBe(0);
    expect(shown.stdout).toContain("order-1");
    const purge = ["overflow", "purge", container.containerName];
    expect(await run(purge, terminalWith(["n"]))).toBe(5);
    expect(await run([...purge, "--yes"], terminal)).toBe(0);
    expect(terminal.stdout).toBe("0 payloads were deleted, 0 are in use.\n");
    const json = terminalWith(["y"]);
    expect(await run(["--json", ...purge, "--older-than-days", "0"], json)).toBe(0);
    expect(JSON.parse(json.stdout)).toMatchObject({ deleted: 1, kept: 0 });
    expect(await run(["overflow", "purge", freshName(), "--yes"], terminalWith())).toBe(3);
  });
});

describe("inbox show and forget", () => {
  it("shows what is recorded of a key, and deletes it after asking, with and without a partition", async () => {
    const [queue, table] = [await freshQueue(), await freshTable()];
    const delivery = deliver("order-42", { queueUrl: queue.url });
    const [result] = await new ClaimInbox(table).claim([delivery], request);
    await new CommitInbox(table).commit({ delivery, call: 1, partitionKey: "p" }, [["create", { rowKey: "r" }]], [], request);
    const of = ["order-42", "-t", table.tableName, "-q", queue.name];
    expect(await run(["inbox", "show", ...of], terminal)).toBe(0);
    expect(terminal.stdout).toMatch(/^key +order-42\nstate +claimed\nupdatedOn +\S+Z\nsince +\d+ s ago\n$/);
    expect(await run(["inbox", "forget", ...of, "--yes"], terminalWith())).toBe(1);
    if (result?.kind === "claimed") await result.claim.complete(request);
    for (const more of [[], ["--partition", "p"]]) {
      const [asked, done] = [terminalWith(["n"]), terminalWith()];
      expect(await run(["inbox", "forget", ...of, ...more], asked)).toBe(5);
      expect(asked.asked[0]).toContain("is completed");
      expect(await run(["inbox", "forget", ...of, ...more, "--yes", "--json"], done)).toBe(0);
      expect(JSON.parse(done.stdout)).toEqual({ key: "order-42", forgotten: true });
      expect(await run(["inbox", "show", ...of, ...more], terminalWith())).toBe(3);
    }
  });
});

describe("inbox group and skip", () => {
  it("shows the last sequence of a group and its holder, and sets it after asking", async () => {
    const [queue, table] = [await freshQueue(), await freshTable()];
    const of = ["-t", table.tableName, "-q", queue.name];
    // The command line finds the number of shards where the consumers have recorded it.
    await new ClaimInbox(table, { shards: 3 }).prepare(request);
    expect(await run(["inbox", "group", "g", ...of], terminalWith())).toBe(3);
    const delivery = deliver("order-42", { queueUrl: queue.url, group: "g", sequence: 1 });
    const [result] = await new ClaimInbox(table, { shards: 3 }).claim([delivery], request);
    expect(await run(["inbox", "group", "g", ...of, "--json"], terminal)).toBe(0);
    expect(JSON.parse(terminal.stdout)).toMatchObject({ group: "g", lastSequence: 0, messageId: delivery.messageId });
    expect(await run(["inbox", "show", "order-42", ...of], terminalWith())).toBe(0);
    expect(await run(["inbox", "skip", "g", "2", ...of, "--yes"], terminalWith())).toBe(1);
    if (result?.kind === "claimed") await result.claim.complete(request);
    const [asked, done, again] = [terminalWith(["n"]), terminalWith(), terminalWith()];
    expect(await run(["inbox", "skip", "g", "2", ...of], asked)).toBe(5);
    expect(asked.asked[0]).toContain("is 1. Messages up to 2 will not be handled.");
    expect(await run(["inbox", "skip", "g", "2", ...of, "--yes", "--json"], done)).toBe(0);
    expect(JSON.parse(done.stdout)).toEqual({ group: "g", sequence: 2, skipped: true });
    expect(await run(["inbox", "skip", "g", "2", ...of, "--yes"], again)).toBe(0);
    expect(again.stdout).toContain("It is not lower already.");
  });
});

describe("inbox purge", () => {
  it("removes records that are old enough, after asking", async () => {
    const queue = await freshQueue();
    const table = await freshTable();
    await enqueue(queue, 1);
    const consumer = new QueueConsumer(queue, () => undefined, { inbox: new ClaimInbox(table), minPollIntervalInMs: 50 });
    const completed = new Promise((resolve) => consumer.on("completed", resolve));
    await consumer.start();
    await completed;
    await consumer.stop();

    const kept = terminalWith(["y"]);
    expect(await run(["inbox", "purge", table.tableName], kept)).toBe(0);
    expect(kept.asked[0]).toContain(table.tableName);
    expect(kept.stdout).toBe("0 records were deleted, 0 are in use.\n");
    const purged = terminalWith();
    expect(await run(["inbox", "purge", table.tableName, "--older-than-days", "0", "--yes", "--json"], purged)).toBe(0);
    expect(JSON.parse(purged.stdout)).toMatchObject({ deleted: 1, kept: 0 });
  });

  it("ends with 3 if the table is not there", async () => {
    expect(await run(["inbox", "purge", freshName(), "--yes"], terminal)).toBe(3);
  });
});

describe("a service that fails", () => {
  it("ends with 1 after a few tries, with what the service said on one line", async () => {
    await using proxy = await startFaultProxy(azurite().blobUrl, [respondWith(503)]);
    const args = ["locks", "list", "-c", "c123", "--connection-string", connectionString({ blobUrl: proxy.url })];
    expect(await run(args, terminal)).toBe(1);
    expect(terminal.stderr.trimEnd().split("\n")).toHaveLength(1);
    expect(terminal.stderr).toContain("ServerBusy");
  });
});
