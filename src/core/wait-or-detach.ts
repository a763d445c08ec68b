interface Waitable {
  readonly settled: boolean;
  readonly tookInMs: number;
  onSettled: (() => void) | undefined;
}

/** Longer than this nobody waits for somebody else's function, however long it takes. */
const maxPatienceInMs = 5_000;

/** How it ended: with a result, or too slow for the others (`done` resolves when it has ended), or without its caller. */
export type Waited<R> =
  | { readonly kind: "done"; readonly result: R }
  | { readonly kind: "aside"; readonly done: Promise<unknown> }
  | { readonly kind: "gone" };

/**
 * Waits for a caller's async function as long as the caller is there and nobody behind it has waited too long: one
 * that hangs must not take down those that merely use the same target. One that was too
 * slow is given the time that it took the next time, within limits, so that it gets through.
 */
export async function waitFor<R>(
  running: PromiseLike<R>,
  call: Waitable,
  othersWait: () => boolean,
  patienceInMs: number,
): Promise<Waited<R>> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const mutated = Promise.resolve(running).then((result) => ({ kind: "done" as const, result }));
  const notify = call.onSettled;
  const impatient = new Promise<"aside" | "gone">((resolve) => {
    const look = (): void => {
      if (othersWait()) resolve("aside");
      else timer = setTimeout(look, patienceInMs);
    };
    timer = setTimeout(look, Math.max(patienceInMs, Math.min(maxPatienceInMs, call.tookInMs * 1.5)));
    call.onSettled = () => {
      resolve("gone");
      notify?.();
    };
    // The function may have cancelled its own call before it returned: nobody will say so again.
    if (call.settled) resolve("gone");
  });
  const first = await Promise.race([mutated, impatient]).finally(() => {
    clearTimeout(timer);
    call.onSettled = notify;
  });
  if (typeof first === "object") return first;
  const done = mutated.catch(() => undefined);
  return first === "aside" ? { kind: "aside", done } : { kind: "gone" };
}

export function isThenable<R>(value: R | PromiseLike<R>): value is PromiseLike<R> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}
