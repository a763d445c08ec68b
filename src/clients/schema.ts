/**
 * Any Standard Schema (https://standardschema.dev: zod, valibot, arktype, ...) whose input is `T`.
 * The library only checks with it: what is handed over and what is stored is the value itself, so that properties
 * which a schema would strip survive an update.
 */
export interface StandardSchemaLike<T> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaOutcome | Promise<SchemaOutcome>;
    readonly types?: { readonly input: T; readonly output: unknown } | undefined;
  };
}

/** What a Standard Schema answers: `issues` if the value does not fit. */
export interface SchemaOutcome {
  readonly issues?: readonly SchemaIssue[] | undefined;
}

/** One thing that is wrong with a value. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}
