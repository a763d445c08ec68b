import type { AppendBlobClient, ContainerClient } from "@azure/storage-blob";
import { expect, it, onTestFinished } from "vitest";
import { appendExactlyOnce, blobMetadata, isConcurrencyError, jsonBlob, leasedUpdate, optimisticUpdate, overwrite, readTarget } from "../../src/index.js";
import { delay, dropRequest, dropResponse, isRead, isWrite, respondWith, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshContainer } from "../support/clients.js";
import { fastContainer } from "../support/fast-clients.js";

/**
 * Calls of different kinds on the same blobs, by three clients that share nothing, with lost and late requests and responses. Each call
 * leaves a mark of its own; a call that is rejected is repeated with its operation id, or the one of its error, if it has one.
 */
interface Marks {
  marks: string[];
}

type Outcome = "done" | "unknown" | "not done";

interface Call {
  readonly mark: string;
  readonly kind: string;
  outcome?: Outcome;
}

/** Where the marks of a kind are, and the call that leaves one. */
interface Kind {
  readonly place: "content" | "metadata" | "log";
  readonly hasId?: boolean;
  readonly run: (container: ContainerClient, mark: string, operationId: string | undefined) => Promise<unknown>;
}

const timeoutInMs = 60_000;
const withId = (operationId: string | undefined): { operationId?: string } => (operationId === undefined ? {} : { operationId });
const content = (container: ContainerClient): ReturnType<typeof jsonBlob<Marks>> => jsonBlob<Marks>(container.getBlockBlobClient("content"));
const logOf = (container: ContainerClient): AppendBlobClient => container.getAppendBlobClient("log");
const addMark = (mark: string) => (draft: Marks): void => void draft.marks.push(mark);
/** Twice the mark is longer than once. */
const addEntry = (mark: string) => (draft: Record<string, string>): void => void (draft[mark] = `x${draft[mark] ?? ""}`);

const kinds: Record<string, Kind> = {
  update: { place: "content", run: (container, mark, id) => optimisticUpdate(content(container), addMark(mark), { timeoutInMs, ...withId(id) }) },
  "update with an id": { place: "content", hasId: true, run: (container, mark, id) => optimisticUpdate(content(container), addMark(mark), { timeoutInMs, ...withId(id) }) },
  "leased update": { place: "content", run: (container, mark, id) => leasedUpdate(content(container), addMark(mark), { durationInSeconds: 15, timeoutInMs, ...withId(id) }) },
  "update of the version that was read": {
    place: "content",
    run: async (container, mark, id) => {
      const { etag } = await readTarget(content(container));
      return optimisticUpdate(content(container), addMark(mark), { ifMatch: etag, timeoutInMs, ...withId(id) });
    },
  },
  "metadata of the log": { place: "metadata", run: (container, mark, id) => optimisticUpdate(blobMetadata(logOf(container)), addEntry(mark), { timeoutInMs, ...withId(id) }) },
  append: { place: "log", run: (container, mark, id) => appendExactlyOnce(logOf(container), `<${mark}>`, { timeoutInMs, ...withId(id) }) },
  "append with an id": { place: "log", hasId: true, run: (container, mark, id) => appendExactlyOnce(logOf(container), `<${mark}>`, { timeoutInMs, ...withId(id) }) },
};

async function make(container: ContainerClient, call: Call): Promise<void> {
  const { hasId = false, run } = kinds[call.kind]!;
  let operationId = hasId ? `own-${call.mark}` : undefined;
  let isUnknown = false;
  for (let attempt = 0; attempt < 6; attempt++) {
    try {
      await run(container, call.mark, operationId);
      call.outcome = "done";
      return;
    } catch (error) {
      if (isConcurrencyError(error, "COMMIT_UNKNOWN")) {
        isUnknown = true;
        operationId = error.operationId;
      }
      // Without an id, a repetition would be another call.
      if (operationId === undefined) break;
    }
  }
  call.outcome = isUnknown ? "unknown" : "not done";
}

it("calls of all kinds on one blob and one log take effect once if they resolve, and at most once otherwise", { timeout: 240_000 }, async () => {
  const faults = [
    delay({ minInMs: 1, maxInMs: 20 }, { probability: 0.1 }),
    delay({ minInMs: 1, maxInMs: 20 }, { probability: 0.1, at: "response" }),
    dropRequest({ probability: 0.05 }),
    respondWith(500, { when: isWrite, probability: 0.05, at: "response" }),
    dropResponse({ when: isWrite, probability: 0.12 }),
    dropResponse({ when: isRead, probability: 0.03 }),
  ];
  const truth = await freshContainer();
  await overwrite(content(truth), { marks: [] });
  await logOf(truth).create();
  const clients = await Promise.all(
    [1, 2, 3].map(async () => {
      const proxy = await startFaultProxy(azurite().blobUrl, faults);
      onTestFinished(() => proxy.stop());
      return fastContainer(connectionString({ blobUrl: proxy.url }), truth.containerName);
    }),
  );
  const calls: Call[] = [];
  // The metadata of the log is also replaced all the time, by a program that knows of the marks, and of nothing else that is there.
  const onlyMarks = (metadata: Record<string, string>): Record<string, string> => Object.fromEntries(Object.entries(metadata).filter(([name]) => /^[ab]\dx\d$/.test(name)));
  const replace = async (): Promise<void> => {
    for (let n = 0; n < 10; n++) await optimisticUpdate(blobMetadata(logOf(truth)), (metadata) => ({ ...onlyMarks(metadata), replaced: String(n) }), { timeoutInMs });
  };
  const chain = async (client: ContainerClient, name: string): Promise<void> => {
    for (const [n, kind] of Object.keys(kinds).entries()) {
      const call: Call = { mark: `${name}x${n}`, kind };
      calls.push(call);
      await make(client, call);
    }
  };
  await Promise.all([replace(), ...clients.flatMap((client, index) => ["a", "b"].map((name) => chain(client, `${name}${index}`)))]);
  // Another process repeats the calls that have an id of their own.
  await replace();
  for (const { mark, kind } of calls.filter(({ kind, outcome }) => kinds[kind]!.hasId && outcome === "done")) await kinds[kind]!.run(truth, mark, `own-${mark}`);

  const { marks } = (await readTarget(content(truth))).value;
  const text = (await logOf(truth).downloadToBuffer()).toString();
  const { metadata = {} } = await logOf(truth).getProperties();
  const count = ({ mark, kind }: Call): number => {
    const { place } = kinds[kind]!;
    if (place === "metadata") return (metadata[mark] ?? "").length;
    return (place === "content" ? marks.filter((each) => each === mark) : text.split(`<${mark}>`).slice(1)).length;
  };
  const wrong = calls.filter((call) => {
    const times = count(call);
    return call.outcome === "done" ? times !== 1 : call.outcome === "unknown" ? times > 1 : times !== 0;
  });
  expect(wrong.map((call) => ({ ...call, times: count(call) }))).toEqual([]);
  expect(calls.filter(({ outcome }) => outcome === "done").length).toBeGreaterThan(calls.length / 4);
  expect(metadata["replaced"]).toBe("9");
});
