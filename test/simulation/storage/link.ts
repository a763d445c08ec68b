import { FakeService } from "../../fakes/fake-service.js";
import type { RequestRecord } from "../../fakes/fake-service.js";
import { connectionReset } from "../../fakes/faults.js";
import type { VirtualTimer } from "../time/timer-heap.js";
import type { Backend } from "./backend.js";
import type { Resources } from "./resources.js";
import { calm, drawFate } from "./network-conditions.js";
import type { NetworkConditions } from "./network-conditions.js";

/** A straggler is on its way for up to so long. */
const maxStragglingInMs = 60_000;

type Call = Pick<RequestRecord, "operation" | "kind" | "resource" | "client">;
type ErrorOf = (status: number, code: string) => Error;

/**
 * The way from one process to one service. It takes time, things get lost on it, and the client at its end sends again
 * by itself, as the SDK does: one `abort` listener for each send and one for each wait in between. Its `pipeline` is of
 * its own, so that the library takes the clients on it for those of another process.
 */
export class Link extends FakeService {
  override readonly resources: Resources;
  readonly backend: Backend;
  networkConditions: NetworkConditions = calm;
  /** How many sends of writes there were so far. */
  #writes = 0;
  /** The numbers of those without a response that says what became of them: in flight, aborted, or gone wrong. */
  readonly #unanswered = new Set<number>();
  /**
   * The numbers of those that met a conflict: a copy of one may be stored, until a read of the same client has shown that it is not.
   * The read of another client is that of another call, which does not know of this write.
   */
  readonly #conflicts = new Map<unknown, number[]>();
  #cut = false;

  constructor(backend: Backend) {
    super();
    this.backend = backend;
    this.resources = backend.resources;
  }

  /** The process is dead, or cut off: nothing it sends from now on arrives, and it hears nothing any more. */
  cutOff(): void {
    this.#cut = true;
  }

  /** Returns whether the process cannot know, at the time of asking, what became of a write that it sends from now on. */
  watchWrites(): () => boolean {
    const before = this.#writes;
    return () => [...this.#unanswered].some((write) => write > before);
  }

  override newETag(): number {
    return this.backend.newETag();
  }

  override timestamp(): string {
    return this.backend.time.date.toISOString();
  }

  override date(): string {
    return new Date(this.timestamp()).toUTCString();
  }

  override async request<R>(call: Call, signal: AbortSignal | undefined, error: ErrorOf, serve: () => R): Promise<R> {
    const { retries, time } = this.backend;
    for (let tries = 1; ; tries++) {
      try {
        return await this.#send(call, signal, error, serve);
      } catch (failure) {
        if (tries >= retries.tries || !isRetried(failure)) throw failure;
      }
      await this.#wait(retries.waitInMs(tries, time.random), signal);
    }
  }

  #send<R>(call: Call, signal: AbortSignal | undefined, error: ErrorOf, serve: () => R): Promise<R> {
    const { time } = this.backend;
    const { min, max } = this.networkConditions.latency;
    const fate = this.#cut ? "silence" : drawFate(this.networkConditions, time.random);
    if (fate !== "ok") this.backend.faults++;
    return new Promise<R>((resolve, reject) => {
      if (signal?.aborted) {
        reject(abortError());
        return;
      }
      const write = call.kind === "write" ? ++this.#writes : undefined;
      if (write !== undefined) this.#unanswered.add(write);
      // Whoever aborts takes nothing back: what is on its way arrives, unless it has not left yet.
      const leaves = time.random() < 0.5;
      let over = false;
      const end = (settle: () => void): void => {
        if (over) return;
        over = true;
        signal?.removeEventListener("abort", aborted);
        settle();
      };
      const aborted = (): void => end(() => reject(abortError()));
      signal?.addEventListener("abort", aborted);
      const way = (): number => (min + time.random() * (max - min)) / 2;

      const arrive = (): void => {
        if ((over && !leaves) || fate === "silence" || fate === "request lost") return;
        const answer = this.#arrive(call, error, serve, fate === "busy");
        if (fate !== "ok" && fate !== "busy") return;
        time.after(way(), () => {
          if (this.#cut) return;
          end(() => {
            this.#noteAnswer(call, write, answer);
            if (answer.error) reject(answer.error);
            else resolve(answer.value);
          });
        });
      };
      if (fate === "straggler") time.after(time.random() * maxStragglingInMs, () => this.#arrive(call, error, serve, false));
      else time.after(way(), arrive);
      if (fate === "request lost" || fate === "answer lost" || fate === "straggler") {
        time.after(max + way(), () => end(() => reject(connectionReset())));
      } else if (fate === "failed after commit") {
        time.after(max + way(), () => end(() => reject(error(500, "OperationTimedOut"))));
      }
    });
  }

  #arrive<R>(call: Call, error: ErrorOf, serve: () => R, busy: boolean): ({ value: R; error?: undefined } | { error: Error }) & { busy: boolean } {
    if (busy || this.backend.refuses(call.resource)) return { error: error(503, "ServerBusy"), busy: true };
    try {
      return { value: serve(), busy: false };
    } catch (refusal) {
      return { error: refusal as Error, busy: false };
    }
  }

  #noteAnswer({ kind, client }: Call, write: number | undefined, answer: { readonly error?: Error | undefined; readonly busy: boolean }): void {
    const { statusCode = 0 } = (answer.error ?? {}) as { statusCode?: number };
    if (write !== undefined && [404, 409, 412].includes(statusCode)) this.#conflicts.set(client, [...(this.#conflicts.get(client) ?? []), write]);
    else if (write !== undefined && !answer.busy) this.#unanswered.delete(write);
    if (kind !== "read" || answer.busy) return;
    for (const conflict of this.#conflicts.get(client) ?? []) this.#unanswered.delete(conflict);
    this.#conflicts.delete(client);
  }

  #wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(abortError());
        return;
      }
      let timer: VirtualTimer | undefined = undefined;
      const aborted = (): void => {
        if (timer) timer.callback = undefined;
        reject(abortError());
      };
      signal?.addEventListener("abort", aborted);
      timer = this.backend.time.after(ms, () => {
        signal?.removeEventListener("abort", aborted);
        resolve();
      });
    });
  }
}

function isRetried(failure: unknown): boolean {
  const { statusCode, code } = failure as { statusCode?: number; code?: string };
  return code === "ECONNRESET" || statusCode === 500 || statusCode === 503;
}

function abortError(): Error {
  return new DOMException("The operation was aborted.", "AbortError");
}
