/* What one instance needs to know. All of it comes from the environment, as on a platform for containers. */

/** What an instance does. In one process all of it, or in processes of their own, which are then scaled separately. */
export type Role = "api" | "payments" | "jobs";

export interface ServiceSettings {
  /** Names the instance in locks and logs. */
  readonly instance: string;
  readonly connectionString: string;
  /** The names of table, queues and container begin with it. */
  readonly prefix: string;
  readonly roles: readonly Role[];
  /** 0: a free one. */
  readonly port: number;
  /** Closes the books in this interval, and not every night. */
  readonly closeEveryInMs: number | undefined;
}

const roles: readonly Role[] = ["api", "payments", "jobs"];

/** @throws if a variable is missing or wrong: an instance must not start with half of its settings. */
export function readSettings(env: Readonly<Record<string, string | undefined>>): ServiceSettings {
  const connectionString = env["AZURE_STORAGE_CONNECTION_STRING"];
  if (!connectionString) throw new Error("Set AZURE_STORAGE_CONNECTION_STRING.");
  const chosen = (env["SHOP_ROLES"] ?? roles.join(",")).split(",").map((role) => role.trim());
  const unknown = chosen.filter((role) => !roles.some((known) => known === role));
  if (unknown.length > 0) throw new Error(`SHOP_ROLES: "${unknown.join(", ")}" is none of ${roles.join(", ")}.`);
  return {
    instance: env["SHOP_INSTANCE"] ?? env["HOSTNAME"] ?? "shop",
    connectionString,
    prefix: env["SHOP_PREFIX"] ?? "shop",
    roles: roles.filter((role) => chosen.includes(role)),
    port: wholeNumber("PORT", env["PORT"]) ?? 0,
    closeEveryInMs: wholeNumber("SHOP_CLOSE_EVERY_MS", env["SHOP_CLOSE_EVERY_MS"]),
  };
}

function wholeNumber(name: string, text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (!/^\d+$/.test(text)) throw new Error(`${name} must be a whole number, not "${text}".`);
  return Number(text);
}
