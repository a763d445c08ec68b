/* Two services change different properties of one customer at the same time; both changes are kept. */
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
  plan: "The account service changes an email address, the shop a phone number, and both count visits: all in one table entity, at the same time.",
  lesson: "A service that replaces the whole entity overwrites the changes of the other. An update writes only the properties that it changed, and only on the version that it read.",
  async run(storage) {
    const table = await storage.table();
    const accounts = new ConcurrentTable<Customer>(table);
    const shop = new ConcurrentTable<Customer>(await storage.table(table.tableName));
    const walter = { partitionKey: "Harp", rowKey: "Walter" };
    await accounts.entity(walter).createIfNotExists({ email: "walter@contoso.com", phoneNumber: "425-555-0101", visits: 0 });
    say.step("the entity of Walter Harp: walter@contoso.com, 425-555-0101, 0 visits");

    const visit = (service: ConcurrentTable<Customer>): Promise<unknown> =>
      service.update(walter, (customer) => {
        customer.visits++;
      });
    await Promise.all([
      accounts.update(walter, (customer) => {
        customer.email = "walter.harp@contoso.com";
      }),
      shop.update(walter, (customer) => {
        customer.phoneNumber = "425-555-0199";
      }),
      ...Array.from({ length: 20 }, (_, n) => visit(n % 2 === 0 ? accounts : shop)),
    ]);

    const { value } = await shop.entity(walter).read();
    check(value.email === "walter.harp@contoso.com" && value.phoneNumber === "425-555-0199", "both changes are kept");
    check(value.visits === 20, "each visit is counted");
    say.step(`the entity now has ${value.email}, ${value.phoneNumber}, ${value.visits} visits`);
    return "22 changes by two services, and none was lost";
  },
};

await runIfStarted(customerEmail, import.meta.url);
