import type { TransactionAction } from "@azure/data-tables";
import { describe, expect, expectTypeOf, it } from "vitest";
import type { EntityInput, EntityPatch, TableAction } from "../../src/clients/table.js";
import { actionsIn } from "../../src/core/table-action.js";

describe("the types", () => {
  it("TableAction accepts the actions of the SDK", () => {
    expectTypeOf<TransactionAction>().toExtend<TableAction>();
    expectTypeOf<readonly TransactionAction[]>().toExtend<readonly TableAction[]>();
    expectTypeOf<["update", { rowKey: string; count: number }, "Merge", { etag: string }]>().toExtend<TableAction>();
    expectTypeOf<["insert", { rowKey: string }]>().not.toExtend<TableAction>();
    expectTypeOf<["create", { count: number }]>().not.toExtend<TableAction>();
  });

  it("an input has all properties, a patch any of them; both need a row key", () => {
    interface Order {
      total: number;
      state: string;
    }
    expectTypeOf<{ rowKey: string; total: number; state: string }>().toExtend<EntityInput<Order>>();
    expectTypeOf<{ rowKey: string; total: number }>().not.toExtend<EntityInput<Order>>();
    expectTypeOf<{ rowKey: string; total: number }>().toExtend<EntityPatch<Order>>();
    expectTypeOf<{ total: number }>().not.toExtend<EntityPatch<Order>>();
    expectTypeOf<{ rowKey: string; total: string }>().not.toExtend<EntityPatch<Order>>();
  });
});

describe("actionsIn", () => {
  it("adds the partition key, and changes neither the actions nor their entities", () => {
    const entity = { rowKey: "a", count: 1 };
    const actions: readonly TableAction[] = [
      ["create", entity],
      ["update", { partitionKey: "p", rowKey: "b" }, "Replace", { etag: "1" }],
      ["upsert", { rowKey: "c" }, "Merge", { etag: undefined }],
      ["delete", { rowKey: "d" }],
    ];
    expect(actionsIn("p", actions, "commit")).toEqual([
      ["create", { partitionKey: "p", rowKey: "a", count: 1 }],
      ["update", { partitionKey: "p", rowKey: "b" }, "Replace", { etag: "1" }],
      ["upsert", { partitionKey: "p", rowKey: "c" }, "Merge"],
      ["delete", { partitionKey: "p", rowKey: "d" }],
    ]);
    expect(entity).toEqual({ rowKey: "a", count: 1 });
  });

  it("merges without a mode, and needs no condition", () => {
    expect(actionsIn("p", [["update", { rowKey: "a" }], ["upsert", { rowKey: "b" }]], "commit")).toEqual([
      ["update", { partitionKey: "p", rowKey: "a" }, "Merge"],
      ["upsert", { partitionKey: "p", rowKey: "b" }, "Merge"],
    ]);
  });

  it("an entity of another partition is a RangeError that names both partitions", () => {
    expect(() => actionsIn("p", [["create", { partitionKey: "q", rowKey: "a" }]], "commit")).toThrow(RangeError);
    expect(() => actionsIn("p", [["create", { partitionKey: "q", rowKey: "a" }]], "commit")).toThrow(/^commit: .*"q".*"p"/);
  });

  it.each<[string, unknown, RegExp]>([
    ["an unknown kind", [["bogus", { rowKey: "a" }]], /^commit: .*"bogus"/],
    ["a kind of another API", [["insert", { rowKey: "a" }]], /"insert"/],
    ["a kind in another case", [["Create", { rowKey: "a" }]], /"Create"/],
    ["a wrong mode", [["update", { rowKey: "a" }, "merge"]], /"merge"/],
    ["a condition in the place of the mode", [["update", { rowKey: "a" }, { etag: "1" }]], /mode/],
    ["a delete with a condition", [["delete", { rowKey: "a" }, { etag: "1" }]], /delete/],
    ["a create with a fourth element", [["create", { rowKey: "a" }, undefined, { etag: "1" }]], /create/],
    ["an update with a fifth element", [["update", { rowKey: "a" }, "Merge", {}, 1]], /update/],
    ["an upsert with an ETag", [["upsert", { rowKey: "a" }, "Merge", { etag: "1" }]], /upsert cannot have an ETag/],
    ["a condition that is not an object", [["update", { rowKey: "a" }, "Merge", "1"]], /etag/],
    ["an ETag that is not a string", [["update", { rowKey: "a" }, "Merge", { etag: 1 }]], /etag/],
    ["a condition that is null", [["update", { rowKey: "a" }, "Merge", null]], /must be an object with an etag/],
    ["no entity", [["create"]], /entity/],
    ["an entity that is null", [["create", null]], /the entity of the create must be an object/],
    ["one action instead of an array", ["create", { rowKey: "a" }], /array/],
    ["no array", undefined, /^commit: .*array/],
  ])("%s is a TypeError: the effect would be left out, or its condition", (_, actions, message) => {
    const call = (): unknown => actionsIn("p", actions as readonly TableAction[], "commit");
    expect(call).toThrow(TypeError);
    expect(call).toThrow(message);
  });
});
