import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";

/** After so many slots that are taken, one request looks at all of them. */
const takenBeforeLook = 2;
/** A process that is not permitted to look tries this many slots for each poll. */
const triesPerPoll = 4;
/** If so many slots fail, and none responds, there is no point in trying the others. */
const maxFailed = 16;
/** A slot that failed is left out for this long. */
const avoidForInMs = 10_000;
/** All slots are left to other processes for this long: longer than the first of them waits between two polls. */
export const yieldInMs = 1_200;

/** One pass over the slots that this process does not hold. */
export class SlotPoll {
  readonly tried: Set<number> = new Set<number>();
  taken = 0;
  failed = 0;
  lastFailure: unknown;
  /** After a look: those that were free. */
  free: number[] | undefined;
  readonly #maxTaken: number;

  /** @param open - How many slots this process does not hold. A single one is tried, several are listed first. Undefined: nothing is known yet. */
  constructor(open?: number) {
    this.#maxTaken = open === undefined ? takenBeforeLook : open === 1 ? 1 : 0;
  }

  mayTryBlindly(mayLook: boolean, callers: number): boolean {
    if (this.free || this.failed >= maxFailed) return false;
    return mayLook ? this.taken < this.#maxTaken : this.tried.size < Math.max(triesPerPoll, callers);
  }

  /** Whether there are slots of which nothing is known. */
  mayLook(open: number): boolean {
    return !this.free && this.failed < maxFailed && this.tried.size < open;
  }
}

/** Decides which slot is tried next. */
export class SlotChoice {
  readonly #slots: number;
  readonly #isOpen: (slot: number) => boolean;
  readonly #avoided = new Map<number, Clock>();
  #sinceYield: Clock | undefined;
  /** Those that were released here last: their epochs are known in this process, so they cost the fewest requests. */
  readonly #recent = new Set<number>();

  /** @param isOpen - Whether this process neither holds the slot nor tries to acquire it. */
  constructor(slots: number, isOpen: (slot: number) => boolean) {
    this.#slots = slots;
    this.#isOpen = isOpen;
  }

  /** A slot that has not been tried in this poll: one of this process, one that is free, or any. */
  next(poll: SlotPoll, mayTryBlindly: boolean): number | undefined {
    const recent = [...this.#recent].reverse().find((slot) => this.#isCandidate(slot, poll));
    if (recent !== undefined) return recent;
    const free = poll.free && takeRandom(poll.free, (slot) => this.#isCandidate(slot, poll));
    if (free !== undefined || !mayTryBlindly) return free;
    const any = this.#anyOf((slot) => this.#isCandidate(slot, poll));
    // One that failed lately is better than none.
    return any ?? (poll.tried.size > 0 || this.isYielding ? undefined : this.#anyOf((slot) => this.#isOpen(slot)));
  }

  /** It was released in this process. */
  prefer(slot: number): void {
    this.#recent.delete(slot);
    this.#recent.add(slot);
  }

  /** Another process has it, or it failed. */
  forget(slot: number): void {
    this.#recent.delete(slot);
  }

  avoid(slot: number): void {
    this.#avoided.set(slot, startStopwatch());
  }

  /** Other processes wait: they shall have what is free now. Not only the slot of this one: two that yield would take each other's. */
  yield(): void {
    this.#sinceYield = startStopwatch();
  }

  get isYielding(): boolean {
    return this.#sinceYield !== undefined && this.#sinceYield() < yieldInMs;
  }

  works(slot: number): void {
    this.#avoided.delete(slot);
  }

  isAvoided(slot: number): boolean {
    const since = this.#avoided.get(slot);
    if (since && since() >= avoidForInMs) this.#avoided.delete(slot);
    return this.#avoided.has(slot) || this.isYielding;
  }

  #isCandidate(slot: number, poll: SlotPoll): boolean {
    return this.#isOpen(slot) && !poll.tried.has(slot) && !this.isAvoided(slot);
  }

  /** Each process starts at a random slot, so that they do not all compete for the first one. */
  #anyOf(accept: (slot: number) => boolean): number | undefined {
    const start = Math.floor(Math.random() * this.#slots);
    for (let n = 0; n < this.#slots; n++) {
      const slot = (start + n) % this.#slots;
      if (accept(slot)) return slot;
    }
    return undefined;
  }
}

function takeRandom(numbers: number[], accept: (number: number) => boolean): number | undefined {
  while (numbers.length > 0) {
    const [number] = numbers.splice(Math.floor(Math.random() * numbers.length), 1);
    if (number !== undefined && accept(number)) return number;
  }
  return undefined;
}
