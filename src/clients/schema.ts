/**
 * Any Standard Schema (https://standardschema.dev: zod, valibot, arktype, ...) whose input is `T`. The library uses it for
 * validation only: it returns and stores the value itself, so that properties that a schema would strip survive an update.
 */
export interface StandardSchemaLike<T> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaOutcome | Promise<SchemaOutcome>;
    readonly types?: { readonly input: T; readonly output: unknown } | undefined;
  };
}

/** The result of a Standard Schema: `issues` if the value is not valid. */
export interface SchemaOutcome {
  readonly issues?: readonly SchemaIssue[] | undefined;
}

/** One reason why a value is not valid. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}
