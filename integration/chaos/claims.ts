/** Time that all processes of a machine agree on, in milliseconds. A stopped process misses nothing of it. */
export function machineTime(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}

/** A holder was certain to hold something, from the first to the last of these moments. */
export interface Claim {
  readonly resource: string;
  readonly epoch: number;
  readonly first: number;
  readonly last: number;
}

/**
 * Claims it as long as the guard agrees, and reports every change. The time is taken *before* the guard is asked: if
 * the process is stopped in between, the guard answers for a later time, and an outdated claim is never made.
 */
export async function claimWhileHeld(
  resource: string,
  epoch: number,
  assertHeld: () => void,
  report: (claim: Claim) => void,
  until: () => Promise<boolean>,
): Promise<void> {
  let claim: Claim | undefined;
  let reported = 0;
  const claimNow = (): Claim => {
    const now = machineTime();
    assertHeld();
    return { resource, epoch, first: claim?.first ?? now, last: now };
  };
  do {
    claim = claimNow();
    if (claim.last - reported > 50) {
      report(claim);
      reported = claim.last;
    }
  } while (!(await until()));
  // Once more at the end, however long the last look was ago.
  report(claimNow());
}

/** The longest claim of each epoch of each resource. */
export function mergeClaims(claims: readonly Claim[]): Map<string, Claim[]> {
  const merged = new Map<string, Claim>();
  for (const claim of claims) {
    const key = JSON.stringify([claim.resource, claim.epoch, claim.first]);
    const known = merged.get(key);
    if (!known || known.last < claim.last) merged.set(key, claim);
  }
  const byResource = new Map<string, Claim[]>();
  for (const claim of [...merged.values()].sort((a, b) => a.first - b.first)) {
    const ordered = byResource.get(claim.resource);
    if (ordered) ordered.push(claim);
    else byResource.set(claim.resource, [claim]);
  }
  return byResource;
}

/** More than `limit` at the same time, or, if only one may hold it, epochs that do not increase. */
export function overlapsOf(claims: readonly Claim[], limit: number): string[] {
  const problems: string[] = [];
  for (const [resource, ordered] of mergeClaims(claims)) {
    for (const claim of ordered) {
      const also = ordered.filter((other) => other !== claim && other.first <= claim.first && other.last > claim.first);
      if (also.length >= limit) {
        const over = also.map((other) => `epoch ${other.epoch} still ${(other.last - claim.first).toFixed(1)} ms later`).join(", ");
        problems.push(`${resource}: held by epoch ${claim.epoch}, and by ${over}`);
      }
    }
    if (limit > 1) continue;
    for (const [i, claim] of ordered.entries()) {
      const before = ordered[i - 1];
      if (before && before.epoch >= claim.epoch) problems.push(`${resource}: epoch ${claim.epoch} came after ${before.epoch}`);
    }
  }
  return problems;
}
