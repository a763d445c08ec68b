/* Two services change different properties of one customer at the same time; both changes survive. */
import { ConcurrentTable } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Customer {
  email: string;
  phoneNumber: string;
  visits: number;
}

export const customerEmail: Sample = {
  title: "Optimistic concurrency on a table entity",
  async run(storage) {
    const customers = new ConcurrentTable<Customer>(await storage.table());
    await customers.createIfAbsent("Harp", "Walter", { email: "Walter@contoso.com", phoneNumber: "425-555-0101", visits: 0 });
    say.step("Walter Harp is in the table");

    await Promise.all([
      customers.update("Harp", "Walter", (customer) => {
        customer.email = "Walter.Harp@contoso.com";
      }),
      customers.update("Harp", "Walter", (customer) => {
        customer.phoneNumber = "425-555-0199";
      }),
      ...Array.from({ length: 20 }, () =>
        customers.update("Harp", "Walter", (customer) => {
          customer.visits++;
        }),
      ),
    ]);

    const { value } = await customers.read("Harp", "Walter");
    say.result(`${value.email}, ${value.phoneNumber}, ${value.visits} visits: every change is there`);
  },
};

await runIfStarted(customerEmail, import.meta.url);
