import type { BlobLocks } from "../../src/lock/blob-locks.js";
import { LeaderElection } from "../../src/lock/leader-election.js";
import type { LeaderElectionEvents, LeaderElectionOptions } from "../../src/lock/leader-election.js";
import type { LeadershipTerm } from "../../src/lock/term.js";
import type { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { locksOn } from "./support.js";

export interface Candidate {
  readonly election: LeaderElection;
  readonly terms: LeadershipTerm[];
  readonly errors: unknown[];
  readonly ended: LeaderElectionEvents["ended"][];
}

/** A candidate that is a process of its own, unless it is given locks to share. */
export function candidate(
  server: FakeLeaseServer,
  { onElected, ...options }: LeaderElectionOptions & { onElected?: (term: LeadershipTerm) => Promise<void> | void } = {},
  locks: BlobLocks = locksOn(server),
): Candidate {
  const terms: LeadershipTerm[] = [];
  const errors: unknown[] = [];
  const ended: LeaderElectionEvents["ended"][] = [];
  const work = (term: LeadershipTerm): Promise<void> | void => {
    terms.push(term);
    return onElected?.(term);
  };
  const election = new LeaderElection(locks, "scheduler", work, options);
  election.on("error", (error) => errors.push(error)).on("ended", (detail) => ended.push(detail));
  return { election, terms, errors, ended };
}
