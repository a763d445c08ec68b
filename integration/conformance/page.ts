import { blobLeaseRows, leaseAnswers, type LeaseRow } from "./blob-lease.rows.js";
import { blobRows } from "./blob.rows.js";
import { combinationRows } from "./combinations.rows.js";
import { containerLeaseAnswers, containerLeaseRows } from "./container-lease.rows.js";
import { containerRows } from "./container.rows.js";
import { fileRows } from "./file.rows.js";
import { leaseActionRows } from "./lease-actions.rows.js";
import { queueRows, receiptAnswers } from "./queue.rows.js";
import { type ConditionRow, conditionNames, type Row } from "./row.js";
import { shareLeaseAnswers, shareRows } from "./share.rows.js";
import { specialValueRows } from "./special-values.rows.js";
import { tableRows } from "./table.rows.js";

/** The page on all operations, generated from the same rows as the tests. */
export function operationsPage(): string {
  return `${sections().join("\n\n")}\n`;
}

const nothing = "–";
const yes = (value: boolean | undefined): string => (value === undefined ? nothing : value ? "yes" : "no");
const code = (text: string): string => (text === "passes" ? text : `\`${text}\``);

type Column<R> = readonly [title: string, cell: (row: R) => string | undefined];

const operation: Column<Row> = ["operation", (row) => row.operation];
/** The last columns of every table. */
const remarks: readonly Column<Row>[] = [
  ["helper", (row) => row.helper],
  ["note", (row) => row.note],
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

Each row is a test: this page and the tests in \`integration/conformance\` are generated from the same rows, and each cell is tested with the plain SDK on Azurite. The rows describe Azure, according to Microsoft's documentation and recorded traffic of the service (the tests do not use an Azure account). Where Azurite differs, the last column says how, and the test checks that. To generate the page: \`node --import tsx integration/conformance/generate.ts\`.`,

    `## Containers

If an operation does not support a condition, the SDK **omits it from the request without an error**: the call succeeds as if the condition held. Where the SDK throws a \`RangeError\` instead, the table says so.

${table(containerRows, [operation, ...conditionColumns, ...remarks])}`,

    `## Blobs

"All" is If-Match, If-None-Match, If-Modified-Since and If-Unmodified-Since. The response to a failed condition is \`412 ConditionNotMet\`; for a read with If-None-Match or If-Modified-Since, \`304\`. No lease operation changes the ETag: a lease does not affect optimistic updates.

${table(blobRows, [operation, ...conditionColumns, ...remarks])}`,

    `### Several conditions

Reads evaluate If-Match && If-Unmodified-Since && (If-None-Match || If-Modified-Since). Writes prefer If-Match over If-Unmodified-Since and If-None-Match over If-Modified-Since, and reject other pairs.

${table(combinationRows, [["conditions", (row) => row.operation], ["reads", (row) => code(row.reads)], ["writes", (row) => code(row.writes)]])}`,

    `### Other conditions

${table(specialValueRows, [operation, ["response", (row) => code(row.answer)], ...remarks])}`,

    `## Blobs under a lease

"Required": without the lease id, the response is \`${leaseAnswers.missing}\`. "Optional": succeeds without the id. Both reject a wrong id with \`${leaseAnswers.mismatch}\`, and an id for a blob that was never leased with \`${leaseAnswers.neverLeased}\`. After the lease has expired, the response to its id is \`${leaseAnswers.expired.azure}\` on Azure and \`${leaseAnswers.expired.azurite}\` on Azurite; without an id, everything succeeds again.

${leaseTable(blobLeaseRows)}`,

    `### Lease operations

The same for blobs and containers.

${table(leaseActionRows, [["lease is", (row) => row.given], operation, ["response", (row) => code(row.answer)], ...remarks])}`,

    `## Containers under a lease

The lease protects only the deletion of the container. Everything else succeeds without the id, on the container and on the blobs in it. An id that is sent is checked: the response to a wrong one is \`${containerLeaseAnswers.mismatch}\`, to one for a container that was never leased \`${containerLeaseAnswers.neverLeased}\`, and after the lease has expired \`${containerLeaseAnswers.expired.azure}\` on Azure and \`${containerLeaseAnswers.expired.azurite}\` on Azurite.

${leaseTable(containerLeaseRows)}`,

    `## Tables

"Required": the response to an outdated ETag is \`412 UpdateConditionNotSatisfied\`, and \`*\` bypasses the check. The SDK sends \`*\` if no ETag is passed: the last writer wins. The response for an entity that does not exist is \`404 ResourceNotFound\`, whatever the ETag.

${table(tableRows, [operation, ["returns ETag", (row) => yes(row.returnsETag)], ["If-Match", (row) => row.ifMatch], ["without the header", (row) => row.withoutHeader && code(row.withoutHeader)], ...remarks])}`,

    `## Queues

No operation accepts a condition or a lease id, or returns an ETag. The pop receipt protects a message: only the receipt of the last receive or update is valid. The response to an outdated one is \`${receiptAnswers.stale.azure}\` on Azure and \`${receiptAnswers.stale.azurite}\` on Azurite; to a malformed one, \`${receiptAnswers.malformed.azure}\` and \`${receiptAnswers.malformed.azurite}\`.

${table(queueRows, [operation, ["concurrency", (row) => row.concurrency], ["returns a receipt", (row) => yes(row.givesReceipt)], ...remarks])}`,

    `## Files

Over REST the last writer wins: there is an ETag, but no operation accepts a condition. A lease is checked, as for blobs, and never expires. The response for a file that an SMB client has opened is \`409 SharingViolation\`: "open" is a file opened with read sharing, "exclusive" one opened without sharing. While a deletion by an SMB client is pending, the response to every operation is \`409 DeletePending\` (Microsoft also writes SMBDeletePending), not \`404\`, because the client can revoke it; listings omit the file. A deletion over REST is immediate.

Azurite does not support files: these rows are tested on the file-share server of \`azure-storage-concurrency/testing\`, which was built from recordings of the service. Renames, byte-range locks and lease states have tests of their own in \`integration/file\`.

${table(fileRows, [
  operation,
  ["returns ETag", (row) => yes(row.returnsETag)],
  ["lease", (row) => row.lease],
  ["open", (row) => (row.passesOpen ? "passes" : "409")],
  ["exclusive", (row) => (row.passesExclusive ? "passes" : "409")],
  ...remarks,
])}`,

    `## Shares

No operation accepts a condition. "Required" and "optional" are as for blobs: without the id \`${shareLeaseAnswers.missing}\`, with a wrong one \`${shareLeaseAnswers.mismatch}\`, on a share that was never leased \`${shareLeaseAnswers.neverLeased}\`, after the lease has expired \`${shareLeaseAnswers.expired}\`. The lease does not protect the content of the share. Tested on the file-share server, too.

${table(shareRows, [
  operation,
  ["returns ETag", (row) => yes(row.returnsETag)],
  ["changes ETag", (row) => yes(row.changesETag)],
  ["lease", (row) => row.lease],
  ...remarks,
])}`,
  ];
}

function conditionsOf(row: ConditionRow): string {
  const thrown = conditionNames.filter((name) => row.unsupported?.[name] === "throws");
  const accepted = row.accepts.length === conditionNames.length ? "all" : row.accepts.join(", ") || "none";
  return thrown.length === 0 ? accepted : `${accepted}; ${thrown.join(", ")}: the SDK throws`;
}

function leaseTable(rows: readonly LeaseRow[]): string {
  return table(rows, [operation, ["lease id", (row: LeaseRow) => row.lease], ...remarks]);
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
