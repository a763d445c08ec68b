import type { ComponentChildren, JSX } from "preact";
import type { Source } from "../snapshot.js";
import { localTime, shown } from "./format.js";

/** What an account stores, as text: in its own direction, and in full when the pointer is over it. */
export function Stored({ text, className }: { readonly text: string | number | undefined; readonly className?: string }): JSX.Element {
  const visible = shown(text);
  return <bdi class={`stored ${className ?? ""}`} title={visible.length > 24 ? visible : undefined}>{visible}</bdi>;
}

export function Badge({ kind, children }: { readonly kind: "good" | "bad" | "warn" | "info" | "plain"; readonly children: ComponentChildren }): JSX.Element {
  return <span class={`badge ${kind}`}>{children}</span>;
}

export function Section({ title, detail, children }: { readonly title: string; readonly detail?: ComponentChildren; readonly children: ComponentChildren }): JSX.Element {
  const id = `section-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return (
    <section class="section" aria-labelledby={id}>
      <h2 id={id}>{title}{detail !== undefined && <small>{detail}</small>}</h2>
      {children}
    </section>
  );
}

/** Why a source could not be read, beside what was found before. */
export function Failure({ source }: { readonly source: Source<unknown> }): JSX.Element | null {
  if (source.error === undefined) return null;
  return (
    <p class="failure" role="alert">
      <strong><Stored text={source.name} /></strong> <Stored text={source.error} />{" "}
      {source.takenOn !== undefined && <span class="muted">What is shown is of {localTime(source.takenOn)}.</span>}
    </p>
  );
}

export function Tile({ label, value, detail, kind = "plain" }: { readonly label: string; readonly value: string; readonly detail?: string; readonly kind?: string }): JSX.Element {
  return (
    <div class={`tile ${kind}`}>
      <dt>{label}</dt>
      <dd>{value}{detail !== undefined && <small>{detail}</small>}</dd>
    </div>
  );
}

/** A table that scrolls by itself where it is too wide, also with the keyboard. */
export function Table({ label, heads, children }: { readonly label: string; readonly heads: readonly string[]; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead><tr>{heads.map((head) => <th key={head} scope="col" class={head === "" ? "end" : ""}>{head === "" ? <span class="hidden">Actions</span> : head}</th>)}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
