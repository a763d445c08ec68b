import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { ClaimInbox, CommitInbox, enqueue, QueueConsumer } from "../../src/index.js";
import type { BackgroundService, TypedEvents, QueueConsumerEvents } from "../../src/index.js";
import { FakeQueue } from "./fakes/fake-queue.js";
import { FakeTable } from "./fakes/fake-table.js";

const queue = new FakeQueue();
const table = new FakeTable();
const schema = z.object({ id: z.string(), count: z.coerce.number().default(3) });

describe("the payload of a handler", () => {
  it("has the type of the schema's output, however the consumer is written", () => {
    type Output = z.output<typeof schema>;
    const plain = new QueueConsumer(queue, (order) => expectTypeOf(order).toEqualTypeOf<Output>(), { schema });
    const commits = new QueueConsumer(queue, (order, { commit }) => commit([["create", { rowKey: order.id }]]), {
      inbox: new CommitInbox(table),
      schema,
      partitionOf: (order) => order.id,
      retryDelayInMs: (attempt) => attempt * 10,
    });
    const sensitive = new QueueConsumer(queue, (order) => expectTypeOf(order).toEqualTypeOf<Output>(), { schema, idempotencyKeyOf: (order) => order.id });
    expectTypeOf([plain, commits, sensitive]).toEqualTypeOf<QueueConsumer<Output>[]>();
  });

  it("has the type that the handler, partitionOf or decode says", () => {
    const byHandler = new QueueConsumer(queue, (order: { id: string }) => order.id, { inbox: new ClaimInbox(table) });
    const byPartition = new QueueConsumer(queue, (order, { commit }) => commit([["create", { rowKey: order.id }]]), {
      inbox: new CommitInbox(table),
      partitionOf: (order: { id: string }) => order.id,
    });
    const byDecoder = new QueueConsumer(queue, (order) => order.id, { decode: (id: string) => ({ id }) });
    expectTypeOf([byHandler, byPartition, byDecoder]).toEqualTypeOf<QueueConsumer<{ id: string }>[]>();
    // @ts-expect-error -- the handler expects another type than the schema returns
    new QueueConsumer(queue, (order: { id: number }) => order.id, { schema });
  });

  it("is the output of the schema at run time, too", async () => {
    const seen: unknown[] = [];
    await enqueue(queue, { id: "a" });
    await enqueue(queue, { id: "b", count: "7", unknown: true });
    const consumer = new QueueConsumer(queue, (order) => void seen.push(order), { schema });
    const completed = new Promise<void>((resolve) => consumer.on("completed", () => { if (seen.length === 2) resolve(); })); // prettier-ignore
    await consumer.start();
    await completed;
    await consumer.stop();
    expect(seen).toEqual([{ id: "a", count: 3 }, { id: "b", count: 7 }]); // prettier-ignore
  });
});

it("a consumer is a background service and an event source, and no emitter of another library", () => {
  expectTypeOf<QueueConsumer>().toExtend<BackgroundService>();
  expectTypeOf<QueueConsumer>().toExtend<TypedEvents<QueueConsumerEvents>>();
  expectTypeOf<QueueConsumer>().not.toHaveProperty("emit");
});
