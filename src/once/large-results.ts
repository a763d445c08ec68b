import type { CallOptions } from "../clients/call.js";
import { fullJitter, retry } from "../core/retry.js";
import { isDefinitive, toConcurrencyError } from "../core/storage-errors.js";
import { errorLabel } from "../core/telemetry.js";
import { maxTextBytes } from "../overflow/stored-text.js";
import type { ReadTextOptions } from "../overflow/stored-text.js";
import type { HeldKey } from "./held-key.js";
import type { RecordPlace } from "./once-record.js";
import type { ResultBlobs } from "./result-blobs.js";
import { damagedResult, isLarge, tooLarge } from "./stored-result.js";
import type { StoredOutcome, ValueOutcome } from "./stored-result.js";

/** How long the result of a function that has run is sent to a container that does not take it. The claim is renewed meanwhile. */
const uploadTimeoutInMs = 60_000;

/** How often a record that refers to a missing blob is read again: it may have been deleted, and written anew, in between. */
const maxRounds = 5;

/** What is found of a key: perhaps an outcome. */
type Found = object & { readonly outcome?: StoredOutcome | undefined };

/** Puts results that do not fit into a record into blobs, if there is a container for them, and gets them back. */
export class LargeResults {
  readonly #blobs: ResultBlobs | undefined;
  readonly #url: string;

  constructor(blobs: ResultBlobs | undefined, url: string) {
    this.#blobs = blobs;
    this.#url = url;
  }

  /**
   * What to record of a function that has run and cannot be undone: in any case something, unless the claim is lost. A container that
   * rejects the result, or does not respond, costs the result, and not a second run.
   */
  async fitHeld(held: HeldKey, place: RecordPlace, outcome: ValueOutcome, call: CallOptions): Promise<StoredOutcome> {
    try {
      return await retry(() => this.#fit(place, outcome, { ...call, abortSignal: held.lost }), {
        maxAttempts: Infinity,
        timeoutInMs: uploadTimeoutInMs,
        shouldRetry: (error) => held.isHeld() && !isDefinitive(error),
        backoff: (attempt) => fullJitter(attempt - 1, 50, 2_000),
        abortSignal: held.lost,
      });
    } catch (error) {
      held.assertHeld();
      return { kind: "unstorable", reason: `the container of the option overflow has not taken it (${errorLabel(error)})` };
    }
  }

  /**
   * What to record of a result: itself, or a reference to its blob, which is written now.
   * @throws `RestError` or a `ConcurrencyError` if the container does not take it.
   */
  async fit(place: RecordPlace, outcome: ValueOutcome, call: CallOptions): Promise<StoredOutcome> {
    try {
      return await this.#fit(place, outcome, call);
    } catch (error) {
      throw toConcurrencyError(error, this.#blobs?.url ?? this.#url);
    }
  }

  async #fit(place: RecordPlace, outcome: ValueOutcome, call: CallOptions): Promise<StoredOutcome> {
    if (!isLarge(outcome)) return outcome;
    const { text } = outcome;
    if (!this.#blobs) return tooLarge(text);
    // A character has 1 to 3 bytes.
    if (text.length * 3 > maxTextBytes && new TextEncoder().encode(text).byteLength > maxTextBytes) {
      return { kind: "unstorable", reason: `it has more than ${maxTextBytes} bytes as JSON` };
    }
    return { kind: "blob", reference: await this.#blobs.upload(place, text, call) };
  }

  /**
   * What `find` finds, with the text of the blob that it refers to. A blob that is missing was deleted with its record since that was read, so
   * the record is read again. If that still refers to it, another program has deleted the blob.
   * @throws {@link SchemaError} if another program has deleted or changed the blob.
   */
  async load<F extends Found>(place: RecordPlace, find: () => Promise<F>, call: ReadTextOptions): Promise<F> {
    let missing: string | undefined;
    for (let round = 1; ; round++) {
      const found = await find();
      const { outcome } = found;
      if (outcome?.kind !== "blob") return found;
      if (!this.#blobs) throw new TypeError(`Once: the result of this key is in a blob: new Once(table, { overflow: container }).`);
      const { reference } = outcome;
      const text = await this.#blobs.load(place, reference, call);
      if (text !== undefined) return { ...found, outcome: { kind: "value", text } };
      const version = `${reference.sha256} ${reference.etag}`;
      if (missing === version || round === maxRounds) throw damagedResult(this.#url, "its blob is missing");
      missing = version;
    }
  }
}
