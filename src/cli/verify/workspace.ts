import type { TableClient } from "@azure/data-tables";
import type { ContainerClient } from "@azure/storage-blob";
import type { ShareClient } from "@azure/storage-file-share";
import type { QueueClient } from "@azure/storage-queue";
import { delay, startStopwatch, throwIfAborted } from "../../core/deadline.js";
import { inParallel } from "../../core/parallel.js";
import { read } from "../../core/request.js";
import { isUnauthorized } from "../../core/storage-errors.js";
import type { Account } from "../connect.js";
import { RunNames, startOf } from "./names.js";
import { openResources, removeResource } from "./resources.js";
import type { Resources } from "./resources.js";
import type { Service } from "./service.js";

/** A container, table, queue or share of a run. */
export interface Owned {
  readonly service: Service;
  readonly kind: string;
  readonly name: string;
}

/**
 * Where checks work: in containers, tables, queues and shares that the run creates and removes. A name is recorded before the request
 * to create it is sent, so that a create whose response is lost is removed, too.
 *
 * Crash window: what a killed run leaves has names that say when it began. The next run removes it when no run can still be using it,
 * and names it before that.
 */
export class Workspace {
  readonly account: Account;
  readonly signal: AbortSignal;
  readonly #names = new RunNames();
  readonly #resources = new Map<Service, Resources>();
  readonly #owned = new Map<string, { readonly service: Service; readonly leased: boolean }>();
  readonly #shared = new Map<Service, string>();
  #extraPolls = 0;
  #isClosed = false;

  constructor(account: Account, signal: AbortSignal) {
    this.account = account;
    this.signal = signal;
  }

  /** How many requests were sent only because a wait took longer than usual. */
  get extraPolls(): number {
    return this.#extraPolls;
  }

  /** Loads the SDKs of these services, and creates what all checks of a service share. Two requests for each, with its removal; none for queues. */
  async open(services: readonly Service[]): Promise<void> {
    await this.load(services);
    for (const service of services) if (service !== "queue") this.#shared.set(service, await this.#create(service, false));
  }

  /** The left-overs of other runs, with one request for each service. */
  async *leftOvers(): AsyncGenerator<Owned & { readonly startedOn: Date }, undefined> {
    for (const [service, resources] of this.#resources) {
      for await (const name of resources.list(this.signal)) {
        const startedOn = startOf(name);
        if (startedOn && !this.#names.isOwn(name)) yield { service, kind: resources.kind, name, startedOn };
      }
    }
  }

  async load(services: readonly Service[]): Promise<void> {
    for (const service of services) this.#resources.set(service, await openResources[service](this.account));
  }

  async remove({ service, name }: Owned): Promise<void> {
    await removeResource(this.#of(service), name, false);
  }

  /** Removes everything that the run has created, and returns what could not be removed. Not cancelled with the run: that is when it matters. */
  async removeAll(): Promise<readonly Owned[]> {
    // A check that took too long may still be running.
    this.#isClosed = true;
    const left: Owned[] = [];
    await inParallel([...this.#owned], 8, async ([name, { service, leased }]) => {
      try {
        await removeResource(this.#of(service), name, leased);
        this.#owned.delete(name);
      } catch {
        left.push({ service, kind: this.#of(service).kind, name });
      }
    });
    return left;
  }

  /** A name that nothing else has: for a blob, file, partition or row, too. */
  name(): string {
    return this.#names.next();
  }

  /** The container that all checks share. */
  blobs(): Promise<ContainerClient> {
    return this.account.container(this.#sharedName("blob"));
  }

  async container({ leased = false, missing = false }: { leased?: boolean; missing?: boolean } = {}): Promise<ContainerClient> {
    return this.account.container(await this.#create("blob", leased, missing));
  }

  /** The table that all checks share. */
  table(): Promise<TableClient> {
    return this.account.table(this.#sharedName("table"));
  }

  async ownTable(): Promise<TableClient> {
    return this.account.table(await this.#create("table", false));
  }

  async queue(): Promise<QueueClient> {
    return this.account.queue(await this.#create("queue", false));
  }

  /** The share that all checks share. */
  files(): Promise<ShareClient> {
    return this.account.share(this.#sharedName("file"));
  }

  async share({ leased = false, missing = false }: { leased?: boolean; missing?: boolean } = {}): Promise<ShareClient> {
    return this.account.share(await this.#create("file", leased, missing));
  }

  pause(ms: number): Promise<void> {
    return delay(ms, this.signal);
  }

  /** Asks once a second until the response is the one that is waited for, and returns the last one. All but the first are extra polls. */
  async poll<R>(ask: () => Promise<R>, isDone: (response: R) => boolean, timeoutInMs: number): Promise<R> {
    const elapsedInMs = startStopwatch();
    for (;;) {
      const response = await ask();
      if (isDone(response) || elapsedInMs() > timeoutInMs) return response;
      await this.pause(1_000);
      this.#extraPolls++;
    }
  }

  async #create(service: Service, leased: boolean, missing = false): Promise<string> {
    throwIfAborted(this.signal);
    if (this.#isClosed) throw new Error("the run has ended");
    const name = this.name();
    this.#owned.set(name, { service, leased });
    if (missing) return name;
    try {
      await read((abortSignal) => this.#of(service).create(name, abortSignal), { timeoutInMs: 30_000, abortSignal: this.signal });
    } catch (error) {
      // Certainly not created: there is nothing to remove.
      if (isUnauthorized(error)) this.#owned.delete(name);
      throw error;
    }
    return name;
  }

  #of(service: Service): Resources {
    const resources = this.#resources.get(service);
    if (!resources) throw new Error(`the service ${service} is not part of this run`);
    return resources;
  }

  #sharedName(service: Service): string {
    const name = this.#shared.get(service);
    if (name === undefined) throw new Error(`the service ${service} is not part of this run`);
    return name;
  }
}
