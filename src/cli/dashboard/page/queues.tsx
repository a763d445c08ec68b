import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PoisonView, QueuePoint, QueueView, Source } from "../snapshot.js";
import type { Ask } from "./confirm.js";
import { count, duration, localTime, plural, shown, since } from "./format.js";
import { getJson, messageOf } from "./live.js";
import { Badge, Failure, Section, Stored, Table } from "./parts.js";

export function Queues({ queues, now, ask }: { readonly queues: readonly Source<QueueView>[]; readonly now: number; readonly ask: Ask | undefined }): JSX.Element | null {
  if (queues.length === 0) return null;
  const poisoned = queues.flatMap(({ name, value }) => (value && value.poisonMessages.length > 0 ? [{ name, value }] : []));
  return (
    <>
      <Section title="Queues">
        {queues.map((source) => <Failure key={source.name} source={source} />)}
        <ul class="cards queues">{queues.map(({ name, value }) => value && <Queue key={name} name={name} view={value} now={now} />)}</ul>
      </Section>
      {poisoned.length > 0 && (
        <Section title="Poison messages" detail={poisoned.map(({ value }) => count(value.poison ?? 0)).join(" + ")}>
          {poisoned.map(({ name, value }) => (
            <div key={name}>
              <h3 class="group"><Stored text={name} /></h3>
              <Table label={`Poison messages of ${shown(name)}`} heads={["Poisoned", "Attempts", "Reason", "Error", "Key", "Payload", ...(ask ? [""] : [])]}>
                {value.poisonMessages.map((message) => <Poison key={`${message.id}/${message.version}`} queue={name} message={message} now={now} ask={ask} />)}
              </Table>
              {(value.poison ?? 0) > value.poisonMessages.length && <p class="muted">The first {plural(value.poisonMessages.length, "message")} of about {count(value.poison ?? 0)}.</p>}
            </div>
          ))}
        </Section>
      )}
    </>
  );
}

function Queue({ name, view, now }: { readonly name: string; readonly view: QueueView; readonly now: number }): JSX.Element {
  const { messages, hidden, oldestInsertedOn, poison, history } = view;
  return (
    <li class="card">
      <h3><Stored text={name} /> {(poison ?? 0) > 0 && <Badge kind="bad">{count(poison ?? 0)} poison</Badge>}</h3>
      <dl class="numbers">
        <div><dt>Messages</dt><dd>{count(messages)}</dd></div>
        <div title="Received and not completed, or sent with a delay. Not known while 32 or more messages are visible."><dt>In flight</dt><dd>{hidden === undefined ? "?" : count(hidden)}</dd></div>
        <div><dt>Oldest</dt><dd>{since(oldestInsertedOn, now)}</dd></div>
      </dl>
      <div class="charts">
        <Chart title="Length" history={history} valueOf={(point) => point.messages} format={(value) => count(value)} />
        <Chart title="Age" history={history} valueOf={(point) => point.ageInMs} format={duration} />
      </div>
    </li>
  );
}

const [width, height] = [240, 56];

function Chart({ title, history, valueOf, format }: { readonly title: string; readonly history: readonly QueuePoint[]; readonly valueOf: (point: QueuePoint) => number; readonly format: (value: number) => string }): JSX.Element {
  const times = history.map(({ at }) => Date.parse(at));
  const to = times.at(-1) ?? 0;
  const values = history.map(valueOf);
  // A line over a few seconds would look like a trend.
  const span = Math.max(60_000, to - (times[0] ?? 0));
  const max = Math.max(1, ...values);
  const points = values.map((value, i) => `${(1 - (to - (times[i] ?? 0)) / span) * width},${height - 2 - (value / max) * (height - 6)}`);
  const firstX = points[0]?.split(",")[0] ?? "0";
  const label = `${title} over the last ${duration(span)}: now ${format(values.at(-1) ?? 0)}, at most ${format(Math.max(0, ...values))}`;
  return (
    <figure class={`chart ${title.toLowerCase()}`}>
      <figcaption><span>{title}</span><span class="muted">max {format(Math.max(0, ...values))}</span></figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
        <title>{label}</title>
        <line class="base" x1="0" x2={width} y1={height - 1} y2={height - 1} />
        {points.length > 1 && <polygon class="area" points={`${firstX},${height - 1} ${points.join(" ")} ${width},${height - 1}`} />}
        <polyline class="line" points={points.join(" ")} />
      </svg>
      <p class="range muted" aria-hidden="true"><span>−{duration(span)}</span><span>now</span></p>
    </figure>
  );
}

function Poison({ queue, message, now, ask }: { readonly queue: string; readonly message: PoisonView; readonly now: number; readonly ask: Ask | undefined }): JSX.Element {
  const { id, version, poisonedOn, attempts, reason, error, key } = message;
  const [payload, setPayload] = useState<string>();
  const show = (): void => {
    getJson<{ payload: string }>(`payload?${new URLSearchParams({ queue, id, version }).toString()}`).then((found) => setPayload(found.payload), (failure: unknown) => setPayload(messageOf(failure)));
  };
  const question = { queue, id, version, reason, poisonedOn, key };
  return (
    <>
      <tr>
        <th scope="row" title={localTime(poisonedOn)}>{since(poisonedOn, now)} ago</th>
        <td class="number">{attempts ?? "–"}</td>
        <td><Stored text={reason} className="wide" /></td>
        <td><Stored text={error} className="wide" /></td>
        <td><Stored text={key} /></td>
        <td>
          <button type="button" aria-expanded={payload !== undefined} aria-label={`${payload === undefined ? "Show" : "Hide"} the payload of ${shown(key ?? id)}`} onClick={() => (payload === undefined ? show() : setPayload(undefined))}>
            {payload === undefined ? "•••••• Show" : "Hide"}
          </button>
        </td>
        {ask && (
          <td class="end">
            <button type="button" aria-label={`Move ${shown(key ?? id)} back to ${shown(queue)}`} onClick={() => ask({ kind: "redrive", ...question })}>Redrive…</button>{" "}
            <button type="button" class="danger" aria-label={`Delete ${shown(key ?? id)}`} onClick={() => ask({ kind: "delete", ...question })}>Delete…</button>
          </td>
        )}
      </tr>
      {payload !== undefined && <tr class="payload"><td colSpan={ask ? 7 : 6}><pre>{payload}</pre></td></tr>}
    </>
  );
}
