import type { FileAnswer } from "./answer.js";
import type { FileRequest } from "./request.js";
import type { Demand } from "./shared-access-signature.js";
import type { Account } from "./shared-key.js";
import type { FileShareState } from "./state.js";

/** What a route works with. */
export interface RouteContext {
  readonly request: FileRequest;
  readonly state: FileShareState;
  readonly account: Account;
  /** Of the server, for listings. */
  readonly url: string;
}

/** One operation of the service. Runs to its end without a pause, so that no request sees another one half done. */
export interface Operation {
  readonly level: Demand["level"];
  /** May depend on what is there: replacing a file takes more than creating one. */
  readonly permissions: string | ((context: RouteContext) => string);
  readonly run: (context: RouteContext) => FileAnswer;
}
