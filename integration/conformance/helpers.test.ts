import { describe, expect, it } from "vitest";

import * as library from "../../src/index.js";
import { blobLeaseRows } from "../../src/cli/verify/rows/blob-lease.js";
import { blobRows } from "../../src/cli/verify/rows/blob.js";
import { containerLeaseRows } from "../../src/cli/verify/rows/container-lease.js";
import { containerRows } from "../../src/cli/verify/rows/container.js";
import { fileRows } from "../../src/cli/verify/rows/file.js";
import { leaseActionRows } from "../../src/cli/verify/rows/lease-actions.js";
import { queueRows } from "../../src/cli/verify/rows/queue.js";
import type { Row } from "../../src/cli/verify/row.js";
import { shareRows } from "../../src/cli/verify/rows/share.js";
import { specialValueRows } from "../../src/cli/verify/rows/special-values.js";
import { tableRows } from "../../src/cli/verify/rows/table.js";

const lists: readonly (readonly Row[])[] = [
  blobRows, blobLeaseRows, containerRows, containerLeaseRows, leaseActionRows, specialValueRows, tableRows, queueRows, fileRows, shareRows,
];

/** Names in backticks that are options of the helper beside them. */
const options = new Set(["lock", "idempotencyKey"]);

/** `readTarget(jsonBlob | textBlob)` names three things, and `BlobLocks.list` one in another. */
function namesIn(helper: string): string[] {
  const code = [...helper.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text);
  return code.flatMap((text) => text.split(/[(|) ]+/)).filter((name) => name !== "" && !options.has(name));
}

/** Members of interfaces, which do not exist at run time: the compiler checks their names. */
const members: { readonly LeaseHandle: readonly (keyof library.LeaseHandle)[]; readonly Transaction: readonly (keyof library.Transaction)[] } = {
  LeaseHandle: ["change"],
  Transaction: ["get", "query", "create"],
};

function find(name: string): unknown {
  const [first = "", method] = name.split(".");
  const ofInterface: readonly string[] | undefined = (members as Record<string, readonly string[]>)[first];
  if (ofInterface) return method === undefined ? ofInterface : ofInterface.find((member) => member === method);
  const found = (library as Record<string, unknown>)[first];
  return method === undefined ? found : (found as { prototype?: Record<string, unknown> } | undefined)?.prototype?.[method];
}

const named = [...new Set(lists.flat().flatMap(({ helper }) => (helper === undefined ? [] : namesIn(helper))))].sort();

describe("a helper that a row names", () => {
  it.each(named)("%s is exported", (name) => {
    expect(find(name)).toBeDefined();
  });

  it("is found by its name, and a wrong name is not", () => {
    expect(named.length).toBeGreaterThan(30);
    expect(namesIn("`readTarget(jsonBlob | textBlob)`, with a `lock`")).toEqual(["readTarget", "jsonBlob", "textBlob"]);
    expect([find("readTargets"), find("BlobLocks.lists"), find("Unknown.list"), find("Transaction.gets")]).toEqual([undefined, undefined, undefined, undefined]);
  });
});
