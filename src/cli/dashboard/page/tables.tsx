import type { JSX } from "preact";
import type { Source, TableView } from "../snapshot.js";
import { count, localTime, since } from "./format.js";
import { Badge, Failure, Section, Stored } from "./parts.js";

export function Tables({ tables, now }: { readonly tables: readonly Source<TableView>[]; readonly now: number }): JSX.Element | null {
  if (tables.length === 0) return null;
  return (
    <Section title="Inboxes and outboxes">
      {tables.map((source) => <Failure key={source.name} source={source} />)}
      <ul class="cards">{tables.map(({ name, value, takenOn }) => value && <TableCard key={name} name={name} view={value} takenOn={takenOn} now={now} />)}</ul>
    </Section>
  );
}

function TableCard({ name, view: { inbox, outbox }, takenOn, now }: { readonly name: string; readonly view: TableView; readonly takenOn: string | undefined; readonly now: number }): JSX.Element {
  return (
    <li class="card">
      <h3><Stored text={name} /> {outbox.messages > 0 && <Badge kind="warn">{count(outbox.messages, outbox.isLowerBound)} to send</Badge>}</h3>
      <dl class="numbers">
        <div><dt>Completed</dt><dd>{count(inbox.completed, inbox.isLowerBound)}</dd></div>
        <div title="A handler runs, or has crashed."><dt>Claimed</dt><dd>{count(inbox.claimed, inbox.isLowerBound)}</dd></div>
        <div title="A handler has failed, and the message will be delivered again."><dt>Released</dt><dd>{count(inbox.released, inbox.isLowerBound)}</dd></div>
        <div><dt>Outbox</dt><dd>{count(outbox.messages, outbox.isLowerBound)}</dd></div>
        {outbox.oldestOn !== undefined && <div><dt>Oldest</dt><dd>{since(outbox.oldestOn, now)}</dd></div>}
      </dl>
      <p class="muted" title={localTime(takenOn)}>
        Counted {since(takenOn, now)} ago.
        {(inbox.isLowerBound || outbox.isLowerBound) && " There are more rows than are read: ≥ is a lower bound."}
      </p>
    </li>
  );
}
