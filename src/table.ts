/** What concerns tables, for applications that have `@azure/data-tables` alone. */
export { ConcurrentTable } from "./facade/concurrent-table.js";
export type { ConcurrentTableOptions } from "./facade/concurrent-table.js";
export type { EdmType } from "./table/edm.js";
export { createIfAbsent } from "./update/create-if-absent.js";
export { remove } from "./update/mutator.js";
export type { Mutator, MutatorContext } from "./update/mutator.js";
export { optimisticUpdate } from "./update/optimistic-update.js";
export type { OptimisticUpdateOptions, TargetConditions, TargetOptions } from "./update/options.js";
export { overwrite } from "./update/overwrite.js";
export type { OverwriteOptions } from "./update/overwrite.js";
export { readTarget } from "./update/read-target.js";
export type { ReadResult } from "./update/read-target.js";
export { removeIfUnchanged } from "./update/remove-if-unchanged.js";
export type { UpdateTarget } from "./update/target.js";
export { tableEntity } from "./update/targets/table-entity.js";
export type { EntityValue, TableEntityOptions } from "./update/targets/table-entity.js";
export type { UpdateResult } from "./update/update-call.js";
