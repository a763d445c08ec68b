import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { JobView, RunView, ScheduleView, Source } from "../snapshot.js";
import type { Ask } from "./confirm.js";
import { duration, localTime, plural, runTime, shown } from "./format.js";
import { Badge, Failure, Section, Stored, Table } from "./parts.js";

const hour = 3_600_000;
const windows = [["1 h", hour], ["6 h", 6 * hour], ["24 h", 24 * hour], ["7 days", 168 * hour], ["31 days", 744 * hour]] as const;
/** How much of the width is for what is due. */
const futureShare = 0.15;

export function Schedules({ schedules, now, ask }: { readonly schedules: readonly Source<ScheduleView>[]; readonly now: number; readonly ask: Ask | undefined }): JSX.Element | null {
  const [chosen, setChosen] = useState<number>();
  const found = schedules.flatMap(({ value }) => (value && value.jobs.length > 0 ? [value] : []));
  if (found.length === 0 && schedules.every(({ error }) => error === undefined)) return null;
  const jobs = found.flatMap((schedule) => schedule.jobs);
  const windowInMs = chosen ?? suitableWindow(jobs, now);
  return (
    <Section title="Schedule" detail={plural(jobs.length, "job")}>
      {schedules.map((source) => <Failure key={source.name} source={source} />)}
      <fieldset class="bar segments">
        <legend class="hidden">Time that is shown</legend>
        {windows.map(([label, ms]) => (
          <label key={label}><input type="radio" name="window" checked={ms === windowInMs} onChange={() => setChosen(ms)} /><span>{label}</span></label>
        ))}
      </fieldset>
      <ul class="jobs">
        {found.flatMap((schedule) => schedule.jobs.map((job) => <Job key={`${schedule.table}/${schedule.schedule}/${job.name}`} schedule={schedule} job={job} now={now} windowInMs={windowInMs} ask={ask} />))}
        <li class="axis" aria-hidden="true"><Axis windowInMs={windowInMs} /></li>
      </ul>
      <p class="legend muted" aria-hidden="true">
        <Swatch state="succeeded" /> succeeded <Swatch state="failed" /> failed <Swatch state="running" /> running <Swatch state="skipped" /> skipped <span class="swatch due" /> due
      </p>
    </Section>
  );
}

/** The shortest one with the last run of each job. */
function suitableWindow(jobs: readonly JobView[], now: number): number {
  const ages = jobs.flatMap(({ runs: [run] }) => (run ? [now - Date.parse(run.startedOn ?? run.dueOn)] : []));
  return windows.find(([, ms]) => ages.every((age) => age < ms))?.[1] ?? 744 * hour;
}

const stateKinds: Readonly<Record<string, "good" | "bad" | "warn" | "info" | "plain">> = { running: "info", paused: "warn", damaged: "bad", idle: "plain" };
const runKinds = { succeeded: "good", failed: "bad", skipped: "warn", running: "info", pending: "plain" } as const;

function Job({ schedule: { table, schedule }, job, now, windowInMs, ask }: { readonly schedule: ScheduleView; readonly job: JobView; readonly now: number; readonly windowInMs: number; readonly ask: Ask | undefined }): JSX.Element {
  const { name, trigger, state, nextDueOn, runs } = job;
  const last = runs.find((run) => run.state !== "running" && run.state !== "pending");
  const failures = runs.filter((run) => run.state === "failed");
  const dueInMs = nextDueOn === undefined ? undefined : Date.parse(nextDueOn) - now;
  return (
    <li class="job">
      <div class="head">
        <h3><Stored text={name} /></h3>
        {state !== "idle" && <Badge kind={stateKinds[state] ?? "plain"}>{state}</Badge>}
        {last?.state === "failed" && <Badge kind="bad">last run failed</Badge>}
        <small class="muted"><Stored text={trigger?.replace(/^every (\d+) ms$/, (_, ms) => `every ${duration(Number(ms))}`)} /></small>
      </div>
      <Timeline job={job} now={now} windowInMs={windowInMs} />
      <div class="due" title={localTime(nextDueOn)}>
        <span>{dueInMs === undefined ? "not due" : dueInMs <= 0 ? "due now" : <>in <strong>{duration(dueInMs)}</strong></>}</span>
        {ask && trigger !== undefined && <button type="button" aria-label={`Run the job ${shown(name)} now`} onClick={() => ask({ kind: "trigger", table, schedule, job: name, trigger, state })}>Run now…</button>}
      </div>
      {runs.length > 0 && (
        <details>
          <summary>{plural(runs.length, "run")}{failures.length > 0 && <>, <span class="bad-text">{failures.length} failed</span></>}</summary>
          {last?.state === "failed" && <p class="failure"><Stored text={last.error} className="whole" /></p>}
          <Table label={`Runs of ${shown(name)}`} heads={["Due", "State", "Duration", "Attempt", "Holder", "Error"]}>
            {runs.map((run, index) => (
              <tr key={index}>
                <th scope="row">{localTime(run.dueOn)}</th>
                <td><Badge kind={runKinds[run.state]}>{run.state}</Badge></td>
                <td class="number">{runTime(run.durationInMs)}</td>
                <td class="number">{run.attempt}</td>
                <td><Stored text={run.holder} /></td>
                <td><Stored text={run.error} className="wide" /></td>
              </tr>
            ))}
          </Table>
        </details>
      )}
    </li>
  );
}

