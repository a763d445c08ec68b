import type { ContainerLike } from "../../../src/index.js";
import { VirtualTime } from "../time/virtual-time.js";
import { Backend } from "./backend.js";
import { Link } from "./link.js";
import { calm } from "./network-conditions.js";
import type { NetworkConditions } from "./network-conditions.js";
import { simContainer, SimBlob } from "./sim-blob.js";
import { SimQueue } from "./sim-queue.js";
import { SimTable } from "./sim-table.js";

/** Requests a second: of each blob, each table (one partition is used of each) and each queue. */
export interface Limits {
  readonly blob: number;
  readonly table: number;
  readonly queue: number;
}

const noLimits: Limits = { blob: Infinity, table: Infinity, queue: Infinity };

/** A storage account, and any number of processes that use it, on one virtual clock. */
export class World {
  readonly time: VirtualTime;
  readonly blobs: Backend;
  readonly tables: Backend;
  readonly queues: Backend;
  readonly #processes: SimProcess[] = [];
  #networkConditions: NetworkConditions = calm;

  constructor(seed: number, limits: Limits = noLimits) {
    this.time = new VirtualTime(seed);
    this.blobs = new Backend("blob", this.time, limits.blob);
    this.tables = new Backend("table", this.time, limits.table);
    this.queues = new Backend("queue", this.time, limits.queue);
  }

  get faults(): number {
    return this.blobs.faults + this.tables.faults + this.queues.faults;
  }

  /** For all processes, those to come too. */
  set networkConditions(networkConditions: NetworkConditions) {
    this.#networkConditions = networkConditions;
    for (const process of this.#processes) process.setNetworkConditions(networkConditions);
  }

  newProcess(): SimProcess {
    const process = new SimProcess(this);
    process.setNetworkConditions(this.#networkConditions);
    this.#processes.push(process);
    return process;
  }
}

/** A process: its clients share nothing with those of another. */
export class SimProcess {
  readonly blobs: Link;
  readonly tables: Link;
  readonly queues: Link;
  readonly container: ContainerLike;

  constructor(world: World) {
    this.blobs = new Link(world.blobs);
    this.tables = new Link(world.tables);
    this.queues = new Link(world.queues);
    this.container = simContainer(this.blobs);
  }

  blob(name: string): SimBlob {
    return new SimBlob(this.blobs, name);
  }

  table(name: string): SimTable {
    return new SimTable(this.tables, name);
  }

  queue(name: string): SimQueue {
    return new SimQueue(this.queues, name);
  }

  /** Returns whether this process cannot know, at the time of asking, what became of a write that it sends from now on. */
  watchWrites(): () => boolean {
    const watches = [this.blobs, this.tables, this.queues].map((link) => link.watchWrites());
    return () => watches.some((isInDoubt) => isInDoubt());
  }

  setNetworkConditions(networkConditions: NetworkConditions): void {
    for (const link of [this.blobs, this.tables, this.queues]) link.networkConditions = networkConditions;
  }

  /** As far as the others can see, it is dead. */
  cutOff(): void {
    for (const link of [this.blobs, this.tables, this.queues]) link.cutOff();
  }
}
