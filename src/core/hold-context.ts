import { isThenable } from "./pending-call.js";
import type { RunInContext } from "./pending-call.js";

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

interface ContextValue {
  readonly holds: readonly HeldBy[];
  readonly updates: readonly Running[];
}

/** What the functions around the current call hold and update. Created at first use: a module has no side effects. */
let context: AsyncContext<ContextValue> | undefined;

/** Runs the function of a `with…` call, or of an update under a lease. `call` names that call in the error of a nested one. */
export function runHolding<R>(call: string, holds: readonly Hold[], fn: () => R, update?: Running): R {
  context ??= createAsyncContext();
  const outer = context.get();
  const all = [...(outer?.holds ?? []), ...holds.map((hold) => ({ call, hold }))];
  return context.run({ holds: all, updates: [...(outer?.updates ?? []), ...(update ? [update] : [])] }, fn);
}

/** Whether the current call is made inside the function that runs under this hold. Where there is no async context, it is not known: false. */
export function isInside(hold: Hold): boolean {
  return context?.get()?.holds.some((held) => held.hold === hold) ?? false;
}

/** An update whose function runs. */
export interface Running {
  /** The call, as its error messages name it. */
  readonly call: string;
  /** The URL of what it updates. */
  readonly url: string;
  /** If that is an entity: the URL of its partition. */
  readonly partition?: string | undefined;
  /** Whether the call has ended: work that its function started may continue after that. */
  isSettled(): boolean;
}

/** The update whose function runs at this moment, up to its first `await`: known on every platform, and without cost. */
let running: readonly Running[] = [];

/**
 * The function of an update, to be called later with the holds of now, and in the async context of now: callers that share requests share
 * the code that calls their functions, and neither the holds nor the user of one caller must be taken for those of another. An update of
 * the same target inside the function is recognised by {@link rejectNestedUpdate}.
 *
 * A function that is not `async` costs nothing while no function holds anything: the async context of Node before 24 makes all promises of
 * the process three times slower. If such a function returns a promise, it gets a context from its next run on: an update inside it that was
 * not recognised makes it run again.
 */
export function withCurrentHolds<A extends readonly unknown[], R>(fn: (...args: A) => R, update: Running): (...args: A) => R {
  const holds = context?.get();
  const inside: ContextValue = { holds: holds?.holds ?? [], updates: [...(holds?.updates ?? []), update] };
  const inContext = captureContext();
  const call = (args: A): R => {
    const before = running;
    running = inside.updates;
    try {
      if (isAsyncFunction(fn) || hasFastContext()) context ??= createAsyncContext();
      if (context) return context.run(inside, () => fn(...args));
      const result = fn(...args);
      if (isThenable(result)) context = createAsyncContext();
      return result;
    } finally {
      running = before;
    }
  };
  return (...args) => inContext(() => call(args));
}

/** From Node 24 on, the engine itself keeps the context. */
function hasFastContext(): boolean {
  const { process } = globalThis as { process?: { versions?: { node?: string } } };
  return Number.parseInt(process?.versions?.node ?? "0", 10) >= 24;
}

function isAsyncFunction(fn: unknown): boolean {
  return Object.prototype.toString.call(fn) === "[object AsyncFunction]";
}

/**
 * Throws if the current call runs inside the function of an update of the same target: it would be committed, the outer update would
 * conflict with it and run its function again, and so on until its time is over. The same for an entity and a transaction on its partition,
 * which may read or write it.
 *
 * @param partition - If the target is an entity: the URL of its partition.
 */
export function rejectNestedUpdate(call: string, url: string, partition?: string): void {
  const updates = running.length > 0 ? running : (context?.get()?.updates ?? []);
  const relationTo = (update: Running): string | undefined => {
    if (update.url === url) return "the same target";
    if (update.url === partition) return "its partition";
    return update.partition === url ? "one of its entities" : undefined;
  };
  const outer = updates.find((update) => !update.isSettled() && relationTo(update) !== undefined);
  if (!outer) return;
  throw new TypeError(
    `${call} of ${url} inside the function of ${outer.call} of ${relationTo(outer)}: each would conflict with the other. ` +
      `Make the change in the function of ${outer.call}, or call ${call} after it has ended.`,
  );
}

/**
 * Throws if the current call runs inside a function that holds the lease: the call would wait for a release that waits for the
 * call. Detected by async context, so the lease of another caller is never mistaken for that of the enclosing function.
 */
export function rejectNested(call: string, url: string, what: string, advice: string): void {
  const outer = context?.get()?.holds.find(({ hold }) => hold.url === url && hold.isHeld());
  if (!outer) return;
  throw new TypeError(
    `${call} would wait forever: the ${outer.call} around it holds ${what}, and releases it only after ${call} has ended. ` +
      `${advice}, or move ${call} out of the function of ${outer.call}.`,
  );
}

/**
 * As {@link rejectNested}, for a call that needs any one of several leases: throws if the functions around it hold all of them.
 * `indexOf`: which of them has this URL; undefined if none has.
 */
export function rejectNestedInAll(call: string, count: number, indexOf: (url: string) => number | undefined, what: string): void {
  const around = new Map<number, string>();
  for (const { call: outer, hold } of context?.get()?.holds ?? []) {
    const index = indexOf(hold.url);
    if (index !== undefined && index < count && hold.isHeld()) around.set(index, outer);
  }
  if (around.size < count) return;
  const [outer] = around.values();
  throw new TypeError(`${call} would wait forever: the ${outer} around it holds ${what}, and releases it only after ${call} has ended. Move ${call} out of the function of ${outer}.`);
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
  readonly AsyncResource?: new (type: string, options: { requireManualDestroy: boolean }) => { runInAsyncScope: RunInContext };
}

/** Obtained at run time and without an import: a browser has none, and a bundler for browsers would fail on the import. */
function asyncHooks(): AsyncHooksLike | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?: (id: string) => AsyncHooksLike | undefined } };
  return process?.getBuiltinModule?.("node:async_hooks");
}

/**
 * Runs functions later in the async context of now: what the application has in an `AsyncLocalStorage`, a user for example. An
 * `AsyncResource` and not a snapshot, which takes 10 µs in Node 20; this takes 30 ns. Without such a context: in that of the caller.
 */
export function captureContext(): RunInContext {
  const Resource = asyncHooks()?.AsyncResource;
  if (!Resource) return (fn) => fn();
  const resource = new Resource("azure-storage-concurrency", { requireManualDestroy: true });
  return (fn) => resource.runInAsyncScope(fn);
}

/** Uses the `AsyncLocalStorage` of the platform. Where it has none, `run` calls the function, and `get` returns undefined. */
export function createAsyncContext<T>(): AsyncContext<T> {
  const Storage = asyncHooks()?.AsyncLocalStorage;
  const storage = Storage && new Storage<T>();
  return {
    run: (value, fn) => (storage ? storage.run(value, fn) : fn()),
    get: () => storage?.getStore(),
  };
}
