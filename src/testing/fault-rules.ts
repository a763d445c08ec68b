import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { ResponseFaultRuleOptions, FaultResponse, FaultRequest, FaultRule, FaultRuleOptions, FaultStage } from "./fault-rule.js";

/** Options of {@link respondWith}. */
export interface RespondWithOptions extends ResponseFaultRuleOptions {
  /**
   * `"request"`: the service never receives the request. `"response"`: the service commits the request, and the client receives an
   * error nevertheless, as happens when a gateway times out on a slow backend.
   * @defaultValue "request"
   */
  at?: FaultStage | undefined;

  /**
   * The storage error code, in the `x-ms-error-code` header and the body.
   * @defaultValue the usual one of the status: `ServerBusy` for 503, `InternalError` for 500, ...
   */
  errorCode?: string | undefined;

  /**
   * The message of the error, in the body.
   * @defaultValue a sentence that says that the fault proxy made it up
   */
  message?: string | undefined;

  /**
   * Additional headers, for example `{ "retry-after": "1" }`.
   * @defaultValue none
   */
  headers?: Readonly<Record<string, string>> | undefined;
}

/** Options of {@link delay} and {@link hang}. */
export interface StagedFaultRuleOptions extends ResponseFaultRuleOptions {
  /**
   * Before the service receives the request, or after it has responded.
   * @defaultValue "request"
   */
  at?: FaultStage | undefined;
}

const requestNames: OptionNames<FaultRuleOptions> = { name: 1, when: 1, probability: 1, times: 1 };
const responseNames: OptionNames<ResponseFaultRuleOptions> = { name: 1, when: 1, probability: 1, times: 1, whenResponse: 1 };
const stagedNames: OptionNames<StagedFaultRuleOptions> = { name: 1, when: 1, probability: 1, times: 1, whenResponse: 1, at: 1 };
const respondNames: OptionNames<RespondWithOptions> = {
  name: 1,
  when: 1,
  probability: 1,
  times: 1,
  whenResponse: 1,
  at: 1,
  errorCode: 1,
  message: 1,
  headers: 1,
};

const usualErrorCodes: Readonly<Record<number, string>> = {
  403: "AuthorizationFailure",
  404: "ResourceNotFound",
  409: "Conflict",
  412: "ConditionNotMet",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServerBusy",
};

/**
 * The service commits the request, and its response is lost: the client's connection is cut instead.
 * @throws `TypeError` for an unknown option.
 */
export function dropResponse(options: ResponseFaultRuleOptions = {}): FaultRule {
  checkOptions("dropResponse", options, responseNames);
  return { ...options, action: { kind: "drop-response" } };
}

/**
 * The connection is cut within the body of the response: the client receives the head, with the length of the whole body, and
 * `afterBytes` bytes. A response whose body is not longer than that is forwarded unchanged.
 * @throws `RangeError` if `afterBytes` is not a whole number, 0 or more.
 */
export function cutBody(afterBytes: number, options: ResponseFaultRuleOptions = {}): FaultRule {
  checkOptions("cutBody", options, responseNames);
  if (!Number.isSafeInteger(afterBytes) || afterBytes < 0) throw new RangeError(`afterBytes must be a whole number, 0 or more; got ${afterBytes}`);
  return { ...options, action: { kind: "cut-body", afterBytes } };
}

/**
 * The request is lost: the client's connection is cut, and the service never receives the request.
 * @throws `TypeError` for an unknown option.
 */
export function dropRequest(options: FaultRuleOptions = {}): FaultRule {
  checkOptions("dropRequest", options, requestNames);
  return { ...options, action: { kind: "drop-request" } };
}

/**
 * The client receives an error response, 400 to 599, in the format of Azure Storage.
 * @throws `TypeError` for an unknown option.
 */
export function respondWith(status: number, options: RespondWithOptions = {}): FaultRule {
  checkOptions("respondWith", options, respondNames);
  const { at = "request", errorCode, message, headers = {}, ...rule } = options;
  const code = errorCode ?? usualErrorCodes[status] ?? "InjectedFault";
  return {
    ...rule,
    action: { kind: "respond", at, status, errorCode: code, message: message ?? `${code}, made up by the fault proxy.`, headers },
  };
}

/**
 * The request, or its response, is delayed for a fixed or a random time. Delays add up, and the rules below are tried as well.
 *
 * A delayed request is carried out even if the client has given up in the meantime: that is how a late write of a client that is
 * considered dead arrives on a real network.
 * @throws `TypeError` for an unknown option.
 */
export function delay(
  durationInMs: number | { readonly minInMs: number; readonly maxInMs: number },
  options: StagedFaultRuleOptions = {},
): FaultRule {
  checkOptions("delay", options, stagedNames);
  const { at = "request", ...rule } = options;
  const range = typeof durationInMs === "number" ? { minInMs: durationInMs, maxInMs: durationInMs } : durationInMs;
  return { ...rule, action: { kind: "delay", at, ...range } };
}

/**
 * The client never receives a response: the connection stays open until the client or the proxy closes it.
 * @throws `TypeError` for an unknown option.
 */
export function hang(options: StagedFaultRuleOptions = {}): FaultRule {
  checkOptions("hang", options, stagedNames);
  const { at = "request", ...rule } = options;
  return { ...rule, action: { kind: "hang", at } };
}

/**
 * The client receives a changed response. The `content-length` is set again if the body was replaced; other headers that describe
 * the body, such as `content-md5`, are up to the function.
 * @throws `TypeError` for an unknown option.
 */
export function rewriteResponse(
  rewrite: (response: FaultResponse, request: FaultRequest) => FaultResponse | Promise<FaultResponse>,
  options: ResponseFaultRuleOptions = {},
): FaultRule {
  checkOptions("rewriteResponse", options, responseNames);
  return { ...options, action: { kind: "rewrite-response", rewrite } };
}
