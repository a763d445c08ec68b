/* Transfers between accounts: two balances and a line in the ledger are written atomically and exactly once. */
import { runTransaction } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Account {
  balance: number;
}

const accounts = ["alice", "bob", "carol", "dave"];

export const transfers: Sample = {
  name: "transfers",
  title: "Money between accounts",
  helper: "runTransaction",
  section: "docs/transactions.md#quick-example",
  plan: "Four accounts with 100 each, and 200 random transfers between them at the same time. No account may be overdrawn.",
  lesson: "Both balances and the line in the ledger are written in one request, and only if nothing that was read has changed. Otherwise the function runs again. The total stays the same, whatever other clients write in between.",
  async run(storage) {
    const table = await storage.table();
    await runTransaction<Account>(table, "bank", (tx) => {
      for (const rowKey of accounts) tx.create({ rowKey, balance: 100 });
    });

    async function transfer(from: string, to: string, amount: number): Promise<void> {
      await runTransaction(table, "bank", async (tx) => {
        const [payer, payee] = await tx.getMany<Account>([from, to]);
        if (!payer || !payee) throw new Error("no such account");
        if (payer.balance < amount) throw new Error(`${from} has only ${payer.balance}`);
        tx.update<Account>({ rowKey: from, balance: payer.balance - amount });
        tx.update<Account>({ rowKey: to, balance: payee.balance + amount });
        tx.create({ rowKey: `ledger-${crypto.randomUUID()}`, from, to, amount });
      });
    }

    const random = <T>(choices: readonly T[]): T => choices[Math.floor(Math.random() * choices.length)] as T;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 200 }, () => {
        const from = random(accounts);
        return transfer(from, random(accounts.filter((other) => other !== from)), 1 + Math.floor(Math.random() * 40));
      }),
    );
    const done = outcomes.filter(({ status }) => status === "fulfilled").length;
    say.step(`${done} transfers were committed, ${200 - done} were rejected because the balance was too low`);

    const result = await runTransaction(table, "bank", async (tx) => {
      const all = await tx.query<Partial<Account>>();
      const balances = all.flatMap(({ balance }) => balance ?? []);
      return { balances, total: balances.reduce((sum, balance) => sum + balance, 0), lines: all.length - accounts.length };
    });
    check(result.total === 400, "the total stays the same");
    check(result.balances.every((balance) => balance >= 0), "no account is overdrawn");
    check(result.lines === done, "each transfer has one line in the ledger");
    return `${result.balances.join(" + ")} = ${result.total}, and ${result.lines} lines in the ledger`;
  },
};

await runIfStarted(transfers, import.meta.url);
