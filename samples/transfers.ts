/* Transfers between accounts: two balances and a line in the ledger, all of it or nothing, and exactly once. */
import { runTransaction } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Account {
  balance: number;
}

const accounts = ["alice", "bob", "carol", "dave"];

export const transfers: Sample = {
  title: "Transfers between accounts",
  async run(storage) {
    const table = await storage.table();
    await runTransaction(table, "bank", (tx) => {
      for (const rowKey of accounts) tx.create<Account>({ rowKey, balance: 100 });
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
    const started = performance.now();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 200 }, () => {
        const from = random(accounts);
        return transfer(from, random(accounts.filter((other) => other !== from)), 1 + Math.floor(Math.random() * 40));
      }),
    );
    const done = outcomes.filter(({ status }) => status === "fulfilled").length;
    say.step(`200 transfers at a time: ${done} went through, ${200 - done} for lack of money did not`);

    const { value } = await runTransaction(table, "bank", async (tx) => {
      const all = await tx.query<Partial<Account>>();
      return { total: all.reduce((sum, { balance = 0 }) => sum + balance, 0), lines: all.length - accounts.length };
    });
    say.result(`${value.total} in all accounts, ${value.lines} lines in the ledger, in ${Math.round(performance.now() - started)} ms`);
    if (value.total !== 400 || value.lines !== done) throw new Error("money was made or lost");
  },
};

await runIfStarted(transfers, import.meta.url);
