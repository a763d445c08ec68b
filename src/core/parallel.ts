/**
 * Runs a function for each item, at most `concurrency` at a time, in the order of the items. An item is taken when there is room for it,
 * so an iterable is read lazily, and at most `concurrency` items ahead. If a run or the iterable fails, no further item is taken, and
 * the call rejects with the first error when the runs in flight have ended: nothing is left behind.
 */
export async function inParallel<T>(
  items: Iterable<T> | AsyncIterable<T>,
  concurrency: number,
  run: (item: T, index: number) => Promise<void>,
): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const state: { count: number; ended: boolean; failure?: { readonly error: unknown } } = { count: 0, ended: false };
  const worker = async (): Promise<void> => {
    try {
      while (!state.failure && !state.ended) {
        // A sync iterator is not awaited: a worker takes the next item at once, and items that need no wait do not delay others.
        const taken = iterator.next();
        const next = "then" in taken ? await taken : taken;
        state.ended ||= next.done ?? false;
        if (next.done) return;
        await run(next.value, state.count++);
      }
    } catch (error) {
      state.failure ??= { error };
    }
  };
  const workers: Promise<void>[] = [];
  while (workers.length < concurrency && !state.ended) workers.push(worker());
  await Promise.all(workers);
  if (!state.failure) return;
  // Closes a generator that was not read to its end. Not awaited: its end changes nothing for the caller.
  if (!state.ended) Promise.resolve().then(() => iterator.return?.()).catch(() => undefined);
  throw state.failure.error;
}
