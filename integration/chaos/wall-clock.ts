const Right = Date;

/** The wall clock of the machine, which is also that of the service, whatever `Date` shows. */
export function wallTime(): number {
  return Right.now();
}

/**
 * Makes the wall clock of this process wrong: `Date` shows the time of the machine and an offset, as if it had been set. The monotonic clock
 * is left alone. Returns a function that sets it again, forward or backward.
 */
export function useWrongWallClock(offsetInMs: number): (byMs: number) => void {
  let offset = offsetInMs;
  const now = (): number => wallTime() + offset;
  globalThis.Date = new Proxy(Right, {
    construct: (target, args: unknown[], newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as object,
    apply: () => new Right(now()).toString(),
    get: (target, property, receiver) => (property === "now" ? now : (Reflect.get(target, property, receiver) as unknown)),
  });
  return (byMs) => {
    offset += byMs;
  };
}
