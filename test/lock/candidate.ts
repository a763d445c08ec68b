import { LeaderElection } from "../../src/lock/leader-election.js";
import type { LeaderElectionOptions, LeadershipTerm } from "../../src/lock/leader-election.js";
import type { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { locksOn } from "./support.js";

export interface Candidate {
  readonly election: LeaderElection;
  readonly terms: LeadershipTerm[];
  readonly errors: unknown[];
}

/** One who takes part in an election as a process of its own, unless it is given locks to share. */
export function candidate(server: FakeLeaseServer, options: Partial<LeaderElectionOptions> = {}, locks = locksOn(server)): Candidate {
  const terms: LeadershipTerm[] = [];
  const errors: unknown[] = [];
  const election = new LeaderElection(locks, "scheduler", {
    onError: (error) => errors.push(error),
    ...options,
    onElected: (term) => {
      terms.push(term);
      return options.onElected?.(term);
    },
  });
  return { election, terms, errors };
}
