import { blobLeaseRows, leaseResponses, type LeaseRow } from "../../src/cli/verify/rows/blob-lease.js";
import { blobRows } from "../../src/cli/verify/rows/blob.js";
import { combinationRows } from "../../src/cli/verify/rows/combinations.js";
import { containerLeaseResponses, containerLeaseRows } from "../../src/cli/verify/rows/container-lease.js";
import { containerRows } from "../../src/cli/verify/rows/container.js";
import { fileRows } from "../../src/cli/verify/rows/file.js";
import { leaseActionRows } from "../../src/cli/verify/rows/lease-actions.js";
import { queueRows, receiptResponses } from "../../src/cli/verify/rows/queue.js";
import { type ConditionRow, conditionNames, type Row, type SourceText } from "../../src/cli/verify/row.js";
import { shareLeaseResponses, shareRows } from "../../src/cli/verify/rows/share.js";
import { specialValueRows } from "../../src/cli/verify/rows/special-values.js";
import { tableRows } from "../../src/cli/verify/rows/table.js";

/** The page on all operations, generated from the same rows as the tests. */
export function operationsPage(): string {
  return `${sections().join("\n\n")}\n`;
}

const nothing = "–";
const yes = (value: boolean | undefined): string => (value === undefined ? nothing : value ? "yes" : "no");
const code = (text: string): string => (text === "passes" ? text : `\`${text}\``);

type Column<R> = readonly [title: string, cell: (row: R) => string | undefined];

const operation: Column<Row> = ["operation", (row) => row.operation];
/** The last columns of every table. `source`: that of the rows that name none. */
const remarks = (source: SourceText): readonly Column<Row>[] => [
  ["helper", (row) => row.helper],
  ["note", (row) => row.note],
  ["source", (row) => row.source ?? source],
  ["Azurite", (row) => row.azurite],
];

const conditionColumns: readonly Column<ConditionRow>[] = [
  ["returns ETag", (row) => yes(row.returnsETag)],
  ["changes ETag", (row) => yes(row.changesETag)],
  ["conditions", conditionsOf],
];

