/* Two services change different properties of one customer at the same time; both changes survive. */
import { ConcurrentTable } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Customer {
  email: string;
  phoneNumber: string;
  visits: number;
}

export const customerEmail: Sample = {
  name: "customer-email",
  title: "Two services, one customer",
  helper: "ConcurrentTable.update",
  section: "docs/facades.md#quick-example",
  plan: "The account service changes an email address, the shop a phone number, and both count visits: all in one table entity, all at once.",
  lesson: "Whoever replaces a whole entity takes the other's changes back. An update writes the properties that it changed, on the version that it read.",
  async run(storage) {
    const table = await storage.table();
    const accounts = new ConcurrentTable<Customer>(table);
    const shop = new ConcurrentTable<Customer>(await storage.table(table.tableName));
    await accounts.createIfNotExists("Harp", "Walter", { email: "walter@contoso.com", phoneNumber: "425-555-0101", visits: 0 });
    say.step("Walter Harp is a customer: walter@contoso.com, 425-555-0101, 0 visits");

    const visit = (service: ConcurrentTable<Customer>): Promise<unknown> =>
      service.update("Harp", "Walter", (customer) => {
        customer.visits++;
      });
    await Promise.all([
      accounts.update("Harp", "Walter", (customer) => {
        customer.email = "walter.harp@contoso.com";
      }),
      shop.update("Harp", "Walter", (customer) => {
        customer.phoneNumber = "425-555-0199";
      }),
      ...Array.from({ length: 20 }, (_, n) => visit(n % 2 === 0 ? accounts : shop)),
    ]);

    const { value } = await shop.read("Harp", "Walter");
    check(value.email === "walter.harp@contoso.com" && value.phoneNumber === "425-555-0199", "both changes are there");
    check(value.visits === 20, "each visit is counted");
    say.step(`now he is ${value.email}, ${value.phoneNumber}, ${value.visits} visits`);
    return "22 changes by two services, and every one is there";
  },
};

await runIfStarted(customerEmail, import.meta.url);
