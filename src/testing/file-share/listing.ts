import type { RouteContext } from "./operation.js";
import { numberIn } from "./request.js";
import { StorageFault } from "./storage-fault.js";
import { element } from "./xml.js";
import type { Xml } from "./xml.js";

/** One page of a listing. */
export interface ListPage<T> {
  readonly items: readonly T[];
  /** The elements before the entries, and after them (`tail`). */
  readonly head: readonly Xml[];
  readonly tail: readonly Xml[];
}

/** The page of all items that a request selects with `prefix`, `marker` and `maxresults`. */
export function listPage<T>({ request: { query } }: RouteContext, all: Iterable<T>, keyOf: (item: T) => string): ListPage<T> {
  const prefix = query.get("prefix") ?? "";
  const marker = query.get("marker") ?? "";
  const max = numberIn(query.get("maxresults") ?? "5000", "InvalidQueryParameterValue");
  if (max < 1) throw new StorageFault("OutOfRangeInput");

  const after = Buffer.from(marker, "base64").toString();
  const rest = [...all]
    .map((item) => ({ key: keyOf(item).toLowerCase(), item }))
    .filter(({ key }) => key.startsWith(prefix.toLowerCase()) && key > after)
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const page = rest.slice(0, Math.min(max, 5_000));
  const next = page.length < rest.length ? Buffer.from(page.at(-1)?.key ?? "").toString("base64") : "";
  const head = [element("Prefix", prefix), element("Marker", marker)];
  if (query.has("maxresults")) head.push(element("MaxResults", max));
  return { items: page.map(({ item }) => item), head, tail: [element("NextMarker", next)] };
}
