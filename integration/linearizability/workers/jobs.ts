/** What a process of a run is started with. */
export interface ProcessConfig {
  readonly process: number;
  readonly seed: number;
  /** The URL of the library. */
  readonly library: string;
  /** Through the fault proxies of this process. */
  readonly connectionString: string;
  readonly container: string;
  readonly table: string;
  /** How often the SDK sends a request. Different for each process: the library has to deal with what the SDK does not. */
  readonly maxTries: number;
  /** `"hand-written loop"`: updates are made by a loop on the plain SDK, to prove that the check finds its defects. */
  readonly updatesBy: "library" | "hand-written loop";
}

/** One object for all processes to work on at the same time. */
export interface Round {
  readonly objects: readonly { readonly kind: "blob" | "entity"; readonly name: string }[];
  /** How many callers each process has on each object, and how many calls each of them makes. */
  readonly callers: number;
  readonly calls: number;
}
