import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Action, InspectedLock } from "../snapshot.js";
import { localTime, shown, since } from "./format.js";
import { getJson, messageOf, postJson } from "./live.js";
import { Stored } from "./parts.js";

/** What the user has chosen: before anything happens, he is shown what it is about. */
export type Question =
  | { readonly kind: "break"; readonly container: string; readonly name: string; readonly label: string }
  | { readonly kind: "redrive" | "delete"; readonly queue: string; readonly id: string; readonly version: string; readonly reason: string | undefined; readonly poisonedOn: string; readonly key: string | undefined }
  | { readonly kind: "trigger"; readonly table: string; readonly schedule: string; readonly job: string; readonly trigger: string; readonly state: string };

export type Ask = (question: Question) => void;

const titles = { break: "Break the lock?", redrive: "Move the message back to its queue?", delete: "Delete the message?", trigger: "Run the job now?" };
const verbs = { break: "Break the lock", redrive: "Move it back", delete: "Delete it", trigger: "Run it" };

/** Asks, does it, and says what was done. */
export function Confirm({ question, onClose, onDone }: { readonly question: Question; readonly onClose: () => void; readonly onDone: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [lock, setLock] = useState<InspectedLock>();
  const [result, setResult] = useState<{ readonly text: string; readonly isError: boolean }>();
  const [isBusy, setBusy] = useState(false);
  // Of this dialog: a second click, or a repetition after a lost response, is the same run.
  const [key] = useState(() => `dashboard-${crypto.randomUUID()}`);
  useEffect(() => {
    dialog.current?.showModal();
    if (question.kind !== "break") return;
    const { container, name } = question;
    getJson<InspectedLock>(`lock?${new URLSearchParams({ container, name }).toString()}`).then(setLock, (error: unknown) => setResult({ text: messageOf(error), isError: true }));
  }, [question]);
  const action = actionOf(question, lock, key);
  const perform = async (): Promise<void> => {
    if (!action) return;
    setBusy(true);
    try {
      setResult({ text: (await postJson<{ message: string }>("actions", action)).message, isError: false });
    } catch (error) {
      setResult({ text: messageOf(error), isError: true });
    }
    setBusy(false);
    onDone();
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="confirm-title">
      <h2 id="confirm-title">{titles[question.kind]}</h2>
      <dl class="facts">{factsOf(question, lock).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      <p>{warningOf(question, lock)}</p>
      {result && <p role="alert" class={result.isError ? "failure" : "success"}><Stored text={result.text} className="whole" /></p>}
      <p class="buttons">
        <button type="button" onClick={() => dialog.current?.close()}>{result ? "Close" : "Cancel"}</button>
        {!result && action && <button type="button" class={question.kind === "trigger" || question.kind === "redrive" ? "primary" : "danger solid"} disabled={isBusy} onClick={() => void perform()}>{verbs[question.kind]}</button>}
      </p>
    </dialog>
  );
}

/** Undefined: it is not known yet what it is about, or there is nothing to do. */
function actionOf(question: Question, lock: InspectedLock | undefined, key: string): Action | undefined {
  switch (question.kind) {
    case "break": {
      const { container, name } = question;
      return lock?.isHeld && lock.etag !== undefined ? { kind: "break", container, name, epoch: lock.epoch, etag: lock.etag } : undefined;
    }
    case "redrive":
    case "delete": {
      const { kind, queue, id, version } = question;
      return { kind, queue, id, version };
    }
    case "trigger": {
      const { kind, table, schedule, job, trigger } = question;
      return { kind, table, schedule, job, trigger, key };
    }
  }
}

function factsOf(question: Question, lock: InspectedLock | undefined): readonly (readonly [string, ComponentChildren])[] {
  switch (question.kind) {
    case "break":
      return [
        ["Lock", <Stored key="lock" text={question.label} className="whole" />],
        ["Holder", lock ? <Stored key="holder" text={lock.holder} className="whole" /> : "…"],
        ["Since", lock ? `${localTime(lock.since)} (${since(lock.since, Date.now())})` : "…"],
        ["Epoch", lock ? shown(lock.epoch) : "…"],
        ["ETag", lock ? shown(lock.etag) : "…"],
      ];
    case "redrive":
    case "delete":
      return [
        ["Queue", <Stored key="queue" text={question.queue} className="whole" />],
        ["Message", <Stored key="id" text={question.id} className="whole" />],
        ["Key", <Stored key="key" text={question.key} className="whole" />],
        ["Reason", <Stored key="reason" text={question.reason} className="whole" />],
        ["Poisoned", localTime(question.poisonedOn)],
      ];
    case "trigger":
      return [
        ["Job", <Stored key="job" text={question.job} className="whole" />],
        ["Schedule", <Stored key="schedule" text={`${question.schedule} in ${question.table}`} className="whole" />],
        ["Due", <Stored key="trigger" text={question.trigger} className="whole" />],
        ["State", shown(question.state)],
      ];
  }
}

function warningOf(question: Question, lock: InspectedLock | undefined): string {
  switch (question.kind) {
    case "break":
      if (lock && !lock.isHeld) return "It is not held any more.";
      return "The holder loses the lock, and the service rejects its writes. If another process has the lock by then, nothing happens.";
    case "redrive":
      return "It is handled again, with its key. Up to 32 other messages are received to find it, and made visible again.";
    case "delete":
      return "It cannot be brought back. Up to 32 other messages are received to find it, and made visible again.";
    case "trigger":
      return "An instance of the application runs it once, as soon as it reads the table.";
  }
}
