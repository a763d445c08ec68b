import type { SourceText } from "./row.js";
import type { Service } from "./service.js";
import type { Workspace } from "./workspace.js";

/** One thing that the library relies on, as a question to the service. */
export interface Check {
  readonly service: Service;
  /** The other services that it uses: it is left out if one of them is not checked. */
  readonly also?: readonly Service[] | undefined;
  /** The table or the subject that it belongs to. */
  readonly group: string;
  readonly name: string;
  /** How what is expected of Azure is known. */
  readonly source: SourceText;
  readonly helper?: string | undefined;
  /** What Azure is expected to do. */
  readonly expected: string;
  /** What Azurite or the file-share server does, where it is known to differ. */
  readonly emulator?: string | undefined;
  /** The requests of a run, with the removal of what it creates, if no wait is longer than usual. */
  readonly requests: number;
  /** How many further requests it sends at most while it waits for the clock of the service. */
  readonly polls?: number | undefined;
  /** It waits for a lease or a message: it starts before the others, and beside them. */
  readonly slow?: boolean | undefined;
  /** A SAS cannot do this: it is left out if there is no account key. */
  readonly needsKey?: boolean | undefined;
  /** Returns what the service did, in the words of `expected`. */
  run(workspace: Workspace): Promise<string>;
}

/** The parts that the checks of a group have in common. */
export type CheckGroup = Pick<Check, "service" | "group">;

/** `passes` for a success, so that the status of each operation need not be known. */
export function outcome(response: string, passes: string | undefined): string {
  const passed = passes === undefined ? /^2\d\d$/.test(response) : response === passes;
  return passed ? "passes" : response;
}

/** Removing a container or share takes one request; two if it may be leased, as its lease has to be broken first. */
export const removal = { plain: 1, leased: 2 } as const;
