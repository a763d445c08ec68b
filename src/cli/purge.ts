import type { PurgeResult } from "../clients/call.js";
import { startStopwatch } from "../core/deadline.js";
import type { CommandContext } from "./connect.js";
import { counted, printOutcome } from "./print.js";
import { confirm } from "./terminal.js";

interface Purge {
  /** `record`: what the outcome counts. */
  readonly noun: string;
  /** The question up to the time, as in `Locks that were not used since`. */
  readonly question: string;
  /** What else there is to know before the user confirms. */
  readonly more?: string | undefined;
  readonly olderThanInMs: number;
  readonly yes: boolean | undefined;
}

/** Purges what the user was asked about: while he thinks, nothing becomes old enough. */
export async function purgeShown(context: CommandContext, { noun, question, more = "", olderThanInMs, yes = false }: Purge, purge: (olderThanInMs: number, askedInMs: number) => Promise<PurgeResult>): Promise<void> {
  const olderThan = new Date(Date.now() - olderThanInMs);
  const elapsedInMs = startStopwatch();
  await confirm(context.terminal, `${question} ${olderThan.toISOString()} will be deleted.${more}`, yes);
  const askedInMs = elapsedInMs();
  const { deleted, kept } = await purge(olderThanInMs + askedInMs, askedInMs);
  printOutcome(context, `${counted(deleted, noun, "was", "were")} deleted, ${kept} ${kept === 1 ? "is" : "are"} in use.`, { deleted, kept, olderThan });
}
