import { notFaked } from "../support/not-faked.js";
import type { TableCallOptions, TableEntityLike } from "../../src/clients.js";
import type { TableLike } from "../../src/index.js";
import type { FakeService } from "./fake-service.js";
import { tableError } from "./rest-errors.js";

/** A property in the form of the wire: JSON value, and the type where JSON does not tell. */
export interface WireProperty {
  readonly type: string;
  readonly value: string | number | boolean;
}

export interface StoredRow {
  etag: string;
  timestamp: string;
  properties: Map<string, WireProperty>;
}

type ReadOptions = NonNullable<Parameters<TableLike["getEntity"]>[2]>;

/** A table in memory, behind a client as the SDK's, types on the wire included. */
export class FakeTable implements TableLike {
  readonly url: string;
  readonly tableName: string;
  readonly pipeline: object;
  readonly service: FakeService;
  /** What the last write sent. */
  lastSent: { mode: string; names: string[] } | undefined;

  constructor(service: FakeService, options: { tableName?: string; pipeline?: object } = {}) {
    this.service = service;
    this.url = "https://account.table.core.windows.net";
    this.tableName = options.tableName ?? "orders";
    this.pipeline = options.pipeline ?? service.pipeline;
  }

  createTable(...args: Parameters<TableLike["createTable"]>): Promise<void> {
    return notFaked(...args);
  }

  listEntities(...args: Parameters<TableLike["listEntities"]>): ReturnType<TableLike["listEntities"]> {
    return notFaked(...args);
  }

  submitTransaction(...args: Parameters<TableLike["submitTransaction"]>): ReturnType<TableLike["submitTransaction"]> {
    return notFaked(...args);
  }

  /** What is stored, as a test looks at it: no request, no log. */
  row(partitionKey = "p", rowKey = "r"): StoredRow | undefined {
    return this.service.resources.get(this.#key(partitionKey, rowKey)) as StoredRow | undefined;
  }

  property(name: string, partitionKey = "p", rowKey = "r"): WireProperty | undefined {
    return this.row(partitionKey, rowKey)?.properties.get(name);
  }

  /** A foreign writer's replace of everything. */
  put(properties: Record<string, WireProperty>, partitionKey = "p", rowKey = "r"): void {
    this.#store(partitionKey, rowKey, new Map(Object.entries(properties)));
  }

  /** A foreign writer's merge, which leaves the journal alone. */
  merge(properties: Record<string, WireProperty>, partitionKey = "p", rowKey = "r"): void {
    this.#store(partitionKey, rowKey, new Map([...(this.row(partitionKey, rowKey)?.properties ?? []), ...Object.entries(properties)]));
  }

  drop(partitionKey = "p", rowKey = "r"): void {
    this.service.resources.delete(this.#key(partitionKey, rowKey));
  }

  getEntity(partitionKey: string, rowKey: string, options: ReadOptions = {}): Promise<object> {
    return this.#request("getEntity", "read", options, () => {
      const row = this.#existing(partitionKey, rowKey);
      const bodyAsText = wireText(partitionKey, rowKey, row);
      options.onResponse?.({ bodyAsText, headers: { get: (name) => (name === "date" ? this.service.date() : undefined) } });
      const body = JSON.parse(bodyAsText) as Record<string, unknown>;
      return options.disableTypeConversion ? sdkEntity(body) : converted(body);
    });
  }

