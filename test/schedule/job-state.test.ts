import { expect, test } from "vitest";
import { dueTimesOf } from "../../src/schedule/due-times.js";
import { claimed, decide, finished, intended, newJob, released, takenOver } from "../../src/schedule/job-state.js";
import type { JobRules, JobState } from "../../src/schedule/job-state.js";

const now = Date.UTC(2030, 0, 1);
const rules: JobRules = { key: "k", times: await dueTimesOf("job", { everyInMs: 1_000 }), policy: { missed: "all", overlap: "queue", jitterInMs: 0 } };
const idle = newJob("every 1000 ms", now);
const decision = decide(idle, rules, now + 1_500);
const attempt = (id: string): { id: string; holder: string; startedAt: number } => ({ id, holder: "p", startedAt: now + 1_500 });
const done = { state: "succeeded", error: undefined, durationInMs: 1 } as const;

function claim(state: JobState, id = "a"): JobState | undefined {
  if (decision.kind !== "run") throw new Error("not due");
  return claimed(state, idle, decision, rules, attempt(id), 5);
}

test("a claim moves the cursor to its due time, and is not applied to a state that has moved on", () => {
  const running = claim(idle)!;
  expect(running).toMatchObject({ cursor: now + 1_000, run: { id: "a", due: now + 1_000, attempt: 1 } });
  expect(claim(running)).toBe(running);
  expect(claim(running, "b")).toBeUndefined();
  expect(claim(finished(running, "a", done, rules, now + 1_600, 5)!, "b")).toBeUndefined();
});

test("after a takeover, every write of the earlier attempt is rejected", () => {
  const running = claim(idle)!;
  const taken = takenOver(running, running.run!, attempt("b"))!;
  expect(taken.run).toMatchObject({ id: "b", attempt: 2 });
  expect(finished(taken, "a", done, rules, now + 2_000, 5)).toBeUndefined();
  expect(intended(taken, "a", "p")).toBeUndefined();
  expect(released(taken, "a")).toBeUndefined();
  // A commit was announced after the run was seen: it has to be looked for first.
  expect(takenOver(intended(running, "a", "p")!, running.run!, attempt("b"))).toBeUndefined();
});
