/* A client that gets no response sends its request again: each request is carried out once, and every repetition gets the same answer. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { isConcurrencyError, Once } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Receipt {
  readonly receipt: number;
  readonly balance: number;
}

export const idempotentRequests: Sample = {
  name: "idempotent-requests",
  title: "Requests that are sent twice",
  helper: "Once",
  section: "docs/once.md#over-http",
  plan: "Two instances of a service withdraw money. 20 clients send each request three times with the same Idempotency-Key, to either instance.",
  lesson: "The first request with a key runs the function. Its result and what it wrote are one transaction, so every repetition, by any instance, gets the same answer, and the money is withdrawn once.",
  async run(storage) {
    const table = await storage.table();
    await table.createEntity({ partitionKey: "ann", rowKey: "account", balance: 1_000, receipts: 0 });

    /** One instance of the service. */
    const start = async (): Promise<{ url: string; close: () => void }> => {
      const once = new Once(table);
      const server = createServer((request, response) => {
        const send = (status: number, body: object): void => void response.writeHead(status).end(JSON.stringify(body));
        const key = request.headers["idempotency-key"];
        if (typeof key !== "string" || key === "" || key.length > 255) {
          send(400, { error: "Idempotency-Key is missing, or too long" });
          return;
        }
        // With the caller, whom a service has authenticated: a client that sends the key of another one must not get its receipt.
        const caller = "ann";
        once
          .runTransaction<Receipt>(`${caller}/${key}`, caller, async (tx) => {
            const account = await tx.get<{ balance: number; receipts: number }>("account");
            if (!account || account.balance < 10) throw new Error("not enough money");
            tx.update({ rowKey: "account", balance: account.balance - 10, receipts: account.receipts + 1 });
            return { receipt: account.receipts + 1, balance: account.balance - 10 };
          }, { fingerprint: { method: request.method, url: request.url } })
          .then(
            ({ value, replayed }) => send(replayed ? 200 : 201, value),
            (error: unknown) => send(isConcurrencyError(error, "IDEMPOTENCY_MISMATCH") ? 422 : 503, { error: "repeat the request" }),
          );
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => void server.close() };
    };
    const instances = [await start(), await start()];

    let [carriedOut, repeated] = [0, 0];
    const withdraw = async (key: string, attempt: number): Promise<Receipt> => {
      const response = await fetch(`${instances[attempt % 2]!.url}/withdraw`, { method: "POST", headers: { "idempotency-key": key } });
      if (response.status === 201) carriedOut++;
      if (response.status === 200) repeated++;
      return (await response.json()) as Receipt;
    };
    const answers = await Promise.all(Array.from({ length: 20 }, async (_, client) => {
      const key = `client-${client}`;
      return Promise.all([0, 1, 2].map((attempt) => withdraw(key, attempt)));
    })); // prettier-ignore
    for (const instance of instances) instance.close();
    say.step(`60 requests: ${carriedOut} were carried out, ${repeated} got the answer of an earlier one`);

    const { balance, receipts } = await table.getEntity<{ balance: number; receipts: number }>("ann", "account");
    check(balance === 800 && receipts === 20, "each request withdraws once");
    check(answers.every((three) => new Set(three.map(({ receipt }) => receipt)).size === 1), "all repetitions of a request get the same answer");
    check(new Set(answers.map(([first]) => first?.receipt)).size === 20, "no two requests get the same receipt");
    return `60 requests withdrew 20 times; ${balance} are left`;
  },
};

await runIfStarted(idempotentRequests, import.meta.url);
