import { isAborted, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { jitter } from "../core/retry.js";
import { isConcurrencyError } from "../errors.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import { fingerprint } from "../queue/envelope.js";
import { tableIdentityOf } from "../queue/inbox/record.js";
import { jitterOf } from "./due-times.js";
import { JobRun } from "./job-run.js";
import type { Instance, Job } from "./job-run.js";
import { claimed, decide, finished, newJob, registered, released, skipped, takenOver, withNextDue } from "./job-state.js";
import type { Attempt, Decision, JobState, RunState } from "./job-state.js";
import type { FoundJob, JobStore } from "./job-store.js";
import { settleReceipt } from "./run-commit.js";
import { runInfo } from "./run-info.js";

/** Instances do not look at a due time all at once, but within this time: those that come later find it claimed, which costs them 1 request. */
const maxSpreadInMs = 1_000;

/** A run of another instance: since when this one has seen it, and when it last tried its lock. */
interface Observed {
  readonly id: string;
  readonly since: Clock;
  readonly waitInMs: number;
}

/** A job that has waited for so long for its claim is checked again. */
const maxLookAgeInMs = 2_000;

/** The look that found a job. */
interface Look {
  readonly stopped: AbortSignal;
  readonly ageInMs: Clock;
}

/** Runs one job on one instance: at most one run at a time. */
export class JobRunner {
  readonly job: Job;
  /** When the job is due, by the clock of the service, as far as this instance knows. */
  wakeAt: number | undefined;
  readonly #instance: Instance;
  readonly #locks: BlobLocks;
  readonly #lockName: string;
  #observed: Observed | undefined;
  #busy: Promise<void> | undefined;

  constructor(instance: Instance, locks: BlobLocks, job: Job) {
    this.#instance = instance;
    this.#locks = locks;
    this.job = job;
    this.#lockName = lockNameOf(instance.store, job.name);
  }

  /** Resolves when nothing of this job is in progress on this instance. Undefined: nothing is. */
  get busy(): Promise<void> | undefined {
    return this.#busy;
  }

  /** Creates the row of the job, or tells that its trigger has changed. */
  async register(found: FoundJob | undefined, abortSignal: AbortSignal): Promise<void> {
    const { store } = this.#instance;
    if (found && store.stateOf(found).trigger === this.job.times.text) return;
    const { times } = this.job;
    await store.write(this.job.name, (state, now) => registered(state, this.job, now), { initial: (now) => withNextDue(newJob(times.text, now), times), abortSignal });
  }

  /** Does what is to be done about the job, in the background. `onEnd` is called at its end: with true if another look is needed at once. */
  advance(found: FoundJob, stopped: AbortSignal, onEnd: (mustLook: boolean) => void): void {
    if (this.#busy || isAborted(stopped)) return;
    this.wakeAt = undefined;
    const work = this.#advance(found, stopped)
      .catch((error: unknown) => {
        // Another instance was faster.
        if (!isConcurrencyError(error, "CONFLICT") && !isAborted(stopped)) this.#instance.onError(error);
        return false;
      })
      .then((again) => {
        this.#busy = undefined;
        onEnd(again);
      });
    this.#busy = work;
  }

  /** Returns whether another look is needed at once. */
  async #advance(found: FoundJob, stopped: AbortSignal): Promise<boolean> {
    const ageInMs = startStopwatch();
    const { store } = this.#instance;
    const state = store.stateOf(found);
    // While another instance has the job, this one looks again at the next due time, and not only at the next poll.
    this.#waitAfter(state.cursor);
    if (state.run) return this.#isWorthATry(state.run) && this.#takeOver(found, state.run, { stopped, ageInMs });
    this.#observed = undefined;
    const decision = decide(state, this.job, store.clock.now);
    switch (decision.kind) {
      case "wait":
        this.#wait(decision.at);
        return false;
      case "skip":
        return this.#skip(found, decision);
      case "run":
        return this.#claim(found, state, decision, { stopped, ageInMs });
    }
  }

  #waitAfter(cursor: number): void {
    const { key, times, policy } = this.job;
    const due = times.next(Math.max(cursor, this.#instance.store.clock.now));
    this.#wait(due === undefined ? undefined : due + jitterOf(key, due, policy.jitterInMs));
  }

  #wait(at: number | undefined): void {
    this.wakeAt = undefined;
    if (at === undefined) return;
    const next = this.job.times.next(at);
    const spreadInMs = Math.min(maxSpreadInMs, next === undefined ? maxSpreadInMs : (next - at) / 10);
    // The same for all jobs of an instance that are due at the same time: they share a look.
    this.wakeAt = at + Math.floor((Number.parseInt(fingerprint(`${this.#locks.holder}/${at}`).slice(0, 8), 16) / 2 ** 32) * spreadInMs);
  }

  async #skip(found: FoundJob, decision: Decision & { kind: "skip" }): Promise<boolean> {
    const { store, settings, onFinished } = this.#instance;
    const next = await store.write(this.job.name, (state) => skipped(state, decision, this.job, settings.historyLimit), { startFrom: found });
    const entry = next?.history.at(-1);
    if (entry) onFinished(runInfo(this.job.name, entry, "skipped"));
    return next !== undefined;
  }

  /**
   * The lock first, then the claim: a row that says "running" while its lock is free is that of a process that has crashed, or lost
   * its lock. A crash between both leaves the due time to be claimed.
   */
  async #claim(found: FoundJob, basis: JobState, decision: Decision & { kind: "run" }, look: Look): Promise<boolean> {
    const { store, settings } = this.#instance;
    return this.#underLock(look, async (lock, onClaimed) => {
      const attempt = this.#attempt();
      const transition = (state: JobState): JobState | undefined => claimed(state, basis, decision, this.job, attempt, settings.historyLimit);
      let next: JobState | undefined;
      try {
        next = await store.persist(this.job.name, transition, () => lock.isHeld(), { startFrom: found });
      } catch (error) {
        // No other instance has the lock: one has run the due time already, or a trigger, a pause or a changed job has met it, and it is still to be claimed.
        if (isConcurrencyError(error, "CONFLICT")) return true;
        throw error;
      }
      onClaimed();
      return next?.run ? this.#run(lock, next.run) : false;
    });
  }

  /**
   * While another instance runs the job, its lock is tried from time to time. A run that was given back, and one that this instance has
   * lost track of, is tried at once.
   */
  #isWorthATry({ id, isReleased }: RunState): boolean {
    if (isReleased) return true;
    const observed = this.#observed;
    const { takeoverIntervalInMs } = this.#instance.settings;
    if (observed?.id === id && observed.since() < observed.waitInMs) return false;
    this.#observed = { id, since: startStopwatch(), waitInMs: jitter(takeoverIntervalInMs, 0.25) };
    return observed?.id === id;
  }

  /** If the lock of a run is free, its process has crashed, or lost the lock. */
  async #takeOver(found: FoundJob, seen: RunState, look: Look): Promise<boolean> {
    const { store } = this.#instance;
    return this.#underLock(look, async (lock, onClaimed) => {
      // Again under the lock: the run may have ended since it was seen. A second time, if a commit was announced meanwhile.
      for (let dead: RunState | undefined = seen, tries = 0; dead && tries < 3; tries++) {
        const committed = await settleReceipt(store, this.job.name, dead);
        const next = await this.#replace(lock, dead, committed);
        if (next) {
          onClaimed();
          return next.run ? this.#run(lock, next.run) : true;
        }
        const current: FoundJob | undefined = (await store.look({ abortSignal: look.stopped })).get(found.name);
        const { run }: { run: RunState | undefined } = current ? store.stateOf(current) : { run: undefined };
        dead = run?.id === seen.id ? run : undefined;
      }
      return true;
    });
  }

  /** Ends the run of a dead process, or begins another attempt. Undefined: it is not as it was seen any more. */
  async #replace(lock: LockHandleImpl, dead: RunState, receipt: "committed" | "void"): Promise<JobState | undefined> {
    const { store, settings, onFinished } = this.#instance;
    const { onCrash, maxAttempts } = this.job.policy;
    const isHeld = (): boolean => lock.isHeld();
    const mustFail = receipt === "void" && !dead.isReleased && (onCrash === "fail" || dead.attempt >= maxAttempts);
    if (receipt === "void" && !mustFail) {
      const attempt = this.#attempt();
      return store.persist(this.job.name, (state) => takenOver(state, dead, attempt), isHeld);
    }
    const error = mustFail ? `The process that ran it (${dead.holder}) has crashed, or lost its lock, in attempt ${dead.attempt}` : undefined;
    const outcome = { state: mustFail ? "failed" : "succeeded", error, durationInMs: undefined } as const;
    const isSame = ({ run }: JobState): boolean => run?.id === dead.id && run.partition === dead.partition;
    const next = await store.persist(this.job.name, (state, now) => (isSame(state) ? finished(state, dead.id, outcome, this.job, now, settings.historyLimit) : undefined), isHeld);
    if (next) onFinished(runInfo(this.job.name, { ...dead, ...outcome }, outcome.state), error);
    return next;
  }

  /** Returns whether the job has more to do at once. */
  async #run(lock: LockHandleImpl, run: RunState): Promise<boolean> {
    const { store, hurry } = this.#instance;
    if (!lock.isHeld() || hurry.aborted) {
      // It has not started: any instance may do so at once.
      await store.persist(this.job.name, (state) => released(state, run.id), () => lock.isHeld());
      return true;
    }
    const execution = new JobRun(this.#instance, this.job, lock, run);
    const state = await execution.execute();
    await lock[Symbol.asyncDispose]();
    // Abandoned work may still run, and must not run beside the next run of this instance.
    await execution.work;
    if (!state) return true;
    const decision = decide(state, this.job, store.clock.now);
    if (decision.kind === "wait") this.#wait(decision.at);
    return decision.kind !== "wait";
  }

  #attempt(): Attempt {
    return { id: crypto.randomUUID(), holder: this.#locks.holder, startedAt: this.#instance.store.clock.now };
  }

  /** `onClaimed` lets the next job be claimed: a run takes as long as it takes. */
  async #underLock({ stopped, ageInMs }: Look, work: (lock: LockHandleImpl, onClaimed: () => void) => Promise<boolean>): Promise<boolean> {
    const { claims } = this.#instance;
    await claims.take();
    let isTaken = true;
    const release = (): void => {
      if (isTaken) claims.release();
      isTaken = false;
    };
    try {
      if (isAborted(stopped)) return false;
      // Other instances have had time to claim it. One look says so of all jobs; a lock and a claim for each would cost five requests.
      if (ageInMs() > maxLookAgeInMs) return true;
      const lock = await this.#locks.tryAcquireFor("Schedule", this.#lockName, { abortSignal: stopped });
      if (!lock) return false;
      try {
        return await work(lock, release);
      } finally {
        await lock[Symbol.asyncDispose]();
      }
    } finally {
      release();
    }
  }
}

/** The service does not tell names of tables apart by their case. Schedules in different tables may have the same name, and their locks be in the same container: they have nothing to do with each other. */
export function lockNameOf({ url, name }: JobStore, job: string): string {
  return `schedule/${tableIdentityOf(url).replace(":", "/").toLowerCase()}/${name}/${job}`;
}
