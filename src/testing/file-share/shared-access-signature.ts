import { checkSasGaps } from "./gaps.js";
import type { FileRequest } from "./request.js";
import { isSignature } from "./shared-key.js";
import type { Account } from "./shared-key.js";
import { StorageFault } from "./storage-fault.js";

/** What an operation requires of a token: one of these permissions (`"cw"`: create or write), on this level. */
export interface Demand {
  readonly level: "service" | "share" | "object";
  readonly permissions: string;
}

const levels = { service: "s", share: "c", object: "o" } as const;

/**
 * Verifies an account SAS, or a service SAS of a share or a file: signature, times, protocol and permissions.
 */
export function verifySas(request: Pick<FileRequest, "query" | "target">, account: Account, demand: Demand, now: number): void {
  const { query } = request;
  checkSasGaps(query);
  const isAccountSas = query.has("ss");
  const signed = isAccountSas ? accountStringToSign(query, account.name) : serviceStringToSign(request, account.name);
  if (!isSignature(query.get("sig") ?? "", signed, account) || !isInTime(query, now)) throw new StorageFault("AuthenticationFailed");
  if (query.get("spr") === "https") throw new StorageFault("AuthorizationProtocolMismatch");

  if (isAccountSas) {
    if (!query.get("ss")?.includes("f")) throw new StorageFault("AuthorizationServiceMismatch");
    if (!query.get("srt")?.includes(levels[demand.level])) throw new StorageFault("AuthorizationResourceTypeMismatch");
  } else if (demand.level !== "object") {
    // A service SAS covers files and directories, not the share that contains them.
    throw new StorageFault("AuthorizationFailure");
  }
  const granted = query.get("sp") ?? "";
  if (!Array.from(demand.permissions).some((permission) => granted.includes(permission))) {
    throw new StorageFault("AuthorizationPermissionMismatch");
  }
}

function isInTime(query: ReadonlyMap<string, string>, now: number): boolean {
  const starts = query.get("st");
  return now < Date.parse(query.get("se") ?? "") && (starts === undefined || now >= Date.parse(starts));
}

function accountStringToSign(query: ReadonlyMap<string, string>, account: string): string {
  const values = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"].map((name) => query.get(name) ?? "");
  const scope = (query.get("sv") ?? "") >= "2020-12-06" ? [query.get("ses") ?? ""] : [];
  return [account, ...values, ...scope, ""].join("\n");
}

function serviceStringToSign({ query, target }: Pick<FileRequest, "query" | "target">, account: string): string {
  const path = query.get("sr") === "f" ? `/${target.path.join("/")}` : "";
  const value = (name: string): string => query.get(name) ?? "";
  return [
    ...["sp", "st", "se"].map(value),
    `/file/${account}/${target.share ?? ""}${path}`,
    ...["si", "sip", "spr", "sv", "rscc", "rscd", "rsce", "rscl", "rsct"].map(value),
  ].join("\n");
}
