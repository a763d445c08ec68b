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

/** The page on all operations, made of the rows that the tests are made of. */
export function operationsPage(): string {
  return `${sections().join("\n\n")}\n`;
}

const nothing = "–";
const yes = (value: boolean | undefined): string => (value === undefined ? nothing : value ? "yes" : "no");
const code = (text: string): string => (text === "passes" ? text : `\`${text}\``);

type Column<R> = readonly [title: string, cell: (row: R) => string | undefined];

const operation: Column<Row> = ["operation", (row) => row.operation];
/** What every table ends with. */
const remarks: readonly Column<Row>[] = [
  ["helper", (row) => row.helper],
  ["to know", (row) => row.note],
  ["Azurite", (row) => row.azurite],
];

const conditionColumns: readonly Column<ConditionRow>[] = [
  ["returns ETag", (row) => yes(row.returnsETag)],
  ["changes ETag", (row) => yes(row.changesETag)],
  ["conditions", conditionsOf],
];

function sections(): string[] {
  return [
    `# Operations and what they check

Which operation of Azure Storage returns an ETag, takes a condition or a lease, and which helper of this library covers it. The lists are those of Microsoft's article on managing concurrency in Azure Storage, and a few operations more.

Each row is a test: the page and the tests in \`integration/conformance\` are made of the same rows, and each cell is tried with the SDK alone on Azurite. The rows say what Azure does, by Microsoft's documentation and recorded traffic of the service (the tests do not talk to an account in the cloud); where Azurite does something else, the last column says what, and that is what the test pins. To make the page again: \`node --import tsx integration/conformance/generate.ts\`.`,

    `## Containers

A condition that an operation does not take is left out of the request by the SDK **without a word**: the call goes through as if it held. Where the SDK throws a \`RangeError\` instead, the table says so.

${table(containerRows, [operation, ...conditionColumns, ...remarks])}`,

    `## Blobs

"All" is If-Match, If-None-Match, If-Modified-Since and If-Unmodified-Since. A condition that does not hold is answered \`412 ConditionNotMet\`; by a read, \`304\` if it is If-None-Match or If-Modified-Since. No lease operation changes the ETag: a lease does not disturb those who update optimistically.

${table(blobRows, [operation, ...conditionColumns, ...remarks])}`,

    `### Several conditions at once

Reads go by the formula If-Match && If-Unmodified-Since && (If-None-Match || If-Modified-Since). Writes look at If-Match before If-Unmodified-Since, at If-None-Match before If-Modified-Since, and refuse other pairs.

${table(combinationRows, [["conditions", (row) => row.operation], ["reads", (row) => code(row.reads)], ["writes", (row) => code(row.writes)]])}`,

    `### Other conditions

${table(specialValueRows, [operation, ["answer", (row) => code(row.answer)], ...remarks])}`,

    `## Blobs under a lease

"Required": without the id of the lease \`${leaseAnswers.missing}\`. "Optional": goes through without the id. A wrong id is refused by both with \`${leaseAnswers.mismatch}\`, an id for a blob that was never leased with \`${leaseAnswers.neverLeased}\`. After the lease has run out, the id is answered \`${leaseAnswers.expired.azure}\` by Azure and \`${leaseAnswers.expired.azurite}\` by Azurite; without an id, everything goes through again.

${leaseTable(blobLeaseRows)}`,

    `### Lease operations

The same for blobs and containers.

${table(leaseActionRows, [["lease is", (row) => row.given], operation, ["answer", (row) => code(row.answer)], ...remarks])}`,

    `## Containers under a lease

Only the deletion of the container is guarded. Everything else goes through without the id, on the container as on the blobs in it; an id that is given is checked: a wrong one is answered \`${containerLeaseAnswers.mismatch}\`, one for a container that was never leased \`${containerLeaseAnswers.neverLeased}\`. After the lease has run out it is \`${containerLeaseAnswers.expired.azure}\` on Azure and \`${containerLeaseAnswers.expired.azurite}\` on Azurite.

${leaseTable(containerLeaseRows)}`,

    `## Tables

"Required": a stale ETag is answered \`412 UpdateConditionNotSatisfied\`, and \`*\` goes around the check. The SDK sends \`*\` if it is given no ETag: an update without one is last writer wins. An entity that is not there is \`404 ResourceNotFound\`, whatever the ETag.

${table(tableRows, [operation, ["returns ETag", (row) => yes(row.returnsETag)], ["If-Match", (row) => row.ifMatch], ["without the header", (row) => row.withoutHeader && code(row.withoutHeader)], ...remarks])}`,

    `## Queues

No operation takes a condition or a lease, or returns an ETag. What guards a message is its pop receipt: only the one of the last receive or update is good. Another one is answered \`${receiptAnswers.stale.azure}\` by Azure and \`${receiptAnswers.stale.azurite}\` by Azurite; one that is no receipt, \`${receiptAnswers.malformed.azure}\` and \`${receiptAnswers.malformed.azurite}\`.

${table(queueRows, [operation, ["concurrency", (row) => row.concurrency], ["gives a receipt", (row) => yes(row.givesReceipt)], ...remarks])}`,

    `## Files

Over REST the last writer wins: there is an ETag, but no operation takes a condition. A lease is checked, as for blobs, and never runs out. What an SMB client holds is answered \`409 SharingViolation\`: "open" is a file that it lets others read, "exclusive" one that it shares with nobody. While a deletion of an SMB client is pending, every operation is answered \`409 DeletePending\` (Microsoft also writes SMBDeletePending), not \`404\`, as the client may think better of it; listings leave the file out. A deletion over REST is immediate.

Azurite has no files: these rows are tried on the file-share server of \`azure-storage-concurrency/testing\`, which was built from recordings of the service. Renames, byte-range locks and the states of a lease have tests of their own in \`integration/file\`.

${table(fileRows, [
  operation,
  ["returns ETag", (row) => yes(row.returnsETag)],
  ["lease", (row) => row.lease],
  ["open", (row) => (row.passesOpen ? "passes" : "409")],
  ["exclusive", (row) => (row.passesExclusive ? "passes" : "409")],
  ...remarks,
])}`,

    `## Shares

No operation takes a condition. "Required" and "optional" are as for blobs: without the id \`${shareLeaseAnswers.missing}\`, with a wrong one \`${shareLeaseAnswers.mismatch}\`, on a share that was never leased \`${shareLeaseAnswers.neverLeased}\`, after the lease has run out \`${shareLeaseAnswers.expired}\`. What is in the share is not guarded by its lease. Tried on the file-share server, too.

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

/** Without the columns in which no row has anything. */
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
