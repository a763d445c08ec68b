import { isConcurrencyError, runTransaction } from "../../../src/index.js";
import { fastTable } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface TellerJob {
  connectionString: string;
  table: string;
  /** Part of the keys of its ledger rows. */
  name: string;
  transfers: number;
  accounts: readonly string[];
  /** What all accounts together hold at every moment. */
  total: number;
}

export interface TellerReport {
  transferred: string[];
  unknown: string[];
  failed: string[];
  /** Sums over all accounts, read within transactions, that were not the total. */
  wrongSums: number[];
  attempts: number;
}

interface Account {
  balance: number;
}

/** Transfers between random accounts, eight at a time, each with a row in the ledger. */
runWorker(async (job: TellerJob): Promise<TellerReport> => {
  const table = fastTable(job.connectionString, job.table);
  const report: TellerReport = { transferred: [], unknown: [], failed: [], wrongSums: [], attempts: 0 };
  const ids = Array.from({ length: job.transfers }, (_, n) => `ledger-${job.name}-${n}`);

  async function transfer(id: string, audit: boolean): Promise<void> {
    const from = pick(job.accounts);
    const to = pick(job.accounts.filter((other) => other !== from));
    const amount = 1 + Math.floor(Math.random() * 20);
    const attempts = await runTransaction(table, "bank", async (tx) => {
      if (audit) {
        const all = await tx.getMany<Account>(job.accounts);
        const sum = all.reduce((total, account) => total + (account?.balance ?? NaN), 0);
        if (sum !== job.total) throw new WrongSum(sum);
      }
      const [payer, payee] = await tx.getMany<Account>([from, to]);
      if (!payer || !payee) throw new Error("an account is missing");
      tx.update<Account>({ rowKey: from, balance: payer.balance - amount });
      tx.update<Account>({ rowKey: to, balance: payee.balance + amount });
      tx.create({ rowKey: id, from, to, amount });
      return tx.attempt;
    }, { timeoutInMs: 50_000, maxAttempts: 1_000 });
    report.attempts += attempts;
  }

  async function work(): Promise<void> {
    for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
      try {
        await transfer(id, ids.length % 10 === 0);
        report.transferred.push(id);
      } catch (error) {
        if (isConcurrencyError(error, "COMMIT_UNKNOWN")) report.unknown.push(id);
        else if (error instanceof WrongSum) report.wrongSums.push(error.sum);
        else report.failed.push(String(error));
      }
    }
  }
  await Promise.all(Array.from({ length: 8 }, work));
  return report;
});

class WrongSum extends Error {
  readonly sum: number;

  constructor(sum: number) {
    super(`the accounts hold ${sum}`);
    this.sum = sum;
  }
}

function pick<T>(choices: readonly T[]): T {
  return choices[Math.floor(Math.random() * choices.length)]!;
}