  createEntity(entity: TableEntityLike, options: TableCallOptions = {}): Promise<{ etag?: string }> {
    return this.#request("createEntity", "write", options, () => {
      const { partitionKey, rowKey } = entity;
      if (this.row(partitionKey, rowKey)) throw tableError(409, "EntityAlreadyExists");
      return this.#store(partitionKey, rowKey, this.#sent("Create", entity));
    });
  }

  updateEntity(
    entity: TableEntityLike,
    mode: "Merge" | "Replace" = "Merge",
    options: TableCallOptions & { etag?: string } = {},
  ): Promise<{ etag?: string }> {
    return this.#request("updateEntity", "write", options, () => {
      const row = this.#existing(entity.partitionKey, entity.rowKey, options.etag ?? "*");
      const sent = this.#sent(mode, entity);
      return this.#store(entity.partitionKey, entity.rowKey, mode === "Merge" ? new Map([...row.properties, ...sent]) : sent);
    });
  }

  upsertEntity(entity: TableEntityLike, mode: "Merge" | "Replace" = "Merge", options: TableCallOptions = {}): Promise<{ etag?: string }> {
    return this.#request("upsertEntity", "write", options, () => {
      const kept = mode === "Merge" ? (this.row(entity.partitionKey, entity.rowKey)?.properties ?? []) : [];
      return this.#store(entity.partitionKey, entity.rowKey, new Map([...kept, ...this.#sent(mode, entity)]));
    });
  }

  deleteEntity(partitionKey: string, rowKey: string, options: TableCallOptions & { etag?: string } = {}): Promise<unknown> {
    return this.#request("deleteEntity", "write", options, () => {
      this.#existing(partitionKey, rowKey, options.etag ?? "*");
      this.drop(partitionKey, rowKey);
      return {};
    });
  }

  #key(partitionKey: string, rowKey: string): string {
    return JSON.stringify([this.tableName, partitionKey, rowKey]);
  }

  #request<R>(operation: string, kind: "read" | "write", options: TableCallOptions, serve: () => R): Promise<R> {
    return this.service.request({ operation, kind, resource: this.tableName, client: this }, options.abortSignal, tableError, serve);
  }

  #existing(partitionKey: string, rowKey: string, etag = "*"): StoredRow {
    const row = this.row(partitionKey, rowKey);
    if (!row) throw tableError(404, "ResourceNotFound");
    if (etag !== "*" && etag !== row.etag) throw tableError(412, "UpdateConditionNotSatisfied");
    return row;
  }

  #sent(mode: string, entity: TableEntityLike): Map<string, WireProperty> {
    const own = Object.entries(entity).filter(([name]) => name !== "partitionKey" && name !== "rowKey");
    const properties = new Map(own.map(([name, value]) => [name, fromSdk(value)]));
    this.lastSent = { mode, names: [...properties.keys()] };
    return properties;
  }

  #store(partitionKey: string, rowKey: string, properties: Map<string, WireProperty>): { etag: string } {
    const etag = `W/"datetime'2030-01-01T00%3A00%3A00.${this.service.newETag().toString().padStart(7, "0")}Z'"`;
    this.service.resources.set(this.#key(partitionKey, rowKey), { etag, timestamp: this.service.timestamp(), properties } satisfies StoredRow);
    return { etag };
  }
}

/** What the service makes of a property as the SDK sends it. */
export function fromSdk(value: unknown): WireProperty {
  if (typeof value === "object" && value !== null && "type" in value && "value" in value) {
    return JSON.parse(JSON.stringify(value)) as WireProperty;
  }
  if (typeof value === "string") return { type: "String", value };
  if (typeof value === "boolean") return { type: "Boolean", value };
  if (typeof value === "number") return { type: Number.isInteger(value) ? "Int32" : "Double", value };
  throw new Error(`Unknown EDM type ${typeof value}`);
}

/** An entity as it goes over the wire: the type is named only where JSON does not imply it, and 5.0 is a double. */
export function wireText(partitionKey: string, rowKey: string, row: StoredRow): string {
  const members = [
    `"odata.etag":${JSON.stringify(row.etag)}`,
    `"PartitionKey":${JSON.stringify(partitionKey)}`,
    `"RowKey":${JSON.stringify(rowKey)}`,
    `"Timestamp":"${row.timestamp}"`,
  ];
  for (const [name, { type, value }] of row.properties) {
    const implied = type === "String" || type === "Boolean" || type === "Int32" || (type === "Double" && typeof value === "number");
    if (!implied) members.push(`${JSON.stringify(`${name}@odata.type`)}:"Edm.${type}"`);
    const whole = type === "Double" && Number.isInteger(value) && !String(value).includes("e");
    members.push(`${JSON.stringify(name)}:${JSON.stringify(value)}${whole ? ".0" : ""}`);
  }
  return `{${members.join(",")}}`;
}

const renamed: Record<string, string> = { PartitionKey: "partitionKey", RowKey: "rowKey", "odata.etag": "etag", Timestamp: "timestamp" };

/** What the SDK makes of the parsed body with `disableTypeConversion`: types named or guessed, values as strings. */
export function sdkEntity(body: Record<string, unknown>): object {
  const entity: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(body)) {
    if (name.includes("@odata.type")) continue;
    const type = body[`${name}@odata.type`];
    if (Object.hasOwn(renamed, name)) entity[renamed[name]!] = value;
    else if (typeof type === "string") entity[name] = { value, type: type.slice("Edm.".length) };
    else if (typeof value === "string") entity[name] = { value, type: "String" };
    else if (typeof value === "boolean") entity[name] = { value: String(value), type: "Boolean" };
    else entity[name] = { value: String(value), type: Number.isSafeInteger(value) ? "Int32" : "Double" };
  }
  return entity;
}

/** As the SDK returns an entity of strings, numbers and booleans without `disableTypeConversion`. */
export function converted(body: Record<string, unknown>): Record<string, unknown> {
  // As the SDK does: a property with the name of a key, of the ETag or of the time takes its place.
  return Object.fromEntries(Object.entries(body).flatMap(([name, value]) => (name.includes("@odata.type") ? [] : [[renamed[name] ?? name, value]])));
}
