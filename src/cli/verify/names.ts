import { randomBytes } from "node:crypto";

/** Valid in the names of containers, tables, queues and shares. */
const prefix = "ascverify";
const pattern = new RegExp(`^${prefix}([0-9a-z]{9})[0-9a-z-]{8,45}$`);

/** The names of everything that one run creates: they say when it began. */
export class RunNames {
  /** What all names of the run begin with. */
  readonly prefix: string;
  #count = 0;

  constructor(now: number = Date.now()) {
    // Nine digits in base 36 last for three thousand years.
    this.prefix = `${prefix}${now.toString(36).padStart(9, "0")}${randomBytes(4).toString("hex")}`;
  }

  next(): string {
    return `${this.prefix}${(this.#count++).toString(36)}`;
  }

  isOwn(name: string): boolean {
    return name.startsWith(this.prefix);
  }
}

/** All names of runs begin with this. */
export const namePrefix: string = prefix;

/** When the run began that created a container, table, queue or share of this name; nothing if no run did. */
export function startOf(name: string): Date | undefined {
  const [, time] = pattern.exec(name) ?? [];
  return time === undefined ? undefined : new Date(Number.parseInt(time, 36));
}
