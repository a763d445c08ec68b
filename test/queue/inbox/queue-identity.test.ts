import { describe, expect, it } from "vitest";

import { ClaimInbox, CommitInbox } from "../../../src/index.js";
import { queueIdentityOf, rowKeyOf } from "../../../src/queue/inbox/record.js";
import { FakeTable } from "../fakes/fake-table.js";
import { claimed } from "./contract.js";
import { commit, deliver, request } from "./deliveries.js";

const one = "https://one.queue.core.windows.net/jobs";
const two = "https://two.queue.core.windows.net/jobs";

describe("queues of one name in two accounts that share an inbox table", () => {
  it("have claims of their own", async () => {
    const table = new FakeTable();
    const inbox = new ClaimInbox(table);
    expect(await claimed(await inbox.claim([deliver("k", { queueUrl: one })], request)).complete(request)).toBe("completed");
    expect(await inbox.claim([deliver("k", { queueUrl: two })], request)).toMatchObject([{ kind: "claimed" }]);
    expect(await inbox.claim([deliver("k", { queueUrl: one })], request)).toMatchObject([{ kind: "completed" }]);
    expect(new Set([...table.rows.values()].map(({ partitionKey }) => partitionKey))).toEqual(new Set(["one:jobs", "two:jobs"]));
  });

  it("have commits of their own", async () => {
    const table = new FakeTable();
    const inbox = new CommitInbox(table);
    const commitTo = (queueUrl: string, rowKey: string): Promise<string> => commit(inbox, deliver("k", { queueUrl }), 1, "p", [["create", { rowKey }]]);
    expect([await commitTo(one, "a"), await commitTo(two, "b"), await commitTo(one, "c")]).toEqual(["committed", "committed", "duplicate"]);
  });
});

describe("the identity of a queue", () => {
  it.each([
    ["https://acme1.queue.core.windows.net/jobs", "acme1:jobs"],
    ["https://ACME1.queue.core.windows.net:443/jobs/", "acme1:jobs"],
    ["https://acme1-secondary.queue.core.windows.net/jobs?sig=x", "acme1:jobs"],
    ["https://acme1.privatelink.queue.core.windows.net/jobs", "acme1:jobs"],
    ["https://acme1.z7.queue.storage.azure.net/jobs", "acme1:jobs"],
    ["https://acme1.queue.core.chinacloudapi.cn/jobs", "acme1:jobs"],
    ["http://127.0.0.1:10001/devstoreaccount1/jobs", "devstoreaccount1:jobs"],
    ["http://localhost:34567/devstoreaccount1/jobs", "devstoreaccount1:jobs"],
    ["http://127.0.0.1:10001/devstoreaccount1-secondary/jobs", "devstoreaccount1:jobs"],
    ["http://[::1]:10001/acct/jobs", "acct:jobs"],
    ["http://acme1.queue.localhost:10001/jobs", "acme1:jobs"],
    ["https://queues.contoso.com/jobs", "queues.contoso.com:jobs"],
    ["https://queues.fabrikam.com/jobs", "queues.fabrikam.com:jobs"],
  ])("of %s is %s", (url, identity) => {
    expect(queueIdentityOf(url)).toBe(identity);
  });

  it.each(["https://acme1.queue.core.windows.net/", "https://acme1.queue.core.windows.net", "jobs", "", "https://acme1.queue.core.windows.net/%ZZ"])("is none for %j", (url) => {
    expect(() => queueIdentityOf(url)).toThrow(TypeError);
  });

  it.each(["http://h/a%2Fb/c%23d", "http://h/a%5C/%3F%00", "http://h/ä/ü", "http://[::1]/jobs", "http://h/a:b/c", "http://h/a/b:c", "http://h/a!/b!"])("is safe in the keys of an entity: %s", async (url) => {
    const identity = queueIdentityOf(url);
    expect(identity).toMatch(/^[A-Za-z0-9._@$=-]+:[A-Za-z0-9._@$=-]+$/);
    expect(await rowKeyOf(identity, "k")).toMatch(/^~asc~inbox![A-Za-z0-9._:@$=-]+!k$/);
  });

  it("keeps accounts and queues apart whatever is in their names", () => {
    const urls = ["http://h/a:b/c", "http://h/a/b:c", "http://h/a%3Db/c", "http://h/a=3Ab/c", "http://h/a%3Ab/x"];
    expect(new Set(urls.map(queueIdentityOf)).size).toBe(urls.length);
  });

  it("leaves room for any key, also with the longest host name", async () => {
    const identity = queueIdentityOf(`https://${`${"x".repeat(62)}.`.repeat(4)}q/${"j".repeat(63)}`);
    for (const key of ["k", "x".repeat(150), "x".repeat(400), "x".repeat(1_024)]) expect((await rowKeyOf(identity, key)).length).toBeLessThanOrEqual(512);
    expect(await rowKeyOf(identity, "x".repeat(400))).not.toBe(await rowKeyOf(identity, `${"x".repeat(399)}y`));
  });
});
