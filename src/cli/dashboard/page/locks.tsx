import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ContainerView, ElectionView, LockView, ReaderWriterView, SlotsView, Source } from "../snapshot.js";
import type { Ask } from "./confirm.js";
import { count, localTime, plural, shown, since } from "./format.js";
import { Badge, Failure, Section, Stored, Table } from "./parts.js";

interface Props {
  readonly containers: readonly Source<ContainerView>[];
  readonly now: number;
  /** Undefined: the server accepts no actions. */
  readonly ask: Ask | undefined;
}

type Within<T> = T & { readonly container: string };

function itemsOf<T extends object>(containers: Props["containers"], pick: (view: ContainerView) => readonly T[]): Within<T>[] {
  return containers.flatMap(({ name, value }) => (value ? pick(value).map((item) => ({ ...item, container: name })) : []));
}

export function Locks({ containers, now, ask }: Props): JSX.Element | null {
  const [isAll, setAll] = useState(false);
  if (containers.length === 0) return null;
  const locks = itemsOf(containers, (view) => view.locks);
  const visible = isAll ? locks : locks.filter((lock) => lock.isHeld);
  const sum = (pick: (view: ContainerView) => number): number => containers.reduce((total, { value }) => total + (value ? pick(value) : 0), 0);
  const isKnown = containers.some(({ value }) => value !== undefined);
  const isPartial = containers.some(({ value }) => value?.isPartial);
  const hidden = sum((view) => view.lockCount) - locks.length;
  return (
    <Section title="Locks" detail={isKnown && `${count(sum((view) => view.heldCount), isPartial)} held of ${count(sum((view) => view.lockCount), isPartial)}`}>
      {containers.map((source) => <Failure key={source.name} source={source} />)}
      <p class="bar">
        <label><input type="checkbox" checked={isAll} onChange={(event) => setAll(event.currentTarget.checked)} /> Show locks that are free as well</label>
      </p>
      {visible.length === 0 ? isKnown && <p class="empty">{locks.length === 0 ? "There are no locks." : "No lock is held."}</p> : (
        <Table label="Locks" heads={["Lock", "State", "Holder", "Held for", "Epoch", "Data", ...(ask ? [""] : [])]}>
          {visible.map((lock) => <LockRow key={`${lock.container}/${lock.name}`} lock={lock} showsContainer={containers.length > 1} now={now} ask={ask} />)}
        </Table>
      )}
      {hidden > 0 && <p class="muted">{count(hidden)} more are not shown.</p>}
      {isPartial && <p class="muted">The container has more blobs than are read: the numbers are lower bounds.</p>}
    </Section>
  );
}

/** Elections, semaphores, work balancers and reader-writer locks. */
export function SharedLocks({ containers, now }: Omit<Props, "ask">): JSX.Element {
  const elections = itemsOf(containers, (view) => view.elections);
  const slots = itemsOf(containers, (view) => view.slots);
  const readerWriterLocks = itemsOf(containers, (view) => view.readerWriterLocks);
  return (
    <>
      {elections.length > 0 && (
        <Section title="Leaders">
          <ul class="cards">{elections.map((election) => <Leader key={`${election.container}/${election.name}`} election={election} now={now} />)}</ul>
        </Section>
      )}
      {slots.length > 0 && (
        <Section title="Semaphores and work balancers">
          <ul class="cards">{slots.map((view) => <Slots key={`${view.container}/${view.name}`} view={view} now={now} />)}</ul>
        </Section>
      )}
      {readerWriterLocks.length > 0 && (
        <Section title="Reader-writer locks">
          <ul class="cards">{readerWriterLocks.map((view) => <ReaderWriter key={`${view.container}/${view.name}`} view={view} now={now} />)}</ul>
        </Section>
      )}
    </>
  );
}

const stateKinds = { leased: "good", breaking: "warn", broken: "bad", expired: "warn", available: "plain" } as const;

