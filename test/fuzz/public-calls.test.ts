import { readFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { isConcurrencyError } from "../../src/index.js";
import { root } from "../architecture/source.js";
import { expectUnpolluted } from "../security/mutations.js";
import { hashAtOnce } from "../queue/fakes/fake-container.js";
import { World } from "../simulation/storage/world.js";
import { expectNoUnhandledRejections } from "../support/unhandled.js";
import { Draw, Hostile } from "./hostile.js";
import { Env, publicCalls, secret } from "./public-calls.js";

// Every function that an application can call, with wrong types, huge values and values that fight back: a result, or a typed error. Never a
// hang, an unhandled rejection, a changed prototype or a secret in an error. FUZZ_SEED draws other cases, FUZZ_CASES more of them.

expectNoUnhandledRejections();
// The threads of the real hash are slower than the virtual clock.
beforeEach(hashAtOnce);
afterEach(() => void vi.restoreAllMocks());

const { FUZZ_SEED = "1", FUZZ_CASES = "10000" } = process.env;
const names = Object.keys(publicCalls);
const casesOfEach = Math.ceil(Number(FUZZ_CASES) / names.length);
/** On the virtual clock: longer than any default of the library. */
const hangsAfterInMs = 3_600_000;

describe("the list of functions", () => {
  const report = readFileSync(join(root, "docs/api/index.api.md"), "utf8");
  const bodyOf = (declaration: string): string => report.slice(report.indexOf(declaration)).split("\n}")[0] ?? "";
  const methodsOf = (body: string): string[] => [...body.matchAll(/^ {4}([a-z][A-Za-z]*)(?:<.*?>)?\(/gm)].map(([, name]) => name!).filter((name) => name !== "constructor");

  it("has all functions and classes of the API report", () => {
    const functions = [...report.matchAll(/^export function (\w+)/gm)].map(([, name]) => name!);
    const classes = [...report.matchAll(/^export class (\w+).*$/gm)].filter(([line]) => !line.includes("extends ConcurrencyError"));
    const expected = classes.flatMap(([line, name]) => [name!, ...methodsOf(bodyOf(line)).map((method) => `${name}.${method}`)]);
    expect(functions.length).toBeGreaterThan(40);
    expect(expected.length).toBeGreaterThan(100);
    expect([...functions, ...expected].filter((name) => !names.includes(name))).toEqual([]);
  });

  it.each(["Transaction", "FencedPartition", "LockedTable", "LeaseHandle", "PageWriter", "LockSet"])("has all methods of %s, which the library hands out", (name) => {
    const found = new RegExp(`^export interface ${name}\\b.*$`, "m").exec(report)?.[0];
    const methods = methodsOf(bodyOf(found!)).map((method) => `${name}.${method}`);
    expect(methods).not.toEqual([]);
    expect(methods.filter((method) => !names.includes(method))).toEqual([]);
  });
});

/** What a call may end with. */
function isTyped(error: unknown): boolean {
  return error instanceof TypeError || error instanceof RangeError || error instanceof Hostile || isConcurrencyError(error) || (error instanceof Error && ["AbortError", "RestError"].includes(error.name));
}

/** What the engine says of a value that was not checked. A call says what it expects instead. */
const unchecked = /^Cannot (read|set|destructure|convert|mix|use)|is not (a function|iterable|a constructor)$/;
/** Called by a consumer, and not by an application. */
const ofConsumers = ["ClaimInbox.claim", "ClaimInbox.prepare", "CommitInbox.prepare"];

function isUnchecked(error: unknown, changes: readonly string[], name: string): boolean {
  // What cannot be looked at cannot be checked.
  const isBeyond = ofConsumers.includes(name) || changes.some((change) => change.includes("Proxy.revocable"));
  return error instanceof TypeError && unchecked.test(error.message) && !isBeyond;
}

/** The options that a call knows, as the error of an unknown one says. */
async function optionNamesOf(name: string): Promise<string[]> {
  const world = new World(1);
  return world.time.run(async () => {
    const env = new Env(world.newProcess());
    const { args, call } = await publicCalls[name]!(env);
    const options = args.at(-1);
    if (typeof options !== "object" || options === null) return [];
    try {
      await (call as (...given: unknown[]) => unknown)(...args.slice(0, -1), { ...options, unknownOption: 1 });
    } catch (error) {
      return /Known options: ([\w, ]+)\./.exec((error as Error).message)?.[1]?.split(", ") ?? [];
    }
    return [];
  });
}

async function valid(name: string): Promise<unknown> {
  const world = new World(1);
  return world.time.run(async () => {
    const env = new Env(world.newProcess());
    const { args, call } = await publicCalls[name]!(env);
    const result = await settled((call as (...given: unknown[]) => unknown).bind(undefined), args, world);
    await end(env);
    return result;
  });
}

type Settled = { readonly kind: "result" } | { readonly kind: "error"; readonly error: unknown } | { readonly kind: "hang" };

async function settled(call: (...args: unknown[]) => unknown, args: readonly unknown[], world: World): Promise<Settled> {
  const running = (async (): Promise<Settled> => {
    try {
      await call(...args);
      return { kind: "result" };
    } catch (error) {
      return { kind: "error", error };
    }
  })();
  return Promise.race([running, world.time.sleep(hangsAfterInMs).then((): Settled => ({ kind: "hang" }))]);
}

async function end(env: Env): Promise<void> {
  await Promise.all(env.ends.map((one) => Promise.resolve().then(one).catch(() => undefined)));
}

describe("with valid arguments", () => {
  // Otherwise all cases of the call would end at the same check.
  it.each(names)("%s has a result, or a typed error", async (name) => {
    const outcome = (await valid(name)) as Settled;
    if (outcome.kind === "error") expect(isConcurrencyError(outcome.error) || (outcome.error as Error).name === "RestError", inspect(outcome.error)).toBe(true);
    else expect(outcome.kind).toBe("result");
  });
});

describe(`of ${casesOfEach} damaged calls each`, () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  beforeEach(() => process.on("unhandledRejection", note));
  afterEach(() => void process.off("unhandledRejection", note));

  it.each(names)("%s has a result, or a typed error", async (name) => {
    const draw = new Draw(Number(FUZZ_SEED) * 1_000 + names.indexOf(name));
    const optionNames = await optionNamesOf(name);
    for (let number = 0; number < casesOfEach; number++) {
      const world = new World(number);
      let what = "";
      await world.time.run(async () => {
        const env = new Env(world.newProcess());
        const { args, call } = await publicCalls[name]!(env);
        const { args: damaged, changes } = draw.damage(args, optionNames);
        const outcome = await settled(call as (...given: unknown[]) => unknown, damaged, world);
        what = `${name}, case ${number}: ${changes.join("; ")}`;
        expect(outcome.kind, what).not.toBe("hang");
        if (outcome.kind === "error") {
          const { error } = outcome;
          expect(isTyped(error) && !isUnchecked(error, changes, name), `${what}: ${inspect(error)}`).toBe(true);
          expect(`${(error as Error).message} ${inspect(error, { depth: 4, showHidden: true })}`, what).not.toContain(secret);
        }
        await end(env);
        expectUnpolluted();
      });
      // They are reported when the microtasks are done.
      await new Promise((resolve) => setImmediate(resolve));
      expect(unhandled.splice(0), what).toEqual([]);
    }
  });
});
