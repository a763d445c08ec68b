/** What the processes recorded of a queue, in the time of the machine. */
export type DeliveryEvent =
  /** A handler of the key acted between these times, and was certain to have the message at both of them. */
  | { readonly kind: "handled"; readonly key: string; readonly from: number; readonly to: number; readonly group?: string; readonly sequence?: number }
  /** A consumer reported the key as completed. */
  | { readonly kind: "completed"; readonly key: string; readonly at: number };

type Handled = Extract<DeliveryEvent, { kind: "handled" }>;

/**
 * What is wrong with the history of a queue: handlers of one key that overlap, a key that is completed twice, or handled after it was completed.
 * With groups, also handlers of one group that overlap, and sequences that are left out, or go back.
 */
export function checkDeliveries(events: readonly DeliveryEvent[]): string[] {
  const handled = events.filter((event) => event.kind === "handled").toSorted((a, b) => a.from - b.from);
  const completed = new Map<string, number>();
  const problems: string[] = [];
  for (const event of events) {
    if (event.kind !== "completed") continue;
    if (completed.has(event.key)) problems.push(`${event.key} was completed twice`);
    completed.set(event.key, Math.min(event.at, completed.get(event.key) ?? Infinity));
  }
  for (const { key, from } of handled) {
    const at = completed.get(key);
    if (at !== undefined && from > at) problems.push(`${key} was handled ${(from - at).toFixed(1)} ms after it was completed`);
  }
  for (const [what, row] of [...rowsOf(handled, ({ key }) => key), ...rowsOf(handled, ({ group }) => group)]) problems.push(...overlaps(what, row));
  for (const [group, row] of rowsOf(handled, ({ group: name }) => name)) problems.push(...outOfOrder(group, row));
  return problems;
}

function rowsOf(handled: readonly Handled[], nameOf: (event: Handled) => string | undefined): Map<string, Handled[]> {
  const rows = new Map<string, Handled[]>();
  for (const event of handled) {
    const name = nameOf(event);
    if (name === undefined) continue;
    const row = rows.get(name);
    if (row) row.push(event);
    else rows.set(name, [event]);
  }
  return rows;
}

/** In the order in which they began: each has to begin when all before it have ended. */
function overlaps(what: string, row: readonly Handled[]): string[] {
  const problems: string[] = [];
  let end = -Infinity;
  for (const { key, from, to } of row) {
    if (from < end) problems.push(`${what}: a handler of ${key} began ${(end - from).toFixed(1)} ms before the one before it had ended`);
    end = Math.max(end, to);
  }
  return problems;
}

/** A message that was handled again, as its consumer was killed, is at its place. */
function outOfOrder(group: string, row: readonly Handled[]): string[] {
  let last = 0;
  return row.flatMap(({ sequence }) => {
    if (sequence === undefined) return [];
    const before = last;
    last = sequence;
    return sequence === before || sequence === before + 1 ? [] : [`${group}: ${sequence} was handled after ${before}`];
  });
}
