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
