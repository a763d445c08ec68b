import * as asc from "azure-storage-concurrency";
import type { ContainerAccessPolicy, Entity, EntityKey, HttpHeaders, LeasedTarget, Target, UpdateTarget } from "azure-storage-concurrency";

import { same, typeOf } from "./expect.js";
import { anyBlob, appendBlob, blob, container, file, pageBlob, queue, settingsSchema, share, table } from "./storage.js";
import type { Counter, Customer, Settings, Shape } from "./storage.js";

type Metadata = Record<string, string>;

export function nameTheValue(): void {
  typeOf(asc.jsonBlob<Counter>(blob)).is<UpdateTarget<Counter>>();
  typeOf(asc.jsonBlob(blob)).is<UpdateTarget<unknown>>();
  typeOf(asc.jsonBlob(blob, { schema: settingsSchema, keepTier: true })).is<UpdateTarget<Settings>>();
  typeOf(asc.textBlob(blob)).is<UpdateTarget<string>>();
  typeOf(asc.bytesBlob(blob, { keepTier: false })).is<UpdateTarget<Uint8Array>>();
  typeOf(asc.blobMetadata(blob)).is<UpdateTarget<Metadata>>();
  typeOf(asc.blobTags(anyBlob)).is<UpdateTarget<Metadata>>();
  typeOf(asc.blobHttpHeaders(appendBlob)).is<UpdateTarget<HttpHeaders>>();
  typeOf(asc.blobMetadata(pageBlob)).is<UpdateTarget<Metadata>>();
  typeOf(asc.containerMetadata(container)).is<LeasedTarget<Metadata>>();
  typeOf(asc.containerAccessPolicy(container)).is<LeasedTarget<ContainerAccessPolicy>>();
  typeOf(asc.queueMetadata(queue)).is<LeasedTarget<Metadata>>();
  typeOf(asc.shareMetadata(share)).is<LeasedTarget<Metadata>>();
  typeOf(asc.jsonFile<Counter>(file)).is<LeasedTarget<Counter>>();
  typeOf(asc.jsonFile(file, { schema: settingsSchema, maxSizeInBytes: 10, allowKindChange: true })).is<LeasedTarget<Settings>>();
  typeOf(asc.textFile(file)).is<LeasedTarget<string>>();
  typeOf(asc.bytesFile(file)).is<LeasedTarget<Uint8Array>>();
  typeOf(asc.fileMetadata(file)).is<LeasedTarget<Metadata>>();
  typeOf(asc.fileHttpHeaders(file)).is<LeasedTarget<HttpHeaders>>();

  // @ts-expect-error The schema decides, and it has another type.
  asc.jsonBlob<Counter>(blob, { schema: settingsSchema.shape.name });
  // @ts-expect-error A BlobClient cannot write content.
  asc.jsonBlob(anyBlob);
  // @ts-expect-error A file is no blob.
  asc.jsonBlob(file);
  // @ts-expect-error A blob is no file.
  asc.jsonFile(blob);
  // @ts-expect-error A queue has no tags.
  asc.blobTags(queue);
  // @ts-expect-error Misspelt option.
  asc.jsonBlob(blob, { shema: settingsSchema });
  // @ts-expect-error Sizes end in InBytes.
  asc.textFile(file, { maxSize: 10 });
}

export async function nameAnEntity(): Promise<void> {
  same<Entity<Customer>, Customer & EntityKey>();
  typeOf(asc.tableEntity<Customer>(table, "customers", "42")).is<UpdateTarget<Entity<Customer>, Customer>>();
  typeOf(asc.tableEntity(table, "customers", "42")).is<UpdateTarget<Entity, Record<string, unknown>>>();
  asc.tableEntity<Customer>(table, "customers", "42", { types: { visits: "Int64" } });

  // An entity that the SDK has read: what the SDK adds to it is no property of it.
  const read = await table.getEntity<Customer>("customers", "42");
  const again = asc.tableEntity(table, read);
  typeOf(again).is<UpdateTarget<Entity<Customer>, Customer>>();
  const { value } = await asc.optimisticUpdate(again, (draft) => void draft.visits++, { initial: { email: "x", visits: 0 } });
  typeOf(value.visits).is<number>();
  for await (const row of table.listEntities<Customer>()) await asc.optimisticUpdate(asc.tableEntity(table, row), (draft) => void draft.visits++);
  // So can an entity of this library, or any value with the keys.
  typeOf(asc.tableEntity(table, value)).is<UpdateTarget<Entity<Customer>, Customer>>();
  asc.tableEntity(table, { partitionKey: "customers", rowKey: "42" });

  // @ts-expect-error The row key is missing.
  asc.tableEntity(table, "customers");
  // @ts-expect-error Both keys are strings.
  asc.tableEntity(table, "customers", 42);
  // @ts-expect-error An entity has keys.
  asc.tableEntity(table, { email: "x" });
  // @ts-expect-error No such type in the table service.
  asc.tableEntity(table, "customers", "42", { types: { visits: "Int16" } });
  // @ts-expect-error A queue has no entities.
  asc.tableEntity(queue, "customers", "42");
  // @ts-expect-error The keys are given once.
  await asc.createIfNotExists(asc.tableEntity<Customer>(table, "customers", "42"), { partitionKey: "customers", rowKey: "42", email: "x", visits: 0 });
}

export function areOpaque(): void {
  // @ts-expect-error Only the library makes targets.
  const fake: UpdateTarget<Counter> = { kind: "blob", url: "https://example.org" };
  // @ts-expect-error The same for targets under a lease.
  const leased: LeasedTarget<Counter> = { kind: "file", url: "https://example.org" };
  // @ts-expect-error The same for any target.
  const any: Target<Counter> = { kind: "file", url: "https://example.org" };
  void [fake, leased, any];

  const target = asc.jsonBlob<Counter>(blob);
  typeOf(target.kind).is<string>();
  typeOf(target.url).is<string>();
  // @ts-expect-error Targets are readonly.
  target.url = "https://example.org";
}

export function areInvariant(
  shape: UpdateTarget<Shape>,
  circle: UpdateTarget<Extract<Shape, { kind: "circle" }>>,
  file: LeasedTarget<Shape>,
  fileCircle: LeasedTarget<Extract<Shape, { kind: "circle" }>>,
): void {
  shape satisfies Target<Shape>;
  file satisfies Target<Shape>;
  // @ts-expect-error A read may return a label.
  circle = shape;
  // @ts-expect-error A write may store a label.
  shape = circle;
  // @ts-expect-error A read may return a label.
  fileCircle = file;
  // @ts-expect-error A write may store a label.
  file = fileCircle;
  // @ts-expect-error A lease is no ETag condition.
  shape = file;
  // @ts-expect-error An ETag condition is no lease.
  file = shape;
  // The value type counts where the input type is the same.
  const wide = {} as UpdateTarget<Shape, Counter>;
  const narrow = {} as UpdateTarget<Extract<Shape, { kind: "circle" }>, Counter>;
  // @ts-expect-error A read may return a label.
  wide satisfies typeof narrow;
  // @ts-expect-error A mutator may return a label.
  narrow satisfies typeof wide;
  // @ts-expect-error What a schema does not know is not lost silently.
  asc.jsonBlob<unknown>(blob) satisfies UpdateTarget<Shape>;
  // @ts-expect-error The input type counts as well: without its keys, an entity is another value.
  asc.tableEntity<Customer>(table, "customers", "42") satisfies UpdateTarget<Entity<Customer>>;
}