function sections(): string[] {
  return [
    `# Operations and conditions

This page lists which operations of Azure Storage return an ETag, accept a condition or a lease id, and which helper of this library covers them. The operations are those of Microsoft's article on managing concurrency in Azure Storage, and a few more.

Each row is a test: this page, the tests in \`integration/conformance\` and the checks of [\`verify\`](verify.md) are generated from the same rows, and each cell is tested with the plain SDK on Azurite. The rows describe Azure; the tests do not use an Azure account, \`verify\` checks them on yours. The column "source" says how a row is known: **documented** by Microsoft, **recorded** in public recordings of traffic with the service, **measured on Azurite** (Azure is taken to do the same), or only **believed**. Where Azurite differs, the last column says how, and the test checks that. To generate the page: \`node --import tsx integration/conformance/generate.ts\`.`,

    `## Containers

If an operation does not support a condition, the SDK **omits it from the request without an error**: the call succeeds as if the condition held. Where the SDK throws a \`RangeError\` instead, the table says so.

${table(containerRows, [operation, ...conditionColumns, ...remarks("documented")])}`,

    `## Blobs

"All" is If-Match, If-None-Match, If-Modified-Since and If-Unmodified-Since. The response to a failed condition is \`412 ConditionNotMet\`; for a read with If-None-Match or If-Modified-Since, \`304\`. No lease operation changes the ETag: a lease does not affect optimistic updates.

${table(blobRows, [operation, ...conditionColumns, ...remarks("documented")])}`,

    `### Several conditions

Reads evaluate If-Match && If-Unmodified-Since && (If-None-Match || If-Modified-Since). Writes prefer If-Match over If-Unmodified-Since and If-None-Match over If-Modified-Since, and reject other pairs.

${table(combinationRows, [["conditions", (row) => row.operation], ["reads", (row) => code(row.reads)], ["writes", (row) => code(row.writes)], ...remarks("documented")])}`,

    `### Other conditions

${table(specialValueRows, [operation, ["response", (row) => code(row.response)], ...remarks("documented")])}`,

    `## Blobs under a lease

"Required": without the lease id, the response is \`${leaseResponses.missing}\`. "Optional": succeeds without the id. Both reject a wrong id with \`${leaseResponses.mismatch}\`, and an id for a blob that was never leased with \`${leaseResponses.neverLeased}\`. After the lease has expired, the response to its id is \`${leaseResponses.expired.azure}\` on Azure (recorded) and \`${leaseResponses.expired.azurite}\` on Azurite; without an id, everything succeeds again.

${leaseTable(blobLeaseRows)}`,

    `### Lease operations

The same for blobs and containers.

${table(leaseActionRows, [["lease is", (row) => row.given], operation, ["response", (row) => code(row.response)], ...remarks("documented")])}`,

    `## Containers under a lease

The lease protects only the deletion of the container. Everything else succeeds without the id, on the container and on the blobs in it. An id that is sent is checked: the response to a wrong one is \`${containerLeaseResponses.mismatch}\`, to one for a container that was never leased \`${containerLeaseResponses.neverLeased}\`, and after the lease has expired \`${containerLeaseResponses.expired.azure}\` on Azure (recorded for blobs and shares) and \`${containerLeaseResponses.expired.azurite}\` on Azurite.

${leaseTable(containerLeaseRows)}`,

    `## Tables

"Required": the response to an outdated ETag is \`412 UpdateConditionNotSatisfied\`, and \`*\` bypasses the check. The SDK sends \`*\` if no ETag is passed: the last writer wins. The response for an entity that does not exist is \`404 ResourceNotFound\`, whatever the ETag (measured on Azurite).

${table(tableRows, [operation, ["returns ETag", (row) => yes(row.returnsETag)], ["If-Match", (row) => row.ifMatch], ["without the header", (row) => row.withoutHeader && code(row.withoutHeader)], ...remarks("documented")])}`,

    `## Queues

No operation accepts a condition or a lease id, or returns an ETag. The pop receipt protects a message: only the receipt of the last receive or update is valid. The response to an outdated one is \`${receiptResponses.stale.azure}\` on Azure (recorded) and \`${receiptResponses.stale.azurite}\` on Azurite; to a malformed one, \`${receiptResponses.malformed.azure}\` and \`${receiptResponses.malformed.azurite}\`.

${table(queueRows, [operation, ["concurrency", (row) => row.concurrency], ["returns a receipt", (row) => yes(row.givesReceipt)], ...remarks("documented")])}`,

    `## Files

Over REST the last writer wins: there is an ETag, but no operation accepts a condition. A lease is checked, as for blobs, and never expires. The response for a file that an SMB client has opened is \`409 SharingViolation\`, unless the client shares the access that the operation needs: "open" is a file opened with read sharing, "exclusive" one opened without sharing. All share modes and lease states of Microsoft's tables are tests in \`integration/file/server-smb-tables.test.ts\`, \`test/testing/file-share/lease-tables.test.ts\` and \`integration/file/server-lease-tables.test.ts\`. While a deletion by an SMB client is pending, the response to every operation is \`409 DeletePending\` (Microsoft also writes SMBDeletePending), not \`404\`, because the client can revoke it; listings omit the file. A deletion over REST is immediate, and never pending.

Azurite does not support files: these rows are tested on the file-share server of \`azure-storage-concurrency/testing\`, which was built from recordings of the service and Microsoft's documentation. Renames and byte-range locks have tests of their own in \`integration/file\`. That a rename under both lease ids replaces a leased file, which stays leased, is recorded; what a rename does while an SMB client has one of the files open is believed.

${table(fileRows, [
  operation,
  ["returns ETag", (row) => yes(row.returnsETag)],
  ["lease", (row) => row.lease],
  ["open", (row) => (row.passesOpen ? "passes" : "409")],
  ["exclusive", (row) => (row.passesExclusive ? "passes" : "409")],
  ...remarks("recorded; documented: SMB clients"),
])}`,

    `## Shares

No operation accepts a condition. "Required" and "optional" are as for blobs: without the id \`${shareLeaseResponses.missing}\`, with a wrong one \`${shareLeaseResponses.mismatch}\`, on a share that was never leased \`${shareLeaseResponses.neverLeased}\`, after the lease has expired \`${shareLeaseResponses.expired}\`. The lease does not protect the content of the share. Tested on the file-share server, too.

${table(shareRows, [
  operation,
  ["returns ETag", (row) => yes(row.returnsETag)],
  ["changes ETag", (row) => yes(row.changesETag)],
  ["lease", (row) => row.lease],
  ...remarks("recorded"),
])}`,
  ];
}

function conditionsOf(row: ConditionRow): string {
  const thrown = conditionNames.filter((name) => row.unsupported?.[name] === "throws");
  const accepted = row.accepts.length === conditionNames.length ? "all" : row.accepts.join(", ") || "none";
  return thrown.length === 0 ? accepted : `${accepted}; ${thrown.join(", ")}: the SDK throws`;
}

function leaseTable(rows: readonly LeaseRow[]): string {
  return table(rows, [operation, ["lease id", (row: LeaseRow) => row.lease], ...remarks("documented")]);
}

/** Omits columns that are empty in all rows. */
function table<R extends Row>(rows: readonly R[], columns: readonly Column<R>[]): string {
  const used = columns.filter(([, cell]) => rows.some((row) => cell(row) !== undefined));
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const escaped = (text: string): string => text.replaceAll("|", "\\|");
  return [
    line(used.map(([title]) => title)),
    line(used.map(() => "---")),
    ...rows.map((row) => line(used.map(([, cell]) => escaped(cell(row) ?? nothing)))),
  ].join("\n");
}
