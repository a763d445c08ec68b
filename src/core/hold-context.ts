/** A lease or lock that a function runs under. */
export interface Hold {
  /** The URL of what is leased, without the query: identifies it for all clients of this process. */
  readonly url: string;
  /** Whether it is held at this moment: work that the function started may continue after the release. */
  isHeld(): boolean;
}

interface HeldBy {
  readonly call: string;
  readonly hold: Hold;
}

/** What the functions around the current call hold. Created at first use: a module has no side effects. */
let context: AsyncContext<readonly HeldBy[]> | undefined;

/** Runs the function of a `with…` call. `call` names that call in the error of a nested one. */
export function runHolding<R>(call: string, holds: readonly Hold[], fn: () => R): R {
  context ??= createAsyncContext();
  return context.run([...(context.get() ?? []), ...holds.map((hold) => ({ call, hold }))], fn);
}

/**
 * The function, to be called later with the holds of now: callers that share requests share the code that calls their functions,
 * and the holds of one caller must not be taken for those of another. Free of cost while no function holds anything.
 */
export function withCurrentHolds<A extends readonly unknown[], R>(fn: (...args: A) => R): (...args: A) => R {
  const own = context;
  if (!own) return fn;
  const holds = own.get() ?? [];
  return (...args) => own.run(holds, () => fn(...args));
}

/**
 * Throws if the current call runs inside a function that holds the lease: the call would wait for a release that waits for the
 * call. Detected by async context, so the lease of another caller is never mistaken for that of the enclosing function.
 */
export function rejectNested(call: string, url: string, what: string, advice: string): void {
  const outer = context?.get()?.find(({ hold }) => hold.url === url && hold.isHeld());
  if (!outer) return;
  throw new TypeError(
    `${call} would wait forever: the ${outer.call} around it holds ${what}, and releases it only after ${call} has ended. ` +
      `${advice}, or move ${call} out of the function of ${outer.call}.`,
  );
}

/** A value that follows the asynchronous calls of a function, as far as the platform supports it. */
export interface AsyncContext<T> {
  /** Runs `fn` with this value, which all work that `fn` starts sees as well. */
  run<R>(value: T, fn: () => R): R;
  /** The value of the innermost `run` around the current call; undefined outside, and where the platform has no such context. */
  get(): T | undefined;
}

interface AsyncLocalStorageLike<T> {
  run<R>(value: T, fn: () => R): R;
  getStore(): T | undefined;
}

interface AsyncHooksLike {
  readonly AsyncLocalStorage?: new <T>() => AsyncLocalStorageLike<T>;
}

/**
 * Uses the `AsyncLocalStorage` of the platform. Obtained at run time and without an import: a browser has none, and a bundler for
 * browsers would fail on the import. There, `run` calls the function, and `get` returns undefined.
 */
export function createAsyncContext<T>(): AsyncContext<T> {
  const { process } = globalThis as { process?: { getBuiltinModule?: (id: string) => AsyncHooksLike | undefined } };
  const Storage = process?.getBuiltinModule?.("node:async_hooks")?.AsyncLocalStorage;
  const storage = Storage && new Storage<T>();
  return {
    run: (value, fn) => (storage ? storage.run(value, fn) : fn()),
    get: () => storage?.getStore(),
  };
}
