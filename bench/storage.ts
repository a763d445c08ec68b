import { randomUUID } from "node:crypto";

import { TableClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";

import type { BenchEnv } from "./harness.js";

export function benchEnv(connectionString: string): BenchEnv {
  return {
    connectionString,
    async freshTable() {
      const table = tableClient(connectionString, freshName());
      await table.createTable();
      return table;
    },
    async freshContainer() {
      const container = new ContainerClient(connectionString, freshName());
      await container.create();
      return container;
    },
  };
}

export function tableClient(connectionString: string, name: string): TableClient {
  return TableClient.fromConnectionString(connectionString, name, { allowInsecureConnection: true });
}

/** Valid for containers and tables alike. */
function freshName(): string {
  return `b${randomUUID().replaceAll("-", "")}`;
}
