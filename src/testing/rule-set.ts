import { createHash } from "node:crypto";
import { nameOf, stageOf } from "./fault-rule.js";
import type { FaultAction, FaultAnswerHead, FaultRequest, FaultRule } from "./fault-rule.js";

interface ArmedRule {
  readonly rule: FaultRule;
  readonly index: number;
  fired: number;
  draws: number;
}

/** A rule that may still strike when the answer is there. */
interface Candidate {
  readonly armed: ArmedRule;
  /** It has matched already and needs no look at the answer. */
  readonly decided: boolean;
}

/** What the rules say of a request, or of its answer. */
export interface CommitOutcome {
  delayInMs: number;
  action?: FaultAction;
}

export interface RequestVerdict extends CommitOutcome {
  readonly candidates: Candidate[];
}

/** The rules of a proxy, with how often each has struck. */
export class RuleSet {
  readonly rules: readonly FaultRule[];
  readonly #seed: number;
  readonly #armed: readonly ArmedRule[];

  constructor(rules: readonly FaultRule[], seed: number) {
    for (const rule of rules) checkRule(rule);
    this.rules = Object.freeze([...rules]);
    this.#seed = seed;
    this.#armed = this.rules.map((rule, index) => ({ rule, index, fired: 0, draws: 0 }));
  }

  /** The first matching rule wins. Delays add up, and a rule that asks for the answer stays a candidate until then. */
  judgeRequest(request: FaultRequest, onFired: (name: string) => void): RequestVerdict {
    const verdict: RequestVerdict = { delayInMs: 0, candidates: [] };
    for (const armed of this.#armed) {
      const { rule } = armed;
      if (armed.fired >= (rule.times ?? Infinity) || rule.when?.(request) === false) continue;
      if (rule.whenAnswer !== undefined) {
        verdict.candidates.push({ armed, decided: false });
        continue;
      }
      if (!this.#strikes(armed, onFired)) continue;
      if (stageOf(rule.action) === "answer") verdict.candidates.push({ armed, decided: true });
      else this.#apply(armed, verdict);
      if (rule.action.kind !== "delay") break;
    }
    return verdict;
  }

  judgeAnswer(
    candidates: readonly Candidate[],
    answer: FaultAnswerHead,
    request: FaultRequest,
    onFired: (name: string) => void,
  ): CommitOutcome {
    const verdict: CommitOutcome = { delayInMs: 0 };
    for (const { armed, decided } of candidates) {
      const { rule } = armed;
      if (!decided) {
        if (armed.fired >= (rule.times ?? Infinity) || rule.whenAnswer?.(answer, request) === false) continue;
        if (!this.#strikes(armed, onFired)) continue;
      }
      this.#apply(armed, verdict);
      if (verdict.action !== undefined) break;
    }
    return verdict;
  }

  #strikes(armed: ArmedRule, onFired: (name: string) => void): boolean {
    const { probability = 1 } = armed.rule;
    if (probability < 1 && this.#draw(armed) >= probability) return false;
    armed.fired += 1;
    onFired(nameOf(armed.rule));
    return true;
  }

  #apply(armed: ArmedRule, verdict: CommitOutcome): void {
    const { action } = armed.rule;
    if (action.kind !== "delay") verdict.action = action;
    else if (action.minInMs === action.maxInMs) verdict.delayInMs += action.minInMs;
    else verdict.delayInMs += action.minInMs + this.#draw(armed) * (action.maxInMs - action.minInMs);
  }

  /** In [0, 1). Depends on nothing but the seed, the rule's place and how many it has drawn: other rules do not shift it. */
  #draw(armed: ArmedRule): number {
    armed.draws += 1;
    const digest = createHash("sha256").update(`${this.#seed}/${armed.index}/${armed.draws}`).digest();
    return digest.readUInt32BE(0) / 2 ** 32;
  }
}

function checkRule(rule: FaultRule): void {
  const { action, probability = 1, times = Infinity, whenAnswer } = rule;
  const name = nameOf(rule);
  if (!(probability >= 0 && probability <= 1)) throw new RangeError(`fault rule ${name}: probability must be 0 to 1, not ${probability}`);
  if (!(times >= 0)) throw new RangeError(`fault rule ${name}: times must not be negative, but is ${times}`);
  if (action.kind === "answer" && !(Number.isInteger(action.status) && action.status >= 400 && action.status <= 599)) {
    throw new RangeError(`fault rule ${name}: status must be 400 to 599; use rewriteAnswer for others`);
  }
  if (action.kind === "delay" && !(action.minInMs >= 0 && action.maxInMs >= action.minInMs && action.maxInMs < 2 ** 31)) {
    throw new RangeError(`fault rule ${name}: a delay needs 0 <= minInMs <= maxInMs < 2^31`);
  }
  if (whenAnswer !== undefined && stageOf(action) === "request") {
    throw new TypeError(`fault rule ${name}: whenAnswer needs an action that happens at the answer`);
  }
}
