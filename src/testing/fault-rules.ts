import type { AnswerFaultRuleOptions, FaultAnswer, FaultRequest, FaultRule, FaultRuleOptions, FaultStage } from "./fault-rule.js";

/** Options of {@link answerWith}. */
export interface AnswerWithOptions extends AnswerFaultRuleOptions {
  /**
   * `"request"`: the storage never sees the request. `"answer"`: it carries the request out, and the client is told of
   * a failure all the same, as happens when a gateway gives up on a slow backend.
   * @defaultValue "request"
   */
  at?: FaultStage | undefined;

  /**
   * The storage error code, in the `x-ms-error-code` header and the body.
   * @defaultValue the usual one of the status: `ServerBusy` for 503, `InternalError` for 500, ...
   */
  errorCode?: string | undefined;

  /** @defaultValue a sentence that says that the fault proxy made it up */
  message?: string | undefined;

  /**
   * More headers, for example `{ "retry-after": "1" }`.
   * @defaultValue none
   */
  headers?: Readonly<Record<string, string>> | undefined;
}

/** Options of {@link delay} and {@link hang}. */
export interface StagedFaultRuleOptions extends AnswerFaultRuleOptions {
  /**
   * Before the storage sees the request, or after it has answered.
   * @defaultValue "request"
   */
  at?: FaultStage | undefined;
}

const usualErrorCodes: Readonly<Record<number, string>> = {
  403: "AuthorizationFailure",
  404: "ResourceNotFound",
  409: "Conflict",
  412: "ConditionNotMet",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServerBusy",
};

/** The storage carries the request out, and its answer is lost: the client's connection is cut instead. */
export function dropAnswer(options: AnswerFaultRuleOptions = {}): FaultRule {
  return { ...options, action: { kind: "drop-answer" } };
}

/**
 * The connection is cut within the body of the answer: the client gets its head, with the length of the whole, and so
 * many bytes. An answer whose body is not longer than that goes through.
 */
export function cutBody(afterBytes: number, options: AnswerFaultRuleOptions = {}): FaultRule {
  if (!Number.isSafeInteger(afterBytes) || afterBytes < 0) throw new RangeError(`afterBytes must be a whole number, 0 or more; got ${afterBytes}`);
  return { ...options, action: { kind: "cut-body", afterBytes } };
}

/** The request is lost: the client's connection is cut, and the storage never sees the request. */
export function refuse(options: FaultRuleOptions = {}): FaultRule {
  return { ...options, action: { kind: "refuse" } };
}

/** The client gets an error answer of 400 to 599 in the form that Azure Storage gives it. */
export function answerWith(status: number, options: AnswerWithOptions = {}): FaultRule {
  const { at = "request", errorCode, message, headers = {}, ...rule } = options;
  const code = errorCode ?? usualErrorCodes[status] ?? "InjectedFault";
  return {
    ...rule,
    action: { kind: "answer", at, status, errorCode: code, message: message ?? `${code}, made up by the fault proxy.`, headers },
  };
}

/**
 * The request, or its answer, is held back for a fixed or a random time.
 * Delays add up, and the rules below get their turn as well.
 *
 * A delayed request is carried out even if the client has given up meanwhile: that is how a write
 * of a client that was long given up for dead arrives on a real network.
 */
export function delay(
  durationInMs: number | { readonly minInMs: number; readonly maxInMs: number },
  options: StagedFaultRuleOptions = {},
): FaultRule {
  const { at = "request", ...rule } = options;
  const range = typeof durationInMs === "number" ? { minInMs: durationInMs, maxInMs: durationInMs } : durationInMs;
  return { ...rule, action: { kind: "delay", at, ...range } };
}

/** The client never hears anything: the connection stays open until the client or the proxy closes it. */
export function hang(options: StagedFaultRuleOptions = {}): FaultRule {
  const { at = "request", ...rule } = options;
  return { ...rule, action: { kind: "hang", at } };
}

/**
 * The client gets a changed answer. The `content-length` is set anew if the body was replaced; other headers that
 * describe the body, such as `content-md5`, are up to the function.
 */
export function rewriteAnswer(
  rewrite: (answer: FaultAnswer, request: FaultRequest) => FaultAnswer | Promise<FaultAnswer>,
  options: AnswerFaultRuleOptions = {},
): FaultRule {
  return { ...options, action: { kind: "rewrite-answer", rewrite } };
}
