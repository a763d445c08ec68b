import type { Action } from "./snapshot.js";

/** @throws `TypeError` if it is none. */
export function readAction(text: string): Action {
  const action = parse(text);
  const textIn = (name: string): string => {
    const value = action[name];
    if (typeof value !== "string" || value === "") throw new TypeError(`the action has no ${name}`);
    return value;
  };
  const { kind, epoch } = action;
  switch (kind) {
    case "break":
      if (epoch !== undefined && !Number.isSafeInteger(epoch)) throw new TypeError("the epoch of the action is not a number");
      return { kind, container: textIn("container"), name: textIn("name"), epoch: epoch as number | undefined, etag: textIn("etag") };
    case "redrive":
    case "delete":
      return { kind, queue: textIn("queue"), id: textIn("id"), version: textIn("version") };
    case "trigger":
      return { kind, table: textIn("table"), schedule: textIn("schedule"), job: textIn("job"), trigger: textIn("trigger"), key: textIn("key") };
    default:
      throw new TypeError("there is no such action");
  }
}

function parse(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new TypeError("the action is not JSON", { cause: error });
  }
  if (typeof value !== "object" || value === null) throw new TypeError("the action is not an object");
  return value as Readonly<Record<string, unknown>>;
}
