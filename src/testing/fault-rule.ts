

/** A request as the fault proxy sees it. */
export interface FaultRequest {
  /** In upper case. */
  readonly method: string;
  /** Path and query as they were sent. */
  readonly url: string;
  /** As it was sent, without the query; with Azurite it starts with the account: `/devstoreaccount1/container/blob`. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
}

/** The head of the storage's answer. */
export interface FaultAnswerHead {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
}

/** The whole of the storage's answer. */
export interface FaultAnswer extends FaultAnswerHead {
  readonly body: Buffer;
}

/** Says which requests a rule is for. Also accepted by `FaultProxy.count` and `FaultProxy.waitFor`. */
export type FaultPredicate = (request: FaultRequest) => boolean;

/**
 * Where a fault happens: `"request"`, before the storage has seen the request, or `"answer"`, after it has answered
 * and so has committed what was asked of it, but before the client hears of it.
 */
export type FaultStage = "request" | "answer";

/** What happens to a request. Made by the functions `dropAnswer`, `cutBody`, `refuse`, `answerWith`, `delay`, `hang`, `rewriteAnswer`. */
export type FaultAction =
  | { readonly kind: "drop-answer" }
  | { readonly kind: "refuse" }
  | { readonly kind: "cut-body"; readonly afterBytes: number }
  | {
      readonly kind: "answer";
      readonly at: FaultStage;
      readonly status: number;
      readonly errorCode: string;
      readonly message: string;
      readonly headers: Readonly<Record<string, string>>;
    }
  | { readonly kind: "delay"; readonly at: FaultStage; readonly minInMs: number; readonly maxInMs: number }
  | { readonly kind: "hang"; readonly at: FaultStage }
  | {
      readonly kind: "rewrite-answer";
      readonly rewrite: (answer: FaultAnswer, request: FaultRequest) => FaultAnswer | Promise<FaultAnswer>;
    };

/** Which requests a rule is for, and how often it strikes. */
export interface FaultRuleOptions {
  /**
   * Under which the rule is counted and logged. Rules of the same name are counted together.
   * @defaultValue the kind of the action, with the status if it has one: `"drop-answer"`, `"answer-503"`
   */
  name?: string | undefined;

  /**
   * Which requests the rule is for.
   * @defaultValue all
   */
  when?: FaultPredicate | undefined;

  /**
   * The share of the matching requests that are struck, 0 to 1. Drawn from the proxy's seed.
   * @defaultValue 1
   */
  probability?: number | undefined;

  /**
   * How many times the rule strikes before it is spent. Setting the proxy's rules arms it again.
   * @defaultValue Infinity
   */
  times?: number | undefined;
}

/** Options of the rules that act once the storage has answered. */
export interface AnswerFaultRuleOptions extends FaultRuleOptions {
  /**
   * Which answers the rule is for, for example only `({ status }) => status < 300`.
   * The rules below get their turn if it says no.
   * @defaultValue all
   */
  whenAnswer?: ((answer: FaultAnswerHead, request: FaultRequest) => boolean) | undefined;
}

/** One rule of a fault proxy. */
export interface FaultRule extends AnswerFaultRuleOptions {
  readonly action: FaultAction;
}

/** The stage at which an action takes effect. */
export function stageOf(action: FaultAction): FaultStage {
  switch (action.kind) {
    case "refuse":
      return "request";
    case "drop-answer":
    case "cut-body":
    case "rewrite-answer":
      return "answer";
    default:
      return action.at;
  }
}

/** The name under which a rule is counted. */
export function nameOf(rule: FaultRule): string {
  return rule.name ?? (rule.action.kind === "answer" ? `answer-${rule.action.status}` : rule.action.kind);
}

const writeMethods: ReadonlySet<string> = new Set(["PUT", "POST", "MERGE", "PATCH", "DELETE"]);

/** PUT, POST, MERGE, PATCH and DELETE. Entity group transactions are among them, lease operations too. */
export function isWrite(request: Pick<FaultRequest, "method">): boolean {
  return writeMethods.has(request.method);
}

/** GET and HEAD. Receiving queue messages is a GET, although it hides them. */
export function isRead(request: Pick<FaultRequest, "method">): boolean {
  return request.method === "GET" || request.method === "HEAD";
}

/** Batches: `submitTransaction` of a table client, and blob batches. */
export function isBatch(request: FaultRequest): boolean {
  return request.path.endsWith("/$batch") || request.query.get("comp") === "batch";
}

/** Lease operations, of one kind or of any. */
export function isLease(action?: "acquire" | "renew" | "change" | "release" | "break"): FaultPredicate {
  return (request) =>
    request.query.get("comp") === "lease" && (action === undefined || request.headers["x-ms-lease-action"] === action);
}

/** Requests that all of the predicates accept. */
export function allOf(...predicates: readonly FaultPredicate[]): FaultPredicate {
  return (request) => predicates.every((accepts) => accepts(request));
}
