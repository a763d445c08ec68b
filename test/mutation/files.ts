/** The files that carry guarantees, in order of importance, and the unit tests that judge their mutants: models and simulations take too long. */
export interface MutatedFile {
  readonly file: string;
  readonly tests: readonly string[];
  /** Part of `npm run mutation -- --quick`. */
  readonly quick?: boolean;
}

const core = (name: string, ...tests: string[]): MutatedFile => ({ file: `src/core/${name}.ts`, tests: [`test/core/${name}.test.ts`, ...tests] });
const inbox = (name: string, ...tests: string[]): MutatedFile => ({
  file: `src/queue/inbox/${name}.ts`,
  tests: ["test/queue/inbox/*.test.ts", "test/queue/commit.test.ts", ...tests],
});

export const mutatedFiles: readonly MutatedFile[] = [
  { file: "src/target/journal.ts", tests: ["test/target/{journal,journal-tokens}.test.ts"], quick: true },
  { file: "src/update/commit.ts", tests: ["test/update/{commit,single-requests}.test.ts"] },
  core("resolve-write", "test/core/copied-requests.test.ts", "test/update/commit.test.ts"),
  core("retry"),
  core("request", "test/core/{send-signal,copied-requests}.test.ts", "test/update/request-timeouts.test.ts", "test/target/{primary-reads,response-body}.test.ts"),
  core("renewal", "test/lease/{clocks,signal,renewal-table}.test.ts"),
  core("call-queue", "test/core/shared-batches.test.ts", "test/update/{group-commit,time-boxed-batches,shared-backoff}.test.ts"),
  core("deadline", "test/core/deadline-{stopwatch,signals}.test.ts"),
  core("pending-call"),
  core("storage-errors", "test/core/error-label.test.ts"),
  core("shared-run"),
  { ...core("recent"), quick: true },
  core("parallel"),
  core("iterate"),
  core("send-signal"),
  { ...core("table-action"), quick: true },
  core("validate", "test/core/options.test.ts"),
  core("hold-context", "test/{lock,lease,update}/nested.test.ts"),
  core("background-service"),
  core("typed-events"),
  { file: "src/append/claims.ts", tests: ["test/append/{operation-id,append-exactly-once}.test.ts"] },
  { file: "src/lock/tickets.ts", tests: ["test/lock/{turns,passed-over,fair-options,uncontended}.test.ts"] },
  { file: "src/lock/epoch-allocator.ts", tests: ["test/lock/{epochs,hanging-epochs,successor,lost-acquire,turns}.test.ts"] },
  { file: "src/lock/fence-row.ts", tests: ["test/lock/{table-fence,fenced-update,fence-purge,fenced-tombstones}.test.ts", "test/security/forged-rows.test.ts"] },
  { file: "src/lock/fence.ts", tests: ["test/lock/{table-fence,fenced-update,fence-purge,fenced-tombstones,held-calls}.test.ts", "test/security/forged-rows.test.ts"] },
  { file: "src/lock/lock-record.ts", tests: ["test/lock/{epochs,data,options,list,blob-locks}.test.ts", "test/security/forged-records.test.ts"] },
  { file: "src/lease/waiter-queue.ts", tests: ["test/lease/{queue,acquire,left-behind,release}.test.ts"] },
  { file: "src/lease/crash-guard.ts", tests: ["test/lease/{crash-guard,file-lease,lock-provider}.test.ts", "test/lock/successor.test.ts"] },
  { file: "src/queue/message-lease.ts", tests: ["test/queue/{message-lease,suspension,gateways-and-hung-inboxes}.test.ts"] },
  inbox("record"),
  inbox("group-row", "test/queue/groups.test.ts"),
  inbox("claim-write"),
  inbox("transition-write"),
  inbox("claim-inbox"),
  inbox("groups", "test/queue/groups.test.ts"),
  { file: "src/once/once-record.ts", tests: ["test/once/*.test.ts"] },
  { file: "src/schedule/job-state.ts", tests: ["test/schedule/{job-state,schedule,crashes,due-times}.test.ts"] },
  { file: "src/schedule/job-row.ts", tests: ["test/schedule/rows.test.ts"] },
  { file: "src/transaction/operations.ts", tests: ["test/transaction/*.test.ts"] },
  { file: "src/transaction/partition-view.ts", tests: ["test/transaction/*.test.ts"] },
  { file: "src/update/batch.ts", tests: ["test/update/{group-commit,optimistic-update,time-boxed-batches,tries,mishaps,misuse,attacked,mutator-signal}.test.ts"] },
];
