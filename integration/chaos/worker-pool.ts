import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import type { Assignment, Order, Report } from "./messages.js";

/** One place in the pool: when its process is killed, another one takes its place. */
interface Member {
  readonly place: number;
  readonly worker: string;
  /** Each of its tasks has done something since the storm was over. */
  recovered: boolean;
  readonly child: ChildProcess;
  readonly gone: Promise<void>;
  stopped: boolean;
  killed: boolean;
  stderr: string;
}

/** What the pool tells the supervisor besides the reports that it logs. */
export interface PoolEvents {
  /** A worker ran, and the storage responded to it. */
  beat(): void;
  report(report: Exclude<Report, { kind: "beat" | "faint" | "die" | "recovered" }>, worker: string): void;
  /** A worker was killed, or is suspended for this long. */
  lost(worker: string, forInMs: number): void;
}

/** The worker processes of a run. */
export class WorkerPool {
  readonly #members: Member[] = [];
  readonly #pids = new Set<number>();
  readonly #events: PoolEvents;
  readonly #assign: (worker: string) => Assignment;
  /** Processes that ended by themselves before they were told to: each is a failure of the run. */
  readonly deaths: string[] = [];
  /** How many stopped themselves at a bad moment. */
  faints = 0;
  readonly #pauses = new Set<Promise<void>>();
  #incarnations = 0;
  #dismissed = false;

  constructor(size: number, events: PoolEvents, assign: (worker: string) => Assignment) {
    this.#events = events;
    this.#assign = assign;
    for (let place = 0; place < size; place++) this.#members.push(this.#start(place));
  }

  get size(): number {
    return this.#members.length;
  }

  async kill(place: number): Promise<void> {
    const member = this.#member(place);
    // It is being killed already, or there is nothing left to do: no other one takes its place.
    if (member.killed || this.#dismissed) return;
    member.killed = true;
    member.child.kill("SIGKILL");
    await member.gone;
    this.#events.lost(member.worker, Infinity);
    const successor = this.#start(place);
    this.#members[place] = successor;
    if (this.isDismissed) successor.child.send("calm" satisfies Order, () => undefined);
  }

  /** All have been told to end. */
  get isDismissed(): boolean {
    return this.#dismissed;
  }

  /** Whether the process of a task runs. */
  isAlive(task: string): boolean {
    return this.#members.some(({ worker }) => task.startsWith(`${worker}.`));
  }

  setClockOf(place: number, byInMs: number): void {
    this.#member(place).child.send({ setClockBy: byInMs } satisfies Order, () => undefined);
  }

  /** Until each task of each process has done something since the storm, or was given up. */
  async recovered(): Promise<void> {
    while (this.#members.some((member) => !member.recovered && member.child.exitCode === null && member.child.signalCode === null)) await sleep(50);
  }

  stopFor(place: number, ms: number): void {
    const member = this.#member(place);
    if (member.stopped) return;
    member.stopped = true;
    member.child.kill("SIGSTOP");
    this.#events.lost(member.worker, ms);
    this.#wakeAfter(member, ms);
  }

  /** Until nobody is stopped any more. */
  async awake(): Promise<void> {
    while (this.#pauses.size > 0) await Promise.all([...this.#pauses]);
  }

  #wakeAfter(member: Member, ms: number): void {
    const pause = Promise.race([new Promise<void>((resolve) => setTimeout(resolve, ms)), member.gone]).then(() => {
      member.child.kill("SIGCONT");
      member.stopped = false;
      this.#pauses.delete(pause);
    });
    this.#pauses.add(pause);
  }

  get awakeCount(): number {
    return this.#members.filter(({ stopped }) => !stopped).length;
  }

  isStopped(place: number): boolean {
    return this.#member(place).stopped;
  }

  order(order: Order): void {
    this.#dismissed = true;
    for (const { child } of this.#members) child.send(order, () => undefined);
  }

  /** Waits until all have ended; what has not by then is killed, and named. */
  async ended(limitInMs: number): Promise<void> {
    const late = setTimeout(() => {
      for (const { child, place } of this.#members) {
        if (child.exitCode === null && child.signalCode === null) {
          this.deaths.push(`worker ${place} did not end within ${limitInMs / 1000} s`);
          child.kill("SIGKILL");
        }
      }
    }, limitInMs);
    await Promise.all(this.#members.map(({ gone }) => gone));
    clearTimeout(late);
  }

  /** Processes of this run that are still there. */
  leftover(): number[] {
    return [...this.#pids].filter((pid) => {
      try {
        return process.kill(pid, 0);
      } catch {
        return false;
      }
    });
  }

  /** Whatever happens. */
  killAll(): void {
    for (const { child } of this.#members) child.kill("SIGKILL");
  }

  #member(place: number): Member {
    const member = this.#members[place];
    if (!member) throw new RangeError(`there is no place ${place}`);
    return member;
  }

  #start(place: number): Member {
    const worker = `w${place}-${this.#incarnations++}`;
    const assignment = this.#assign(worker);
    const child = spawn(process.execPath, ["--import", "tsx", fileURLToPath(new URL("worker.ts", import.meta.url)), JSON.stringify(assignment)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    if (child.pid !== undefined) this.#pids.add(child.pid);
    child.on("message", (report: Report) => {
      switch (report.kind) {
        case "beat":
          this.#events.beat();
          return;
        case "recovered":
          member.recovered = true;
          return;
        case "die":
          this.faints++;
          if (this.#dismissed) {
            member.stopped = true;
            this.#wakeAfter(member, 1_000);
          } else void this.kill(place);
          return;
        case "faint":
          this.faints++;
          member.stopped = true;
          this.#wakeAfter(member, report.forInMs);
          this.#events.lost(worker, report.forInMs);
          return;
        default:
          this.#events.report(report, worker);
      }
    });
    const gone = new Promise<void>((resolve) =>
      child.on("close", (code, signal) => {
        if (!member.killed && !(this.#dismissed && code === 0)) {
          this.deaths.push(`worker ${place} ended with ${signal ?? `code ${code ?? "none"}`}: ${member.stderr.trim().split("\n").slice(-6).join(" | ")}`);
        }
        resolve();
      }),
    );
    const member: Member = { place, worker, child, gone, recovered: false, stopped: false, killed: false, stderr: "" };
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (member.stderr += text));
    return member;
  }
}