/** Failed runs are taller than others, not only of another colour. */
const heights = { succeeded: 14, failed: 24, running: 14, skipped: 6, pending: 6 } as const;
const height = 28;

function Timeline({ job: { name, runs, nextDueOn }, now, windowInMs }: { readonly job: JobView; readonly now: number; readonly windowInMs: number }): JSX.Element {
  const from = now - windowInMs;
  const percentOf = (time: number): number => ((time - from) / windowInMs) * (1 - futureShare) * 100;
  const nowAt = (1 - futureShare) * 100;
  const shownRuns = runs.filter((run) => Date.parse(run.startedOn ?? run.dueOn) >= from);
  const dueAt = nextDueOn === undefined ? Infinity : percentOf(Math.max(now, Date.parse(nextDueOn)));
  const label = `${shown(name)}: ${plural(shownRuns.length, "run")} in the last ${duration(windowInMs)}, ${shownRuns.filter((run) => run.state === "failed").length} failed`;
  return (
    <svg class="timeline" height={height} role="img" aria-label={label}>
      <line class="lane" x1="0" x2="100%" y1={height / 2} y2={height / 2} />
      <line class="now" x1={`${nowAt}%`} x2={`${nowAt}%`} y1="0" y2={height} />
      {[...shownRuns].reverse().map((run, index) => {
        const startedAt = Date.parse(run.startedOn ?? run.dueOn);
        const lasts = run.durationInMs ?? (run.state === "running" ? now - startedAt : 0);
        const x = percentOf(startedAt);
        const width = Math.min(Math.max(0.7, percentOf(startedAt + lasts) - x), nowAt - x + 0.7);
        return (
          <rect key={index} class={`run ${run.state}`} x={`${x}%`} y={(height - heights[run.state]) / 2} width={`${width}%`} height={heights[run.state]} rx="2">
            <title>{titleOf(run)}</title>
          </rect>
        );
      })}
      {dueAt <= 99 && <circle class="next" cx={`${dueAt}%`} cy={height / 2} r="4.5"><title>{`due ${localTime(nextDueOn)}`}</title></circle>}
    </svg>
  );
}

function titleOf({ state, dueOn, durationInMs, error }: RunView): string {
  return `${localTime(dueOn)}: ${state}${durationInMs === undefined ? "" : `, ${runTime(durationInMs)}`}${error === undefined ? "" : `, ${shown(error)}`}`;
}

function Axis({ windowInMs }: { readonly windowInMs: number }): JSX.Element {
  const parts = [1, 0.75, 0.5, 0.25, 0];
  return (
    <svg class="timeline" height="18">
      {parts.map((part) => (
        <text key={part} class="tick" x={`${(1 - part) * (1 - futureShare) * 100}%`} y="13" text-anchor={part === 1 ? "start" : "middle"}>{part === 0 ? "now" : `−${duration(part * windowInMs)}`}</text>
      ))}
    </svg>
  );
}

function Swatch({ state }: { readonly state: RunView["state"] }): JSX.Element {
  return <svg class="swatch" width="10" height="24"><rect class={`run ${state}`} x="1" y={(24 - heights[state]) / 2} width="8" height={heights[state]} rx="2" /></svg>;
}
