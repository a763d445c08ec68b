import type { ContainerClient } from "@azure/storage-blob";
import type { Check } from "../check.js";
import { outcome } from "../check.js";
import { exchange } from "../exchange.js";
import type { ConditionName, Version } from "../row.js";
import { condition } from "../row.js";
import type { BlobRow, BlobSubject } from "../rows/blob.js";
import { blobRows } from "../rows/blob.js";
import { combinationRows } from "../rows/combinations.js";
import type { SpecialState } from "../rows/special-values.js";
import { specialLeaseId, specialValueRows } from "../rows/special-values.js";
import type { Workspace } from "../workspace.js";
import type { Trials } from "./conditions.js";
import { conditionChecks } from "./conditions.js";

/** One blob, through the client of each kind. Nothing is created. */
export function blobSubject(container: ContainerClient, name: string): BlobSubject {
  return {
    block: container.getBlockBlobClient(name),
    page: container.getPageBlobClient(name),
    append: container.getAppendBlobClient(name),
    source: container.getBlockBlobClient(`${name}-source`),
  };
}

/** A new blob of the row's kind, and a source to copy from if the row needs one. */
export async function createBlob({ kind = "block", operation, before }: BlobRow, workspace: Workspace): Promise<BlobSubject> {
  const subject = blobSubject(await workspace.blobs(), workspace.name());
  if (operation.includes("Copy")) await subject.source.upload("source", 6);
  // Aborting needs a blob that was copied.
  if (operation === "Abort Copy Blob") await (await subject.block.beginCopyFromURL(subject.source.url)).pollUntilDone();
  else if (kind === "block") await subject.block.upload("old", 3);
  else if (kind === "page") await subject.page.create(512);
  else await subject.append.create();
  await before?.(subject);
  return subject;
}

/** The requests of {@link createBlob}, and of the call of the row. */
export function blobCost({ operation, before }: BlobRow): { readonly create: number; readonly call: number } {
  const create = 1 + Number(operation.includes("Copy")) + Number(before !== undefined);
  return { create, call: operation === "Abort Copy Blob" ? 2 : 1 };
}

async function versionOf(subject: BlobSubject, ofSource = false): Promise<Version> {
  const { etag = "", lastModified = new Date(0) } = await (ofSource ? subject.source : subject.block).getProperties();
  return { etag, lastModified };
}

/** How the table of blob operations is tried; also on rows that say something else. */
export const blobTrials: Trials<BlobRow> = {
  service: "blob",
  group: "Blobs",
  source: "documented",
  cost: (row) => ({ around: blobCost(row).create + 1, call: blobCost(row).call }),
  prepare: async (row, workspace) => {
    const subject = await createBlob(row, workspace);
    return {
      version: await versionOf(subject, row.ofSource),
      call: (conditions) => row.call(subject, conditions),
      etag: async () => (await versionOf(subject, row.ofSource)).etag,
    };
  },
};

const combined = [
  ["Get Blob", "reads"],
  ["Get Blob Properties", "reads"],
  ["Put Blob", "writes"],
  ["Set Blob Metadata", "writes"],
  ["Delete Blob", "writes"],
] as const;

function combinationChecks(): Check[] {
  return combinationRows.flatMap(({ operation: conditions, given, source = "documented", ...expected }) =>
    combined.map(([operation, kind]) => ({
      service: "blob",
      group: "Several conditions",
      name: `${operation}: ${conditions}`,
      source,
      expected: expected[kind],
      requests: 3,
      run: async (workspace) => {
        const row = blobRow(operation);
        const subject = await createBlob(row, workspace);
        const version = await versionOf(subject);
        const parts = Object.entries(given).map(([name, holds]) => condition(name as ConditionName, version, holds));
        return outcome((await exchange(() => row.call(subject, Object.assign({}, ...parts) as object))).response, undefined);
      },
    })),
  );
}

/** The row of an operation. */
export function blobRow(operation: string): BlobRow {
  const found = blobRows.find((row) => row.operation === operation);
  if (!found) throw new Error(`no row for ${operation}`);
  return found;
}

const states: Readonly<Record<SpecialState, { readonly requests: number; create(subject: BlobSubject): Promise<unknown> }>> = {
  none: { requests: 0, create: () => Promise.resolve() },
  block: { requests: 1, create: ({ block }) => block.upload("old", 3, { tags: { a: "b" } }) },
  page: { requests: 1, create: ({ page }) => page.create(512, { blobSequenceNumber: 5 }) },
  append: {
    requests: 2,
    create: async ({ append }) => {
      await append.create();
      await append.appendBlock("old", 3);
    },
  },
  leased: {
    requests: 2,
    create: async ({ block }) => {
      await block.upload("old", 3);
      await block.getBlobLeaseClient(specialLeaseId).acquireLease(-1);
    },
  },
};

function specialValueChecks(): Check[] {
  return specialValueRows.map((row) => ({
    service: "blob",
    group: "Other conditions",
    name: row.operation,
    source: row.source ?? "documented",
    helper: row.helper,
    expected: row.response,
    emulator: row.azuriteResponse,
    requests: states[row.given].requests + 1,
    run: async (workspace) => {
      const subject = blobSubject(await workspace.blobs(), workspace.name());
      await states[row.given].create(subject);
      return (await exchange(() => row.call(subject))).response;
    },
  }));
}

export const blobChecks: readonly Check[] = [...conditionChecks(blobRows, blobTrials), ...combinationChecks(), ...specialValueChecks()];
