/**
 * Any Standard Schema (https://standardschema.dev: zod, valibot, arktype, ...) whose output is `Output`. A value that is read has
 * passed the schema, with its defaults and coercions applied; properties that the schema does not know are kept.
 *
 * @example
 * ```ts
 * const schema = z.object({ level: z.string().default("info") });
 * const { value } = await readTarget(jsonBlob(blob, { schema })); // value.level is a string
 * ```
 */
export interface StandardSchemaLike<Output> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

/** The result of a {@link StandardSchemaLike}: the value, or the issues if it is not valid. */
export type SchemaResult<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly SchemaIssue[] };

/** One reason why a value does not match a {@link StandardSchemaLike}. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}
