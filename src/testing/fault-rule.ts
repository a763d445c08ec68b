/** A request as the fault proxy receives it. */
export interface FaultRequest {
  /** In upper case. */
  readonly method: string;
  /** Path and query as they were sent. */
  readonly url: string;
  /** As it was sent, without the query. With Azurite it starts with the account: `/devstoreaccount1/container/blob`. */
  readonly path: string;
  /** The query of `url`, parsed. */
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
}

/** The head of the service's response. */
export interface FaultResponseHead {
  /** The HTTP status. */
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
}

/** The service's response with its body. */
export interface FaultResponse extends FaultResponseHead {
  /** The whole body, as it was sent. */
  readonly body: Buffer;
}

/** Decides to which requests a rule applies. Also accepted by `FaultProxy.count` and `FaultProxy.waitFor`. */
export type FaultPredicate = (request: FaultRequest) => boolean;

/**
 * When a fault happens: `"request"`, before the service receives the request, or `"response"`, after the service has responded and
 * so has committed the request, but before the client receives the response.
 */
export type FaultStage = "request" | "response";

/** What happens to a request. Created by the functions `dropResponse`, `cutBody`, `dropRequest`, `respondWith`, `delay`, `hang`, `rewriteResponse`. */
export type FaultAction =
  | { readonly kind: "drop-response" }
  | { readonly kind: "drop-request" }
  | { readonly kind: "cut-body"; readonly afterBytes: number }
  | {
      readonly kind: "respond";
      readonly at: FaultStage;
      readonly status: number;
      readonly errorCode: string;
      readonly message: string;
      readonly headers: Readonly<Record<string, string>>;
    }
  | { readonly kind: "delay"; readonly at: FaultStage; readonly minInMs: number; readonly maxInMs: number }
  | { readonly kind: "hang"; readonly at: FaultStage }
  | {
      readonly kind: "rewrite-response";
      readonly rewrite: (response: FaultResponse, request: FaultRequest) => FaultResponse | Promise<FaultResponse>;
    };

/** To which requests a rule applies, and how often it fires. */
export interface FaultRuleOptions {
  /**
   * The name under which the rule is counted and logged. Rules with the same name are counted together.
   * @defaultValue the kind of the action, with the status if it has one: `"drop-response"`, `"status-503"`
   */
  name?: string | undefined;

  /**
   * To which requests the rule applies.
   * @defaultValue all
   */
  when?: FaultPredicate | undefined;

  /**
   * The probability with which the rule fires for a matching request, 0 to 1. Drawn from the proxy's seed.
   * @defaultValue 1
   */
  probability?: number | undefined;

  /**
   * How many times the rule fires at most. Setting the proxy's rules resets it.
   * @defaultValue Infinity
   */
  times?: number | undefined;
}

/** Options of the rules that act once the service has responded. */
export interface ResponseFaultRuleOptions extends FaultRuleOptions {
  /**
   * To which responses the rule applies, for example only `({ status }) => status < 300`. If it returns false, the rules below
   * are tried.
   * @defaultValue all
   */
  whenResponse?: ((response: FaultResponseHead, request: FaultRequest) => boolean) | undefined;
}

/** One rule of a fault proxy. */
export interface FaultRule extends ResponseFaultRuleOptions {
  /** What happens to a request when the rule fires. */
  readonly action: FaultAction;
}

/** The stage at which an action takes effect. */
export function stageOf(action: FaultAction): FaultStage {
  switch (action.kind) {
    case "drop-request":
      return "request";
    case "drop-response":
    case "cut-body":
    case "rewrite-response":
      return "response";
    default:
      return action.at;
  }
}

/** The name under which a rule is counted. */
export function nameOf(rule: FaultRule): string {
  return rule.name ?? (rule.action.kind === "respond" ? `status-${rule.action.status}` : rule.action.kind);
}

const writeMethods: ReadonlySet<string> = new Set(["PUT", "POST", "MERGE", "PATCH", "DELETE"]);

/** PUT, POST, MERGE, PATCH and DELETE, including entity group transactions and lease operations. */
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
