import type { AppendBlobLike, BlobCallOptions, BlobLike, ContainerLike, LeasePropertiesLike } from "../clients/blob.js";
import { delay, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { Recent } from "../core/recent.js";
import { request } from "../core/request.js";
import { fullJitter, jitter } from "../core/retry.js";
import { isNotFound, isTransient } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { isConcurrencyError } from "../errors.js";
import { pollResultOf } from "../lease/acquire.js";
import type { Acquisition, LeaseWaiter, LockRules, PlaceInLine } from "../lease/acquire.js";
import type { HeldLease } from "../lease/held-lease.js";
import type { FencingToken } from "../lease/lease-handle.js";
import type { LeaseAdapter, LeaseRequest } from "../lease/lease-adapters.js";
import { EpochAllocator } from "./epoch-allocator.js";
import type { HolderInfo } from "./epoch-allocator.js";
import { EpochFloor } from "./epoch-floor.js";
import { parseLockRecord } from "./lock-record.js";
import { ticketBlobName, TicketDispenser } from "./tickets.js";

/** A process that released the lock less than this ago may be in a loop: it looks whether others wait before it acquires again. */
const recentInMs = 1_000;
/** It looks at most this often, so that a loop without competition costs two requests a turn. */
const lookForOthersEveryInMs = 500;
/** While other processes wait, the lock is handed over within this one for this long. */
const maxTurnInMs = 1_000;
/** The holder of the next ticket polls this often at first. */
const minTryDelayInMs = 10;
const maxTryDelayInMs = 667;
/** How long a free lock waits for the holder of the next ticket, which may have died or left; longer for those further back. */
const graceInMs = 500;
/** Of a fair lock: longer than its waiters pause after a long turn, so that none that is alive is passed over. */
const fairGraceInMs = 1_500;
const maxLookDelayInMs = 60_000;
/** A caller whose wait ends within this time has its last chance: a request for the lease, and its response. */
const lastChanceInMs = 500;
/** A ticket that was passed over by more than this is given up for a new one. */
const maxPassedOver = 16;
const timeoutInMs = 5_000;

/** A lock that was seen to be free, and its record then. */
interface FreeSince {
  readonly etag: string | undefined;
  readonly clock: Clock;
}

/**
 * When a process may try to acquire a named lock. Without competition: at once. If another process holds it, the process draws a
 * ticket. The record of the lock says which ticket was served last, so a waiter knows how many come before it: the next one
 * polls quickly, the others look rarely, by their distance. A process that has just released the lock draws a ticket, too, if
 * others wait: so they alternate.
 *
 * Tickets are advisory: which process holds the lock is decided by the lease alone. So a waiter that dies, or a process whose
 * tickets are lost, costs a delay and nothing else.
 */
export class LockTurns implements LockRules {
  readonly key: string;
  readonly #blob: BlobLike;
  readonly #epochs: EpochAllocator;
  readonly #fair: boolean;
  #tickets: TicketDispenser | undefined;
  /** Of all waiters of this process; a fair lock gives each of them its own. */
  readonly #place: PlaceInLine = { ticket: undefined };
  readonly #drawing = new WeakMap<PlaceInLine, Promise<void>>();
  /** Of a fair lock: tickets of callers of this process that have left. No caller comes before those behind them. */
  readonly #abandoned = new Set<number>();
  #lastDraw: Promise<void> = Promise.resolve();
  /** How often the count of served tickets has begun anew: a foreign program deleted the lock or its tickets. */
  #restarts = 0;
  readonly #restartsAtDraw = new WeakMap<PlaceInLine, number>();
  /** Since the last restart, no ticket was served: it is not known who comes first. */
  #servedIsUnknown = false;
  /** The ticket of the current or last holder in this process. */
  #ownTicket: number | undefined;
  #wasContended = false;
  #failedDraws = 0;
  #sinceRelease: Clock | undefined;
  #sinceLookForOthers: Clock | undefined;
  #othersWait = false;
  /** The last ticket that was drawn, when this process last read the count. */
  #lastTicket = 0;
  /** How long a turn takes, as seen from here. */
  #turnInMs = 100;
  #progress: { readonly served: number; readonly etag: string | undefined; readonly clock: Clock } | undefined;
  /** The lock has been free, without a new holder in between, for as long as this says. */
  #free: FreeSince | undefined;

  constructor(blob: BlobLike, epochs: EpochAllocator, tickets: TicketDispenser | undefined, fair: boolean) {
    this.key = JSON.stringify([epochs.key, fair]);
    this.#blob = blob;
    this.#epochs = epochs;
    this.#tickets = tickets;
    this.#fair = fair;
  }

  /** Not without tickets: then processes only poll. */
  get takesTurns(): boolean {
    return this.#tickets !== undefined;
  }

  enqueued(waiter: LeaseWaiter): void {
    if (!this.#fair || waiter.isTry) return;
    const { signal } = new AbortController();
    // One after the other: the queue serves its callers in their order, so their tickets must have the same.
    this.#lastDraw = this.#lastDraw.then(() => (waiter.isSettled() ? undefined : this.#draw(waiter.place, signal, {}))).catch(() => undefined);
    this.#drawing.set(waiter.place, this.#lastDraw);
  }

  left(waiter: LeaseWaiter): void {
    const { ticket } = waiter.place;
    if (this.#fair && ticket !== undefined && this.#restartsAtDraw.get(waiter.place) === this.#restarts) this.#abandoned.add(ticket);
  }

  untilAttempt(acquisition: Acquisition): Promise<void> | undefined {
    if (!this.#tickets || acquisition.waiter.isTry) return undefined;
    // Also with a ticket, which a caller that has left has drawn: if those before it are dead, a caller with a short wait would
    // never have its turn.
    if (!this.#fair && acquisition.attempts === 0 && !this.#mayBeInLoop()) return undefined;
    return this.#untilTurn(this.#placeOf(acquisition.waiter), acquisition);
  }

  async mayTry(acquisition: Acquisition): Promise<boolean> {
    const { waiter, abortSignal, request } = acquisition;
    if (!this.#fair || !this.#tickets) return true;
    await this.#look(acquisition);
    if (!(await this.#lookForOthers(this.#tickets, abortSignal, request))) return true;
    const free = this.#free;
    if (!free) return false;
    // Those who drew the tickets may have left or died: then no process takes the lock, and the tickets are served with this call.
    await delay(fairGraceInMs, abortSignal);
    await this.#look(acquisition);
    if (this.#free !== free) return false;
    waiter.place.ticket = this.#lastTicket;
    waiter.place.isBorrowed = true;
    return true;
  }

  async next(lease: HeldLease, waiter: LeaseWaiter, waiting: number, request: Omit<LeaseRequest, "abortSignal">): Promise<FencingToken> {
    const place = this.#placeOf(waiter);
    const { ticket, isBorrowed = false } = place;
    const token = await this.#epochs.next(lease, { waiting, ticket, isBorrowed, restarted: this.#servedIsUnknown, request });
    if (ticket !== undefined) {
      // What was seen before a restart says nothing about the tickets from now on.
      if (this.#servedIsUnknown) this.#progress = undefined;
      this.#servedIsUnknown = false;
      place.ticket = undefined;
      this.#ownTicket = ticket;
      this.#othersWait = true;
      this.#sinceLookForOthers = undefined;
    } else this.#wasContended = false;
    this.#free = undefined;
    return { ...token, raiseGuarding: (epoch) => this.#epochs.raiseGuarding(lease, epoch) };
  }

  mayHandOver(waiter: LeaseWaiter, heldForInMs: number): boolean {
    if (!this.#tickets) return true;
    if (this.#fair) return waiter.place.ticket !== undefined && waiter.place.ticket === this.#nextAfter(this.#ownTicket ?? 0);
    if (heldForInMs < maxTurnInMs) return true;
    // Not awaited: the next holder need not wait for it.
    if (!this.#sinceLookForOthers || this.#sinceLookForOthers() >= lookForOthersEveryInMs) {
      void this.#lookForOthers(this.#tickets, undefined, {}).catch(() => undefined);
      return true;
    }
    return !this.#othersWait;
  }

  settled(): Promise<void> {
    return this.#epochs.settled();
  }

  released(lease: HeldLease): void {
    this.#epochs.released(lease);
    this.#sinceRelease = startStopwatch();
  }

  #placeOf(waiter: LeaseWaiter): PlaceInLine {
    return this.#fair ? waiter.place : this.#place;
  }

  /** Whether this process must find out if others wait, before it tries to acquire the lock that it had just now. */
  #mayBeInLoop(): boolean {
    if (!this.#sinceRelease || this.#sinceRelease() > recentInMs) return false;
    if (this.#wasContended || this.#othersWait) return true;
    return !this.#sinceLookForOthers || this.#sinceLookForOthers() >= lookForOthersEveryInMs;
  }

  async #untilTurn(place: PlaceInLine, acquisition: Acquisition): Promise<void> {
    const { abortSignal, pacing } = acquisition;
    // Many were passed over, as the service was overloaded or many tickets were abandoned: all of them would come first now.
    if (this.#distanceOf(place) < -maxPassedOver) place.ticket = undefined;
    if (place.ticket === undefined && !(await this.#queueUp(place, acquisition))) return;
    let seenFree: FreeSince | undefined;
    for (let isFirst = true; ; isFirst = false) {
      // A ticket from before a restart may be so large that its turn never comes.
      if (this.#restartsAtDraw.get(place) !== this.#restarts) await this.#draw(place, abortSignal, acquisition.request);
      const distance = this.#distanceOf(place);
      if (distance <= 1) {
        if (!isFirst || acquisition.attempts === 0) return;
        await delay(pacing.slowed(this.#tryDelay()), abortSignal);
        if (distance === 1) return;
        // Passed over, or it is not known which ticket was served last.
        await this.#look(acquisition);
        continue;
      }
      // Callers of a fair lock have made no attempt yet: what was seen before they came does not count.
      if (this.#fair && acquisition.attempts === 0 && isFirst) await this.#look(acquisition);
      // If it is free, those with earlier tickets may be dead: that is not known yet, and a short wait is extended until it is, or
      // until another holder came in between.
      if (!this.#fair || !this.#free || (seenFree && seenFree !== this.#free)) acquisition.onTaken();
      seenFree = this.#free;
      await delay(pacing.slowed(this.#untilLook(distance, acquisition.waiter)), abortSignal);
      await this.#look(acquisition);
      if (this.#free && this.#distanceOf(place) > 1 && this.#free.clock() >= this.#graceOf(distance, acquisition.waiter)) return;
    }
  }

  /** How long those before a waiter have to use a lock that is free. */
  #graceOf(distance: number, waiter: LeaseWaiter): number {
    if (!this.#fair) return graceInMs * Math.log2(distance);
    // A caller that would have to leave does not wait for longer than those that are next: otherwise no caller with a short wait would
    // ever have a lock that is free.
    return fairGraceInMs * Math.min(Math.log2(distance), waiter.leftInMs <= lastChanceInMs ? 2 : Infinity);
  }

  #untilLook(distance: number, { leftInMs }: LeaseWaiter): number {
    const usual = this.#lookDelay(distance);
    if (!this.#fair || !this.#free) return usual;
    return Math.min(usual, leftInMs > lastChanceInMs ? Math.max(minTryDelayInMs, leftInMs - 0.8 * lastChanceInMs) : lastChanceInMs / 2);
  }

  /** Draws a ticket if it is needed. False: try without one. */
  async #queueUp(place: PlaceInLine, acquisition: Acquisition): Promise<boolean> {
    const { abortSignal, request, pacing, attempts } = acquisition;
    const tickets = this.#tickets;
    if (!tickets) return false;
    if (attempts === 0 && !this.#fair && !this.#wasContended && !(await this.#lookForOthers(tickets, abortSignal, request))) return false;
    const knowsRecord = attempts === 0 && this.#epochs.known !== undefined;
    await this.#drawing.get(place);
    try {
      await Promise.all([place.ticket === undefined && this.#draw(place, abortSignal, request), !knowsRecord && this.#look(acquisition)]);
    } catch (error) {
      if (abortSignal.aborted || isConcurrencyError(error) || this.#fair) throw error;
      if (isTransient(error)) {
        // So many processes come at once that the service throttles: those without a ticket come back later.
        await delay(fullJitter(this.#failedDraws++, 1_000, maxLookDelayInMs), abortSignal);
        return false;
      }
      // For example a SAS that does not allow to create blobs. Polling needs no tickets, but is not fair.
      logger.warning(`the waiters of ${this.#blob.url} cannot draw tickets, and wait in no order: ${errorLabel(error)}`);
      this.#tickets = undefined;
      if (attempts > 0) await delay(pacing.nextPollInMs(), abortSignal);
      return false;
    }
    this.#failedDraws = 0;
    // No other process waits: the next turn needs no ticket.
    this.#wasContended = attempts > 0 || this.#distanceOf(place) > 1;
    return true;
  }

  async #draw(place: PlaceInLine, abortSignal: AbortSignal, request: Omit<LeaseRequest, "abortSignal">): Promise<void> {
    const served = this.#epochs.known?.record.served;
    const ticket = await this.#tickets?.draw(served, abortSignal, request);
    // It was drawn after that one was served: the tickets were deleted in between.
    if (ticket !== undefined && ticket <= (served ?? 0)) this.#restart();
    this.#restartsAtDraw.set(place, this.#restarts);
    place.ticket = ticket;
  }

  /** How many tickets are served until it is the turn of this one, itself included; 0 or less: it was passed over, and comes first. */
  #distanceOf({ ticket = 0 }: PlaceInLine): number {
    const served = this.#epochs.known?.record.served;
    if (served === undefined || this.#servedIsUnknown) return 0;
    let abandoned = 0;
    for (const other of this.#abandoned) {
      if (other <= served) this.#abandoned.delete(other);
      else if (other < ticket) abandoned++;
    }
    return ticket - served - abandoned;
  }

  /** The next ticket to be served after this one, as far as this process knows. */
  #nextAfter(ticket: number): number {
    let next = ticket + 1;
    while (this.#abandoned.has(next)) next++;
    return next;
  }

  #tryDelay(): number {
    return jitter(Math.min(maxTryDelayInMs, Math.max(minTryDelayInMs, this.#progressedForInMs() / 10)), 0.5);
  }

  #lookDelay(distance: number): number {
    // A waiter that looks too late delays all others; far from its turn, there is time to correct that.
    const share = distance > 30 ? 0.7 : 0.5;
    const usual = Math.max(minTryDelayInMs, (distance - 1.8) * this.#turnInMs * share, Math.min(maxTryDelayInMs, this.#progressedForInMs() / 10));
    return jitter(Math.min(maxLookDelayInMs, usual), 0.2);
  }

  #progressedForInMs(): number {
    return this.#progress?.clock() ?? 0;
  }

  /** Reads the record of the lock, and whether it is held. */
  async #look({ abortSignal, request: { onRequest, tracingOptions }, pacing }: Acquisition): Promise<void> {
    onRequest?.();
    const options = (signal: AbortSignal): BlobCallOptions => ({ abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
    const found = await request<LeasePropertiesLike>((signal) => this.#blob.getProperties(options(signal)), { timeoutInMs, abortSignal });
    pacing.polled(pollResultOf(found));
    if (found.kind !== "ok" && !isNotFound(found.error)) throw found.error;
    const properties = found.kind === "ok" ? found.value : {};
    const { etag, leaseState } = properties;
    const record = parseLockRecord(properties.metadata);
    this.#epochs.learn({ record, etag: etag ?? "" });
    this.#observe(record.served ?? 0, etag);
    const isFree = leaseState !== "leased" && leaseState !== "breaking";
    if (!isFree) this.#free = undefined;
    else if (!this.#free || this.#free.etag !== etag) this.#free = { etag, clock: startStopwatch() };
  }

  #observe(served: number, etag: string | undefined): void {
    const before = this.#progress;
    if (before && before.etag === etag) return;
    const clock = startStopwatch();
    const turns = before ? served - before.served : 0;
    if (turns < 0) {
      this.#restart();
      this.#tickets?.startAnew(served);
    }
    if (before && turns > 0) {
      this.#servedIsUnknown = false;
      const turnInMs = Math.min(5_000, Math.max(10, before.clock() / turns));
      // Slow to believe in long turns: a waiter that looks too late makes the turns of all others longer.
      this.#turnInMs += (turnInMs - this.#turnInMs) / (turnInMs < this.#turnInMs ? 2 : 8);
    }
    this.#progress = { served, etag, clock };
  }

  #restart(): void {
    this.#restarts++;
    this.#servedIsUnknown = true;
    this.#ownTicket = undefined;
    this.#abandoned.clear();
  }

  /** Whether tickets were drawn that have not been served. */
  async #lookForOthers(tickets: TicketDispenser, abortSignal: AbortSignal | undefined, request: Omit<LeaseRequest, "abortSignal">): Promise<boolean> {
    if (this.#sinceLookForOthers && this.#sinceLookForOthers() < lookForOthersEveryInMs) return this.#othersWait;
    this.#sinceLookForOthers = startStopwatch();
    // The record may not name yet the ticket that this process has used last.
    const served = Math.max(this.#epochs.known?.record.served ?? 0, this.#ownTicket ?? 0);
    this.#lastTicket = await tickets.last(served, abortSignal, request);
    if (this.#lastTicket < served) this.#restart();
    return (this.#othersWait = this.#lastTicket !== served);
  }
}

/** The rules of one lock survive its queue, so that the next acquisition can use what this process knows. Bounded: there may be a lock for each order. */
const maxRemembered = 1_000;
const remembered = new WeakMap<object, Recent<LockTurns>>();

export function lockRulesFor({ owner, key }: LeaseAdapter, container: ContainerLike, prefix: string, blobName: string, info: HolderInfo): LockTurns {
  let locks = remembered.get(owner);
  if (!locks) remembered.set(owner, (locks = new Recent<LockTurns>(maxRemembered)));
  // One that is in use stays alive with its queue, even if it is forgotten here.
  return locks.get(JSON.stringify([key, prefix, info]), () => {
    const blob = container.getBlockBlobClient(blobName);
    const tickets = container.getAppendBlobClient && new TicketDispenser((generation) => ticketBlobOf(container, blobName, generation));
    return new LockTurns(blob, new EpochAllocator(blob, info, new EpochFloor(container, prefix)), tickets, info.fair);
  });
}

function ticketBlobOf(container: ContainerLike, blobName: string, generation: number): AppendBlobLike {
  const client = container.getAppendBlobClient?.(ticketBlobName(blobName, generation));
  if (!client) throw new TypeError("the container client has no append blobs");
  return client;
}
