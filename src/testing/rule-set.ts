import { createHash } from "node:crypto";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { nameOf, stageOf } from "./fault-rule.js";
import type { FaultAction, FaultResponseHead, FaultRequest, FaultRule } from "./fault-rule.js";

interface RuleState {
  readonly rule: FaultRule;
  readonly index: number;
  fired: number;
  draws: number;
}

/** A rule that may still fire when the response has arrived. */
interface Candidate {
  readonly state: RuleState;
  /** It has fired already, and does not depend on the response. */
  readonly decided: boolean;
}

/** What the rules decide about a request, or about its response. */
export interface RuleDecision {
  delayInMs: number;
  action?: FaultAction;
}

export interface RequestDecision extends RuleDecision {
  readonly candidates: Candidate[];
}

/** The rules of a proxy, with how often each has fired. */
export class RuleSet {
  readonly rules: readonly FaultRule[];
  readonly #seed: number;
  readonly #states: readonly RuleState[];

  constructor(rules: readonly FaultRule[], seed: number) {
    for (const rule of rules) checkRule(rule);
    this.rules = Object.freeze([...rules]);
    this.#seed = seed;
    this.#states = this.rules.map((rule, index) => ({ rule, index, fired: 0, draws: 0 }));
  }

  /** The first matching rule applies. Delays add up, and a rule that depends on the response stays a candidate until then. */
  decideRequest(request: FaultRequest, onFired: (name: string) => void): RequestDecision {
    const decision: RequestDecision = { delayInMs: 0, candidates: [] };
    for (const state of this.#states) {
      const { rule } = state;
      if (state.fired >= (rule.times ?? Infinity) || rule.when?.(request) === false) continue;
      if (rule.whenResponse !== undefined) {
        decision.candidates.push({ state, decided: false });
        continue;
      }
      if (!this.#fires(state, onFired)) continue;
      if (stageOf(rule.action) === "response") decision.candidates.push({ state, decided: true });
      else this.#apply(state, decision);
      if (rule.action.kind !== "delay") break;
    }
    return decision;
  }

  decideResponse(
    candidates: readonly Candidate[],
    response: FaultResponseHead,
    request: FaultRequest,
    onFired: (name: string) => void,
  ): RuleDecision {
    const decision: RuleDecision = { delayInMs: 0 };
    for (const { state, decided } of candidates) {
      const { rule } = state;
      if (!decided) {
        if (state.fired >= (rule.times ?? Infinity) || rule.whenResponse?.(response, request) === false) continue;
        if (!this.#fires(state, onFired)) continue;
      }
      this.#apply(state, decision);
      if (decision.action !== undefined) break;
    }
    return decision;
  }

  #fires(state: RuleState, onFired: (name: string) => void): boolean {
    const { probability = 1 } = state.rule;
    if (probability < 1 && this.#draw(state) >= probability) return false;
    state.fired += 1;
    onFired(nameOf(state.rule));
    return true;
  }

  #apply(state: RuleState, decision: RuleDecision): void {
    const { action } = state.rule;
    if (action.kind !== "delay") decision.action = action;
    else if (action.minInMs === action.maxInMs) decision.delayInMs += action.minInMs;
    else decision.delayInMs += action.minInMs + this.#draw(state) * (action.maxInMs - action.minInMs);
  }

  /** In [0, 1). Depends only on the seed, the index of the rule and how many numbers it has drawn: other rules do not shift it. */
  #draw(state: RuleState): number {
    state.draws += 1;
    const digest = createHash("sha256").update(`${this.#seed}/${state.index}/${state.draws}`).digest();
    return digest.readUInt32BE(0) / 2 ** 32;
  }
}

const ruleNames: OptionNames<FaultRule> = { name: 1, when: 1, probability: 1, times: 1, whenResponse: 1, action: 1 };

/** The members of each kind of action. A misspelt kind would otherwise act as another one. */
const actionNames: { readonly [K in FaultAction["kind"]]: OptionNames<Extract<FaultAction, { kind: K }>> } = {
  "drop-response": { kind: 1 },
  "drop-request": { kind: 1 },
  "cut-body": { kind: 1, afterBytes: 1 },
  respond: { kind: 1, at: 1, status: 1, errorCode: 1, message: 1, headers: 1 },
  delay: { kind: 1, at: 1, minInMs: 1, maxInMs: 1 },
  hang: { kind: 1, at: 1 },
  "rewrite-response": { kind: 1, rewrite: 1 },
};

function checkAction(action: FaultAction | undefined): void {
  const kind = action?.kind;
  if (action === undefined || kind === undefined || !Object.hasOwn(actionNames, kind)) {
    throw new TypeError(`fault rule: unknown action ${String(kind)}; there are ${Object.keys(actionNames).join(", ")}`);
  }
  checkOptions(`fault rule ${kind}`, action, actionNames[kind]);
  const at: unknown = "at" in action ? action.at : "request";
  if (at !== "request" && at !== "response") throw new TypeError(`fault rule ${kind}: at must be "request" or "response"`);
}

function checkRule(rule: FaultRule): void {
  checkOptions("fault rule", rule, ruleNames);
  checkAction(rule.action);
  const { action, probability = 1, times = Infinity, whenResponse } = rule;
  const name = nameOf(rule);
  if (!(probability >= 0 && probability <= 1)) throw new RangeError(`fault rule ${name}: probability must be 0 to 1, not ${probability}`);
  if (!(times >= 0)) throw new RangeError(`fault rule ${name}: times must not be negative, but is ${times}`);
  if (action.kind === "respond" && !(Number.isInteger(action.status) && action.status >= 400 && action.status <= 599)) {
    throw new RangeError(`fault rule ${name}: status must be 400 to 599; use rewriteResponse for others`);
  }
  if (action.kind === "delay" && !(action.minInMs >= 0 && action.maxInMs >= action.minInMs && action.maxInMs < 2 ** 31)) {
    throw new RangeError(`fault rule ${name}: a delay needs 0 <= minInMs <= maxInMs < 2^31`);
  }
  if (whenResponse !== undefined && stageOf(action) === "request") {
    throw new TypeError(`fault rule ${name}: whenResponse needs an action that happens at the response`);
  }
}