function LockRow({ lock, showsContainer, now, ask }: { readonly lock: Within<LockView>; readonly showsContainer: boolean; readonly now: number; readonly ask: Ask | undefined }): JSX.Element {
  const { container, name, label, state, isHeld, holder, epoch, data, isFair } = lock;
  return (
    <tr>
      <th scope="row"><Stored text={label} />{showsContainer && <small><Stored text={container} /></small>}{isFair && <Badge kind="info">fair</Badge>}</th>
      <td><Badge kind={stateKinds[state]}>{state === "leased" ? "held" : state === "available" ? "free" : state}</Badge></td>
      <td class={isHeld ? "" : "muted"}><Stored text={isHeld ? holder : undefined} /></td>
      <td title={localTime(lock.since)}>{isHeld ? since(lock.since, now) : "–"}</td>
      <td class="number">{shown(epoch)}</td>
      <td><Stored text={isHeld ? data : undefined} className="wide" /></td>
      {ask && (
        <td class="end">
          {isHeld && <button type="button" class="danger" aria-label={`Break the lock ${shown(label)}`} onClick={() => ask({ kind: "break", container, name, label })}>Break…</button>}
        </td>
      )}
    </tr>
  );
}

function Leader({ election: { name, lock }, now }: { readonly election: ElectionView; readonly now: number }): JSX.Element {
  const leads = lock?.isHeld ?? false;
  return (
    <li class="card">
      <h3><Stored text={name} /> <Badge kind={leads ? "good" : "bad"}>{leads ? "led" : "no leader"}</Badge></h3>
      {lock && (
        <dl class="facts">
          <div><dt>{leads ? "Leader" : "Last leader"}</dt><dd><Stored text={lock.holder} /></dd></div>
          {leads && <div><dt>For</dt><dd title={localTime(lock.since)}>{since(lock.since, now)}</dd></div>}
          <div><dt>Term</dt><dd class="number">{shown(lock.epoch)}</dd></div>
          {leads && lock.data !== undefined && <div><dt>Data</dt><dd><Stored text={lock.data} /></dd></div>}
        </dl>
      )}
    </li>
  );
}

/** More would not be told apart. */
const maxDots = 120;

function Slots({ view: { kind, name, slots, held }, now }: { readonly view: SlotsView; readonly now: number }): JSX.Element {
  const bySlot = new Map(held.map(({ slot, lock }) => [slot, lock]));
  const what = kind === "semaphore" ? "slot" : "shard";
  return (
    <li class="card">
      <h3><Stored text={name} /> <Badge kind={held.length === slots && kind === "semaphore" ? "warn" : "plain"}>{count(held.length)} of {plural(slots, what)}</Badge></h3>
      {slots <= maxDots ? (
        <ol class="dots" aria-label={`${held.length} of ${slots} ${what}s are held`}>
          {Array.from({ length: slots }, (_, slot) => {
            const lock = bySlot.get(slot);
            return <li key={slot} class={lock ? "on" : ""} title={lock ? `${what} ${slot}: ${shown(lock.holder)}, ${since(lock.since, now)}` : `${what} ${slot}: free`} />;
          })}
        </ol>
      ) : <meter min={0} max={slots} value={held.length} aria-label={`${held.length} of ${slots} ${what}s are held`} />}
      {held.length > 0 && (
        <details>
          <summary>Holders</summary>
          <ul class="lines">{held.map(({ slot, lock }) => <li key={slot}><span class="muted">{what} {slot}</span> <Stored text={lock.holder} /> <span class="muted">{since(lock.since, now)}</span></li>)}</ul>
        </details>
      )}
    </li>
  );
}

function ReaderWriter({ view: { name, writer, readers }, now }: { readonly view: ReaderWriterView; readonly now: number }): JSX.Element {
  const state = writer ? (readers.length > 0 ? "writer waits for readers" : "written") : readers.length > 0 ? "read" : "free";
  return (
    <li class="card">
      <h3><Stored text={name} /> <Badge kind={writer ? "warn" : readers.length > 0 ? "good" : "plain"}>{state}</Badge></h3>
      <ul class="lines">
        {writer && <li><span class="muted">writer</span> <Stored text={writer.holder} /> <span class="muted">{since(writer.since, now)}</span></li>}
        {readers.map((reader) => <li key={reader.name}><span class="muted">reader</span> <Stored text={reader.holder} /> <span class="muted">{since(reader.since, now)}</span></li>)}
      </ul>
    </li>
  );
}
