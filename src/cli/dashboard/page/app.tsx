import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Snapshot } from "../snapshot.js";
import { Confirm } from "./confirm.js";
import type { Question } from "./confirm.js";
import { count, duration, localTime } from "./format.js";
import { useLive, useNow } from "./live.js";
import type { Live } from "./live.js";
import { Locks, SharedLocks } from "./locks.js";
import { Stored, Tile } from "./parts.js";
import { Queues } from "./queues.js";
import { Schedules } from "./schedules.js";
import { Tables } from "./tables.js";
import { ThemeSwitch } from "./theme.js";

export function App(): JSX.Element {
  const live = useLive();
  const now = useNow();
  const [question, setQuestion] = useState<Question>();
  const { snapshot } = live;
  const ask = snapshot?.allowsActions ? setQuestion : undefined;
  return (
    <>
      <Header live={live} />
      <main>
        {live.error !== undefined && <p class="failure" role="alert"><Stored text={live.error} className="whole" /></p>}
        {snapshot ? (
          <>
            <Summary snapshot={snapshot} />
            <Queues queues={snapshot.queues} now={now} ask={ask} />
            <Schedules schedules={snapshot.schedules} now={now} ask={ask} />
            <Locks containers={snapshot.containers} now={now} ask={ask} />
            <div class="columns">
              <SharedLocks containers={snapshot.containers} now={now} />
              <Tables tables={snapshot.tables} now={now} />
            </div>
          </>
        ) : live.error === undefined && <p class="loading">Loading…</p>}
      </main>
      {snapshot && (
        <footer class="muted">
          {count(snapshot.cost.requests)} requests since the start. While the page cannot be seen, or is paused, none are sent.{" "}
          {snapshot.allowsActions ? "Actions are allowed." : "Read-only: start the command with --allow-actions to break locks, move messages and run jobs."}
        </footer>
      )}
      {question && <Confirm question={question} onClose={() => setQuestion(undefined)} onDone={live.refresh} />}
    </>
  );
}

function Header({ live: { snapshot, error, isPaused, setPaused } }: { readonly live: Live }): JSX.Element {
  const state = error !== undefined ? "bad" : isPaused ? "warn" : "good";
  return (
    <header>
      <h1><Stored text={snapshot?.account ?? "storage account"} /><small>azure-storage-concurrency</small></h1>
      <p class="status">
        <span class={`dot ${state}`} aria-hidden="true" />
        <span role="status">{error !== undefined ? "no connection" : isPaused ? "paused" : snapshot ? `live, every ${duration(snapshot.intervalInMs)}` : "connecting"}</span>
        {snapshot && <span class="cost" title={`As of ${localTime(snapshot.takenOn)}`}><strong>{count(isPaused ? 0 : snapshot.cost.requestsPerMinute)}</strong> requests/min</span>}
      </p>
      <p class="controls">
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>{isPaused ? "Go on" : "Pause"}</button>
        <ThemeSwitch />
      </p>
    </header>
  );
}

function Summary({ snapshot: { containers, queues, schedules, tables } }: { readonly snapshot: Snapshot }): JSX.Element {
  const valuesOf = <T,>(sources: readonly { readonly value?: T | undefined }[]): T[] => sources.flatMap(({ value }) => (value === undefined ? [] : [value]));
  const sum = <T,>(values: readonly T[], pick: (value: T) => number): number => values.reduce((total, value) => total + pick(value), 0);
  // Nothing is known of what could not be read: that is not the same as none.
  const of = (known: readonly unknown[], value: string): string => (known.length === 0 ? "?" : value);
  const [locks, waiting, boxes] = [valuesOf(containers), valuesOf(queues), valuesOf(tables)];
  const jobs = valuesOf(schedules).flatMap((schedule) => schedule.jobs);
  const failing = jobs.filter(({ runs }) => runs.find((run) => run.state === "succeeded" || run.state === "failed")?.state === "failed").length;
  const poison = sum(waiting, (queue) => queue.poison ?? 0);
  const unsent = sum(boxes, ({ outbox }) => outbox.messages);
  const elections = locks.flatMap((view) => view.elections);
  const leaders = elections.filter(({ lock }) => lock?.isHeld).length;
  return (
    <dl class="tiles" aria-label="Summary">
      {queues.length > 0 && <Tile label="Messages" value={of(waiting, count(sum(waiting, (queue) => queue.messages)))} />}
      {queues.length > 0 && <Tile label="Poison" value={of(waiting, count(poison))} kind={poison > 0 ? "bad" : "plain"} />}
      {jobs.length > 0 && <Tile label="Jobs failing" value={count(failing)} detail={`of ${count(jobs.length)}`} kind={failing > 0 ? "bad" : "plain"} />}
      {containers.length > 0 && <Tile label="Locks held" value={of(locks, count(sum(locks, (view) => view.heldCount), locks.some((view) => view.isPartial)))} />}
      {elections.length > 0 && <Tile label="Leaders" value={count(leaders)} detail={`of ${count(elections.length)}`} kind={leaders < elections.length ? "bad" : "plain"} />}
      {tables.length > 0 && <Tile label="To send" value={of(boxes, count(unsent, boxes.some(({ outbox }) => outbox.isLowerBound)))} kind={unsent > 0 ? "warn" : "plain"} />}
    </dl>
  );
}
