import { isThenable, waitFor } from "../internal/patience.js";
import { remove } from "./mutator.js";
import type { TargetAdapter } from "./target.js";
import type { UpdateCall } from "./update-call.js";

/** What one mutator made of a draft. */
export type Step<Raw> =
  | { readonly kind: "changed"; readonly raw: Raw; readonly created: boolean }
  | { readonly kind: "removed" }
  /** `raw` is what it left as it was: the initial value, if there is nothing yet and it is to stay so. */
  | { readonly kind: "unchanged"; readonly raw: Raw }
  /** There is nothing to change and no `initial`. */
  | { readonly kind: "missing" }
  | { readonly kind: "failed"; readonly error: unknown }
  /** Too slow for those behind it; `done` resolves when the mutator has ended, whatever its result. */
  | { readonly kind: "aside"; readonly done: Promise<unknown> }
  /** Its caller has gone. */
  | { readonly kind: "gone" };

/** How long others wait for an async mutator, the first time. */
const patienceInMs = 50;

/** Runs one caller's mutator on a private copy of the draft (undefined: the target does not exist). */
export async function applyMutator<T, Raw>(
  adapter: Pick<TargetAdapter<T, Raw>, "decode" | "encode" | "same" | "check">,
  call: UpdateCall<T, Raw>,
  draft: Raw | undefined,
  othersWait: () => boolean,
): Promise<Step<Raw>> {
  const { initial } = call.settings;
  try {
    let start = draft;
    if (start === undefined) {
      if (initial === undefined) return { kind: "missing" };
      start = adapter.encode(typeof initial === "function" ? (initial as () => T)() : initial, undefined);
    }
    const value = adapter.decode(start);
    const running = call.mutator(value, { attempt: call.attempts, abortSignal: call.settings.options.abortSignal });
    let result: T | typeof remove | undefined;
    if (isThenable(running)) {
      const outcome = await waitFor(running, call, othersWait, patienceInMs);
      if (outcome.kind !== "done") return outcome;
      result = outcome.result as typeof result;
    } else result = running as typeof result;
    if (result === remove) return draft === undefined ? { kind: "unchanged", raw: start } : { kind: "removed" };
    const raw = adapter.encode(result === undefined ? value : result, start);
    if (draft !== undefined && adapter.same(draft, raw)) return { kind: "unchanged", raw: draft };
    if (adapter.check) {
      // It may be slow or hang, as a mutator may.
      const outcome = await waitFor(adapter.check(adapter.decode(raw), "write"), call, othersWait, patienceInMs);
      if (outcome.kind !== "done") return outcome;
    }
    return { kind: "changed", raw, created: draft === undefined };
  } catch (error) {
    return { kind: "failed", error };
  }
}
