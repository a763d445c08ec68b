import type { AppendBlobLike, BlobCallOptions, BlobLike, ContainerLike, LeasePropertiesLike } from "../clients/blob.js";
import { delay, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { Recent } from "../core/recent.js";
import { request } from "../core/request.js";
import { fullJitter } from "../core/retry.js";
import { isBlobTypeMismatch, isLeaseConflict, isNotFound, isTransient } from "../core/storage-errors.js";
import { errorLabel, logger, redactUrl } from "../core/telemetry.js";
import { createError, isConcurrencyError, LockModeMismatchError } from "../errors.js";
import { pollResultOf } from "../lease/acquire.js";
import type { Acquisition, LeaseWaiter, LockRules, PlaceInLine, SeenHolder } from "../lease/acquire.js";
import type { HeldLease, PendingWrite } from "../lease/held-lease.js";
import type { FencingToken } from "../lease/lease-handle.js";
import type { LeaseAdapter, LeaseRequest } from "../lease/lease-adapters.js";
import { EpochAllocator } from "./epoch-allocator.js";
import type { HolderInfo } from "./epoch-allocator.js";
import { EpochFloor } from "./epoch-floor.js";
import { checkRecordFormat, parseLockRecord } from "./lock-record.js";
import { ticketBlobName, TicketDispenser } from "./tickets.js";
import { TurnPace } from "./turn-pace.js";

/** A process that released the lock less than this ago may be in a loop: it looks whether others wait before it acquires again. */
const recentInMs = 1_000;
/** It looks at most this often, so that a loop without competition costs two requests a turn. */
const lookForOthersEveryInMs = 500;
/** While other processes wait, the lock is handed over within this one for this long. */
const maxTurnInMs = 1_000;
/** How long a free lock waits for the holder of the next ticket, which may have died or left; longer for those further back. */
const graceInMs = 500;
/** Of a fair lock: longer than its waiters pause after a long turn, so that none that is alive is passed over. */
const fairGraceInMs = 1_500;
/** The next but one tries, too, while the record is younger than this: then turns are short, and only the next holder will change it. */
const maxFollowInMs = 500;
const maxPauseInMs = 60_000;
/** A caller of a fair lock whose time is nearly over reads the record this often at most. */
const minLookDelayInMs = 10;
/** A caller whose wait ends within this time has its last chance: a request for the lease, and its response. */
const lastChanceInMs = 500;
/** The process with the next ticket looks whether it was passed over, besides its attempts: those that were passed over themselves are served by then. */
const passedOverAfterInMs = 3_000;
const maxUnnoticedInMs = 10_000;
/** A ticket that was passed over by more than this is given up for a new one. */
const maxPassedOver = 16;
const timeoutInMs = 5_000;

/** What the callers of a fair lock in this process share, whatever their options: they are served in one order. */
class CallerLine {
  /** The tickets of callers that have left. No caller comes before those behind them. */
  readonly abandoned: Map<number, { readonly sinceLeft: Clock }> = new Map<number, { readonly sinceLeft: Clock }>();
  /** Of callers that do not wait any more: a ticket may still be drawn for them. */
  readonly left: WeakSet<PlaceInLine> = new WeakSet<PlaceInLine>();
  /** Those that wait, in their order. */
  readonly waiting: Set<PlaceInLine> = new Set<PlaceInLine>();
  lastDraw: Promise<void> = Promise.resolve();
}

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
 * The next but one need not know that its turn has come. It tries on the condition that the record is not the one that it has seen: the
 * service admits it only after the holder before it has written its own.
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
  readonly #line: CallerLine;
  /** How often the count of served tickets has begun anew: a foreign program deleted the lock or its tickets. */
  #restarts = 0;
  /** The last look has shown that others use the lock in the other mode. */
  #isOtherMode = false;
  readonly #restartsAtDraw = new WeakMap<PlaceInLine, number>();
  /** Since the last restart, no ticket was served: it is not known who comes first. */
  #servedIsUnknown = false;
  /** The ticket of the current or last holder in this process. */
  #ownTicket: number | undefined;
  #wasContended = false;
  #failedDraws = 0;
  #sinceRelease: Clock | undefined;
  #sinceLook: Clock | undefined;
  #sinceLookForOthers: Clock | undefined;
  #othersWait = false;
  /** The last ticket that was drawn, when this process last read the count. */
  #lastTicket = 0;
  readonly #pace = new TurnPace();
  /** How often this process has had the lock. */
  #turns = 0;
  /** Under which lease it has had the lock last. */
  #lease: HeldLease | undefined;
  /** The look that is sent along with an attempt. */
  #looking: Promise<void> | undefined;
  /** The lock has been free, without a new holder in between, for as long as this says. */
  #free: FreeSince | undefined;

  constructor(blob: BlobLike, epochs: EpochAllocator, tickets: TicketDispenser | undefined, fair: boolean, line: CallerLine) {
    this.#line = line;
    this.key = JSON.stringify([epochs.key, fair]);
    this.#blob = blob;
    this.#epochs = epochs;
    this.#tickets = tickets;
    this.#fair = fair;
  }

  otherHolderSeen(withinInMs: number): SeenHolder | undefined {
    const { holder, acquiredOn } = this.#epochs.known?.record ?? {};
    const isRecent = this.#sinceLook !== undefined && this.#sinceLook() < withinInMs;
    return isRecent && holder !== undefined && holder !== this.#epochs.holder ? { holder, acquiredOn } : undefined;
  }

  /** Not without tickets: then processes only poll. */
  get takesTurns(): boolean {
    return this.#tickets !== undefined;
  }

  enqueued(waiter: LeaseWaiter): void {
    if (!this.#fair || waiter.isTry) return;
    const { signal } = new AbortController();
    this.#line.waiting.add(waiter.place);
    // Probably it is rejected as well, and a ticket that it has drawn delays all others: it is drawn when it is known that it is not.
    if (this.#isOtherMode) return;
    // One after the other: the queue serves its callers in their order, so their tickets must have the same.
    this.#line.lastDraw = this.#line.lastDraw.then(() => (waiter.isSettled() || this.#takeAbandoned(waiter.place) ? undefined : this.#draw(waiter.place, signal, {}))).catch(() => undefined);
    this.#drawing.set(waiter.place, this.#line.lastDraw);
  }

  left({ place }: LeaseWaiter): void {
    if (!this.#fair) return;
    this.#line.left.add(place);
    this.#line.waiting.delete(place);
    this.#abandonTicketOf(place);
  }

  #abandonTicketOf(place: PlaceInLine): void {
    if (place.ticket !== undefined && this.#restartsAtDraw.get(place) === this.#restarts) this.#line.abandoned.set(place.ticket, { sinceLeft: startStopwatch() });
  }

  /**
   * A caller of a fair lock takes the place of one of its process that has just left. Callers with short waits would fill the line with
   * tickets that no caller uses: all processes would wait for each of them.
   */
  #takeAbandoned(place: PlaceInLine): boolean {
    const served = this.#epochs.known?.record.served ?? 0;
    const free = [...this.#line.abandoned].filter(([ticket, { sinceLeft }]) => ticket > served && sinceLeft() < fairGraceInMs).map(([ticket]) => ticket);
    if (free.length === 0 || this.#servedIsUnknown) return false;
    const ticket = Math.min(...free);
    this.#line.abandoned.delete(ticket);
    this.#restartsAtDraw.set(place, this.#restarts);
    place.ticket = ticket;
    this.#putInOrder();
    return true;
  }

  untilAttempt(acquisition: Acquisition): Promise<string | undefined> | undefined {
    if (!this.#tickets || acquisition.waiter.isTry) return undefined;
    // Also with a ticket, which a caller that has left has drawn: if those before it are dead, a caller with a short wait would
    // never have its turn.
    if (!this.#fair && acquisition.attempts === 0 && !this.#mayBeInLoop()) return undefined;
    return this.#untilTurn(this.#placeOf(acquisition.waiter), acquisition);
  }

  async mayTry(acquisition: Acquisition): Promise<boolean> {
    const { waiter, abortSignal, request } = acquisition;
    if (!this.#tickets) return true;
    if (!this.#fair) return !(await this.#mustLeaveItToOthers(this.#tickets, acquisition));
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

  /** A loop of tries would be the first to acquire the lock each time that it has released it. */
  async #mustLeaveItToOthers(tickets: TicketDispenser, { abortSignal, request }: Acquisition): Promise<boolean> {
    if (!this.#sinceRelease || this.#sinceRelease() > recentInMs) return false;
    // For example a client that may not read the tickets: then it is not known whether others wait.
    return this.#lookForOthers(tickets, abortSignal, request).catch(() => false);
  }

  async next(lease: HeldLease, waiter: LeaseWaiter, waiting: number, request: Omit<LeaseRequest, "abortSignal">): Promise<FencingToken> {
    const place = this.#placeOf(waiter);
    const { ticket, isBorrowed = false } = place;
    // Used up: if the caller leaves now, the next one of this process must not get it, and with it the epoch that is reserved for it.
    place.ticket = undefined;
    // Of a lease that is handed over within this process, it has written the record itself.
    if (ticket !== undefined && this.#lease !== lease) await this.#findRecord(lease, request);
    this.#lease = lease;
    this.#turns++;
    // Of a ticket from before a restart, no process knows the turn.
    const token = await this.#epochs.next(lease, { waiting, ticket, isBorrowed, restarted: this.#servedIsUnknown, request }).catch((error: unknown) => {
      place.ticket ??= ticket;
      if (this.#line.left.has(place)) this.#abandonTicketOf(place);
      throw error;
    });
    if (ticket !== undefined) {
      // What was seen before a restart says nothing about the tickets from now on.
      if (this.#servedIsUnknown) this.#pace.forget();
      this.#servedIsUnknown = false;
      this.#ownTicket = ticket;
      this.#othersWait = true;
      this.#sinceLookForOthers = undefined;
    } else this.#wasContended = false;
    this.#free = undefined;
    return { ...token, raiseGuarding: (epoch) => this.#epochs.raiseGuarding(lease, epoch) };
  }

  /** The record that this process has not seen yet reserves an epoch for it: then it can begin without writing. */
  async #findRecord(lease: HeldLease, request: Omit<LeaseRequest, "abortSignal">): Promise<void> {
    if (lease.etag === undefined || lease.etag === this.#epochs.known?.etag) return;
    await this.#looking?.catch(() => undefined);
    if (lease.etag !== this.#epochs.known?.etag) await this.#look({ request }).catch(() => undefined);
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

  pendingWrite(): PendingWrite | undefined {
    return this.#epochs.pendingWrite();
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

  async #untilTurn(place: PlaceInLine, acquisition: Acquisition): Promise<string | undefined> {
    const { abortSignal, pacing } = acquisition;
    // Before it draws a ticket. The look that was sent along with an attempt may have ended before the attempt: then its error has not
    // reached a caller.
    if (this.#isOtherMode) await this.#look(acquisition);
    // Many were passed over, as the service was overloaded or many tickets were abandoned: all of them would come first now.
    if (this.#distanceOf(place) < -maxPassedOver) place.ticket = undefined;
    if (place.ticket === undefined && !(await this.#queueUp(place, acquisition))) return undefined;
    await this.#looking;
    // With a ticket that was drawn while a caller of this process with other options held the lock.
    if (this.#epochs.known === undefined) await this.#look(acquisition);
    if (acquisition.attempts > 0) await this.#replacePassedOver(place, acquisition);
    let seenFree: FreeSince | undefined;
    for (let isFirst = true; ; isFirst = false) {
      // A ticket from before a restart may be so large that its turn never comes.
      if (this.#restartsAtDraw.get(place) !== this.#restarts) await this.#drawAgain(place, abortSignal, acquisition.request);
      const distance = this.#distanceOf(place);
      if (distance <= 1) {
        if (!isFirst || acquisition.attempts === 0) return undefined;
        await this.#untilTry(acquisition);
        // Passed over, perhaps unnoticed, or it is not known which ticket was served last.
        if (distance < 1 || this.#mayBePassedOver()) this.#lookMeanwhile(acquisition);
        return undefined;
      }
      // Callers of a fair lock have made no attempt yet: what was seen before they came does not count.
      if (this.#fair && acquisition.attempts === 0 && isFirst) {
        await this.#look(acquisition);
        if (this.#distanceOf(place) <= 1) continue;
      }
      // If it is free, those with earlier tickets may be dead: that is not known yet, and a short wait is extended until it is, or
      // until another holder came in between.
      if (!this.#fair || !this.#free || (seenFree && seenFree !== this.#free)) acquisition.onTaken();
      else acquisition.onUndecided();
      seenFree = this.#free;
      if (distance === 2 && this.#pace.unchangedForInMs < maxFollowInMs) {
        await this.#untilTry(acquisition);
        // If it has the lock, it knows the record from this look.
        this.#lookMeanwhile(acquisition);
        return this.#epochs.known?.etag;
      }
      await delay(pacing.slowed(this.#untilLook(distance, acquisition.waiter)), abortSignal);
      await this.#look(acquisition);
      if (this.#free && this.#distanceOf(place) > 1 && this.#free.clock() >= this.#graceOf(distance, acquisition.waiter)) return undefined;
    }
  }

  async #untilTry({ waiter, pacing, abortSignal }: Acquisition): Promise<void> {
    const waitInMs = this.#pace.untilTry();
    if (waitInMs > 0) await delay(pacing.slowed(waitInMs), abortSignal);
    // A caller that has left meanwhile makes no attempt. If its wait counted, a row of callers with shorter waits would never make one.
    if (!waiter.isSettled()) this.#pace.tried();
  }

  /** A look at the same time as the attempt that follows. */
  #lookMeanwhile(acquisition: Acquisition): void {
    const looking = this.#look(acquisition)
      .catch((error: unknown) => {
        // Otherwise the caller has left. Those that have come since have lost nothing.
        if (!acquisition.abortSignal.aborted) throw error;
      })
      .finally(() => {
        if (this.#looking === looking) this.#looking = undefined;
      });
    // The next attempt awaits it, and fails if it has failed.
    looking.catch(() => undefined);
    this.#looking = looking;
  }

  /** How long those before a waiter have to use a lock that is free. */
  #graceOf(distance: number, waiter: LeaseWaiter): number {
    if (!this.#fair) return graceInMs * Math.log2(distance);
    // A caller that would have to leave does not wait for longer than those that are next: otherwise no caller with a short wait would
    // ever have a lock that is free.
    return fairGraceInMs * Math.min(Math.log2(distance), waiter.leftInMs <= lastChanceInMs ? 2 : Infinity);
  }

  #untilLook(distance: number, { leftInMs }: LeaseWaiter): number {
    const usual = this.#pace.untilLook(distance);
    if (!this.#fair || !this.#free) return usual;
    return Math.min(usual, leftInMs > lastChanceInMs ? Math.max(minLookDelayInMs, leftInMs - 0.8 * lastChanceInMs) : lastChanceInMs / 2);
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
      await Promise.all([place.ticket === undefined && this.#drawAgain(place, abortSignal, request), !knowsRecord && this.#look(acquisition)]);
    } catch (error) {
      if (abortSignal.aborted || isConcurrencyError(error) || this.#fair) throw error;
      if (isTransient(error) || isNotFound(error)) {
        // So many processes come at once that the service throttles, or the blob is deleted again and again: those without a ticket come
        // back later.
        await delay(fullJitter(this.#failedDraws++, 1_000, maxPauseInMs), abortSignal);
        return false;
      }
      // For example a SAS that does not allow to create blobs. Polling needs no tickets, but is not fair.
      logger.warning(`the waiters of ${redactUrl(this.#blob.url)} cannot draw tickets, and wait in no order: ${errorLabel(error)}`);
      this.#tickets = undefined;
      if (attempts > 0) await delay(pacing.nextPollInMs(), abortSignal);
      return false;
    }
    this.#failedDraws = 0;
    // No other process waits: the next turn needs no ticket.
    this.#wasContended = attempts > 0 || this.#distanceOf(place) > 1;
    return true;
  }

  /**
   * A process that was passed over comes first as soon as it acquires the lease before the next one does. If it is too slow for that, or if
   * no holder can know that it waits, as the ticket that was drawn last is served, then it could wait for as long as others want the lock.
   * So it draws again. With `fair`, only after many were served before it, see {@link maxPassedOver}.
   */
  async #replacePassedOver(place: PlaceInLine, { abortSignal, request }: Acquisition): Promise<void> {
    const tickets = this.#tickets;
    const served = this.#epochs.known?.record.served;
    if (this.#fair || !tickets || served === undefined || this.#servedIsUnknown || this.#distanceOf(place) > 0) {
      place.passedOverAt = undefined;
      return;
    }
    place.passedOverAt ??= served;
    if (served <= place.passedOverAt + 1 && (await this.#lookForOthers(tickets, abortSignal, request))) return;
    place.passedOverAt = undefined;
    await this.#draw(place, abortSignal, request);
  }

  async #draw(place: PlaceInLine, abortSignal: AbortSignal, request: Omit<LeaseRequest, "abortSignal">): Promise<void> {
    const served = this.#epochs.known?.record.served;
    const ticket = await this.#tickets?.draw(served, abortSignal, request).catch((error: unknown) => {
      throw this.#fair && (isBlobTypeMismatch(error) || isLeaseConflict(error)) ? this.#foreignTickets(error) : error;
    });
    // It was drawn after that one was served: the tickets were deleted in between.
    if (ticket !== undefined && ticket <= (served ?? 0)) this.#restart();
    this.#restartsAtDraw.set(place, this.#restarts);
    place.ticket = ticket;
    if (this.#line.left.has(place)) this.#abandonTicketOf(place);
  }

  /**
   * A new ticket, which is later than those of the callers behind this one: each gets the next earlier ticket. Otherwise theirs would not be
   * used when it is their turn, as this process serves its callers in their order. All processes would wait for each of them, those
   * callers would be passed over, and would draw again in turn, and so on.
   */
  async #drawAgain(place: PlaceInLine, abortSignal: AbortSignal, request: Omit<LeaseRequest, "abortSignal">): Promise<void> {
    await this.#draw(place, abortSignal, request);
    this.#putInOrder();
  }

  /** The callers of this process are served in their order. */
  #putInOrder(): void {
    const places = [...this.#line.waiting].filter((other) => this.#isUsable(other));
    const tickets = places.map(({ ticket = 0 }) => ticket).sort((a, b) => a - b);
    for (const [i, other] of places.entries()) other.ticket = tickets[i];
  }

  #isUsable(place: PlaceInLine): boolean {
    const { ticket } = place;
    return ticket !== undefined && (this.#restartsAtDraw.get(place) ?? this.#restarts) === this.#restarts && this.#distanceOf(place) >= -maxPassedOver;
  }

  /** Without tickets, a fair lock has no order. */
  #foreignTickets(cause: unknown): LockModeMismatchError {
    const url = `${redactUrl(this.#blob.url)}.tickets`;
    const message = `${url} is a blob of another program${isLeaseConflict(cause) ? ", or leased by one" : ""}: the waiters of a fair lock draw their tickets from an append blob of that name. Delete it, or use another name or prefix for the lock.`;
    return createError(LockModeMismatchError, message, { url, setting: "tickets", expected: "AppendBlob", found: "unknown", cause });
  }

  /** How many tickets are served until it is the turn of this one, itself included; 0 or less: it was passed over, and comes first. */
  #distanceOf({ ticket = 0 }: PlaceInLine): number {
    const served = this.#epochs.known?.record.served;
    if (served === undefined || this.#servedIsUnknown) return 0;
    let abandoned = 0;
    for (const other of this.#line.abandoned.keys()) {
      if (other <= served) this.#line.abandoned.delete(other);
      else if (other < ticket) abandoned++;
    }
    return ticket - served - abandoned;
  }

  /** The next ticket to be served after this one, as far as this process knows. */
  #nextAfter(ticket: number): number {
    let next = ticket + 1;
    while (this.#line.abandoned.has(next)) next++;
    return next;
  }

  /** The next process does not look, as its attempts show whether the lock is free. But they do not show that another one came before it. */
  #mayBePassedOver(): boolean {
    return !this.#sinceLook || this.#sinceLook() >= Math.min(maxUnnoticedInMs, Math.max(passedOverAfterInMs, this.#pace.unchangedForInMs / 10));
  }

  /** Reads the record of the lock, and whether it is held. */
  async #look({ abortSignal, request: { onRequest, tracingOptions }, pacing }: Pick<Acquisition, "request"> & Partial<Acquisition>): Promise<void> {
    onRequest?.();
    const turns = this.#turns;
    const { known } = this.#epochs;
    const options = (signal: AbortSignal): BlobCallOptions => ({ abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
    this.#sinceLook = startStopwatch();
    const found = await request<LeasePropertiesLike>((signal) => this.#blob.getProperties(options(signal)), { timeoutInMs, abortSignal });
    pacing?.polled(pollResultOf(found));
    if (found.kind !== "ok" && !isNotFound(found.error)) throw found.error;
    // This process has had the lock meanwhile, and knows more.
    if (turns !== this.#turns) return;
    const properties = found.kind === "ok" ? found.value : {};
    const { etag, leaseState, lastModified } = properties;
    checkRecordFormat(properties.metadata, this.#blob.url);
    const record = parseLockRecord(properties.metadata);
    const servedBefore = this.#epochs.known?.record.served ?? 0;
    // The response is older than what this process has written or seen meanwhile: counting has not begun anew.
    if (this.#epochs.known !== known && (record.served ?? 0) < (this.#epochs.known?.record.served ?? 0)) return;
    // Set unless it rejects.
    this.#isOtherMode = true;
    this.#epochs.learn({ record, etag: etag ?? "", lastModified });
    this.#isOtherMode = false;
    this.#observe(record.served ?? 0, etag, servedBefore);
    const isFree = leaseState !== "leased" && leaseState !== "breaking";
    if (!isFree) this.#free = undefined;
    else if (!this.#free || this.#free.etag !== etag) this.#free = { etag, clock: startStopwatch() };
  }

  /** @param servedBefore - As this process has seen or written it last: of its own turns, {@link LockTurns.#pace} knows nothing. */
  #observe(served: number, etag: string | undefined, servedBefore: number): void {
    const turns = this.#pace.observe(served, etag);
    if (turns === undefined) return;
    if (turns < 0 || served < servedBefore) {
      this.#restart();
      this.#tickets?.startAnew(served);
    }
    if (turns > 0) this.#servedIsUnknown = false;
  }

  #restart(): void {
    this.#restarts++;
    this.#servedIsUnknown = true;
    this.#ownTicket = undefined;
    this.#line.abandoned.clear();
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
const remembered = new WeakMap<object, { readonly locks: Recent<LockTurns>; readonly lines: Recent<CallerLine> }>();

export function lockRulesFor({ owner, key }: LeaseAdapter, container: ContainerLike, prefix: string, blobName: string, info: HolderInfo, takesTurns: boolean): LockTurns {
  let known = remembered.get(owner);
  if (!known) remembered.set(owner, (known = { locks: new Recent<LockTurns>(maxRemembered), lines: new Recent<CallerLine>(maxRemembered) }));
  const { locks, lines } = known;
  // One that is in use stays alive with its queue, even if it is forgotten here.
  return locks.get(JSON.stringify([key, prefix, info, takesTurns]), () => {
    const blob = container.getBlockBlobClient(blobName);
    const tickets = takesTurns && container.getAppendBlobClient && new TicketDispenser((generation) => ticketBlobOf(container, blobName, generation));
    return new LockTurns(blob, new EpochAllocator(blob, info, new EpochFloor(container, prefix)), tickets || undefined, info.fair, lines.get(key, () => new CallerLine()));
  });
}

function ticketBlobOf(container: ContainerLike, blobName: string, generation: number): AppendBlobLike {
  const client = container.getAppendBlobClient?.(ticketBlobName(blobName, generation));
  if (!client) throw new TypeError("the container client has no append blobs");
  return client;
}
