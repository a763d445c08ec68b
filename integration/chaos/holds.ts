/** Something that a worker holds. */
interface Hold {
  readonly worker: string;
  readonly task: string;
  /** When its worker was killed, or suspended for longer than a lease lasts. */
  orphanedAt?: number;
}

/** Who holds what, as the workers report it, and which holds of dead or suspended workers others took over. */
export class Holds {
  /** By scenario, then by resource. A reader lock has several holders. */
  readonly #holds = new Map<string, Map<string, Hold[]>>();
  readonly #takeovers = new Map<string, number>();
  readonly #orphaned = new Map<string, number[]>();

  begin(scenario: string, resource: string, worker: string, task: string): void {
    const held = this.#of(scenario, resource);
    const orphans = held.filter((hold) => hold.orphanedAt !== undefined && hold.worker !== worker);
    if (orphans.length > 0) this.#takeovers.set(scenario, this.takeovers(scenario) + 1);
    this.#holds.get(scenario)?.set(resource, [...held.filter((hold) => !orphans.includes(hold)), { worker, task }]);
  }

  end(scenario: string, resource: string, task: string): void {
    const held = this.#of(scenario, resource);
    this.#holds.get(scenario)?.set(resource, held.filter((hold) => hold.task !== task));
  }

  /** The worker is killed or suspended. Returns the scenarios in which it held something. */
  orphan(worker: string, at: number): string[] {
    const scenarios: string[] = [];
    for (const [scenario, resources] of this.#holds) {
      const lost = [...resources.values()].flat().filter((hold) => hold.worker === worker && hold.orphanedAt === undefined);
      if (lost.length === 0) continue;
      for (const hold of lost) hold.orphanedAt = at;
      this.#orphaned.set(scenario, [...(this.#orphaned.get(scenario) ?? []), ...lost.map(() => at)]);
      scenarios.push(scenario);
    }
    return scenarios;
  }

  takeovers(scenario: string): number {
    return this.#takeovers.get(scenario) ?? 0;
  }

  /** How many holds were orphaned until then. */
  orphans(scenario: string, until = Infinity): number {
    return (this.#orphaned.get(scenario) ?? []).filter((at) => at <= until).length;
  }

  #of(scenario: string, resource: string): readonly Hold[] {
    let resources = this.#holds.get(scenario);
    if (!resources) this.#holds.set(scenario, (resources = new Map<string, Hold[]>()));
    return resources.get(resource) ?? [];
  }
}
