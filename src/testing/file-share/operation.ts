import type { FileRequest } from "./request.js";
import type { FileResponse } from "./response.js";
import type { Demand } from "./shared-access-signature.js";
import type { Account } from "./shared-key.js";
import type { FileShareState } from "./state.js";

/** The context of a route. */
export interface RouteContext {
  readonly request: FileRequest;
  readonly state: FileShareState;
  readonly account: Account;
  /** The URL of the server, for listings. */
  readonly url: string;
}

/** One operation of the service. Runs synchronously, so that no request sees another one half done. */
export interface Operation {
  readonly level: Demand["level"];
  /** May depend on what is stored: replacing a file requires more permissions than creating one. */
  readonly permissions: string | ((context: RouteContext) => string);
  readonly run: (context: RouteContext) => FileResponse;
}
