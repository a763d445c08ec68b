import { describe, expect, it } from "vitest";

import * as library from "../../src/index.js";
import { TransactionRun } from "../../src/transaction/transaction.js";
import { blobLeaseRows } from "./blob-lease.rows.js";
import { blobRows } from "./blob.rows.js";
import { containerLeaseRows } from "./container-lease.rows.js";
import { containerRows } from "./container.rows.js";
import { fileRows } from "./file.rows.js";
import { leaseActionRows } from "./lease-actions.rows.js";
import { queueRows } from "./queue.rows.js";
import type { Row } from "./row.js";
import { shareRows } from "./share.rows.js";
import { specialValueRows } from "./special-values.rows.js";
import { tableRows } from "./table.rows.js";

const lists: readonly (readonly Row[])[] = [
  blobRows, blobLeaseRows, containerRows, containerLeaseRows, leaseActionRows, specialValueRows, tableRows, queueRows, fileRows, shareRows,
];

/** What stands in backticks and is an option of the helper beside it. */
const options = new Set(["lock", "idempotencyKey"]);

/** `readTarget(jsonBlob | textBlob)` names three things, and `BlobLocks.list` one in another. */
function namesIn(helper: string): string[] {
  const code = [...helper.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text);
  return code.flatMap((text) => text.split(/[(|) ]+/)).filter((name) => name !== "" && !options.has(name));
}

/** Exported as a type only: the library passes one to a function of the caller. */
const types: { readonly Transaction: { readonly prototype: library.Transaction } } = { Transaction: TransactionRun };

function find(name: string): unknown {
  const [first = "", method] = name.split(".");
  const found = ({ ...library, ...types } as Record<string, unknown>)[first];
  return method === undefined ? found : (found as { prototype?: Record<string, unknown> } | undefined)?.prototype?.[method];
}

const named = [...new Set(lists.flat().flatMap(({ helper }) => (helper === undefined ? [] : namesIn(helper))))].sort();

describe("a helper that a row names", () => {
  it.each(named)("%s is exported", (name) => {
    expect(find(name)).toBeDefined();
  });

  it("is looked for: there are some, and one that is not there is missed", () => {
    expect(named.length).toBeGreaterThan(30);
    expect(namesIn("`readTarget(jsonBlob | textBlob)`, with a `lock`")).toEqual(["readTarget", "jsonBlob", "textBlob"]);
    expect([find("readTargets"), find("BlobLocks.lists"), find("Nobody.list")]).toEqual([undefined, undefined, undefined]);
  });
});
