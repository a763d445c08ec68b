import { seededRandom } from "../simulation/time/seeded-random.js";
import type { Random } from "../simulation/time/seeded-random.js";

/** What a hostile getter, trap or function throws: it may come out of a call, as the code of the caller does. */
export class Hostile extends Error {
  override readonly name = "Hostile";
}

const fail = (): never => {
  throw new Hostile("thrown by the value itself");
};

const traps: ProxyHandler<() => void> = Object.fromEntries(["get", "has", "ownKeys", "getOwnPropertyDescriptor", "getPrototypeOf", "apply", "construct", "set"].map((trap) => [trap, fail]));

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

function deep(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { a: value };
  return value;
}

function cyclic(): unknown {
  const value: Record<string, unknown> = {};
  value["self"] = value;
  return value;
}

/** JSON makes `__proto__` a property of its own, as a payload from outside does. */
const polluting = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}';

/** Wrong types, huge values, and values that fight back. Made anew for each case, as a call may keep or change them. */
const values: readonly ((random: Random) => unknown)[] = [
  () => undefined,
  () => null,
  () => NaN,
  () => -1,
  () => 0,
  () => -0,
  () => 0.5,
  () => 1,
  () => 2 ** 31,
  () => 2 ** 53,
  () => Number.MAX_VALUE,
  () => Number.MIN_VALUE,
  () => Infinity,
  () => -Infinity,
  () => 10n ** 30n,
  () => true,
  () => false,
  () => Symbol("s"),
  () => "",
  () => " ",
  () => "0",
  () => "a",
  () => "*",
  () => "__proto__",
  () => "constructor",
  () => "toString",
  () => "../..",
  () => "a/b\\c#d?e%f",
  () => "\u0000\u0007",
  () => "\ud800",
  () => "ä".repeat(600),
  () => "x".repeat(100_000),
  () => "~asc~inbox!x",
  () => "'; or 1 eq 1",
  () => "2030-01-01T00:00:00Z",
  () => "0f8fad5b-d9cb-469f-a165-70867728950e",
  () => "https://other.blob.core.windows.net/c/b?sig=x",
  () => [],
  () => [undefined],
  () => [["create", null]],
  () => new Array<unknown>(5),
  () => ["a", "a"],
  () => Array.from({ length: 2_000 }, (_, i) => `n${i}`),
  () => ({}),
  () => ({ length: 2 ** 32 }),
  () => ({ then: fail }),
  () => ({ then: 5 }),
  () => ({ toString: fail, valueOf: fail, toJSON: fail, [Symbol.toPrimitive]: fail }),
  () => Object.create(null) as unknown,
  () => JSON.parse(polluting) as unknown,
  () => ({ ...(JSON.parse(polluting) as object), partitionKey: "p", rowKey: "r", etag: "*" }),
  () => ({ get a() { return fail(); } }),
  () => Object.freeze({ n: 1 }),
  () => new Proxy(() => undefined, traps),
  revoked,
  cyclic,
  () => deep(100),
  () => deep(20_000),
  () => () => undefined,
  () => fail,
  () => async () => fail(),
  () => () => Promise.resolve(Symbol("s")),
  () => class { readonly n = 1; },
  () => function* () { yield 1; },
  () => new Date(NaN),
  () => new Date(0),
  () => new Map([["a", 1]]),
  () => new Set([1]),
  () => new Uint8Array(0),
  () => new Uint8Array(70_000),
  () => new ArrayBuffer(8),
  () => new Error("an error"),
  () => /x/g,
  () => AbortSignal.abort(),
  () => AbortSignal.abort(new Hostile("the reason of a signal")),
  () => ({ aborted: false }),
  () => new URL("https://example.com"),
  () => globalThis,
];

/** Draws the same cases for a seed. */
export class Draw {
  readonly random: Random;

  constructor(seed: number) {
    this.random = seededRandom(seed);
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  /** A value, and which it is, for the message of a failure. */
  value(): { readonly value: unknown; readonly name: string } {
    const index = this.below(values.length);
    return { value: values[index]?.(this.random), name: `value ${index}: ${String(values[index])}` };
  }

  /** These arguments, of which one to three are replaced, or have options replaced. */
  damage(args: readonly unknown[], optionNames: readonly string[]): { readonly args: unknown[]; readonly changes: readonly string[] } {
    const damaged = [...args];
    const changes: string[] = [];
    const own = new Set(args.keys());
    for (let count = 1 + this.below(3); count > 0; count--) {
      const index = this.below(Math.max(1, args.length));
      const at = damaged[index];
      const { value, name } = this.value();
      const isOptions = own.has(index) && typeof at === "object" && at !== null && Object.getPrototypeOf(at) === Object.prototype;
      if (isOptions && this.random() < 0.8) {
        const names = [...new Set([...Object.keys(at), ...optionNames])];
        const option = names[this.below(names.length)] ?? "unknown";
        const copy = { ...at };
        // As a property of its own, whatever its name is.
        Object.defineProperty(copy, option, { value, enumerable: true, configurable: true, writable: true });
        damaged[index] = copy;
        changes.push(`argument ${index}.${option}: ${name}`);
      } else {
        damaged[index] = value;
        own.delete(index);
        changes.push(`argument ${index}: ${name}`);
      }
    }
    return { args: damaged, changes };
  }
}
