/** A copy of a schema's output as JSON, with those properties of its input that it does not have. */
export function asDocument(output: unknown, input: unknown): unknown {
  if (typeof output !== "object" || output === null) return output;
  if (Array.isArray(output)) return listAsDocument(output, Array.isArray(input) ? input : []);
  const prototype: unknown = Object.getPrototypeOf(output);
  if (prototype !== Object.prototype && prototype !== null) {
    // Stored as text or as {}, it would come back as something else than the type of the schema says.
    throw new TypeError(`The schema returns a ${output.constructor.name}, which JSON cannot represent: keep the stored form in the schema, and convert it where it is used.`);
  }
  const before = isRecord(input) ? input : {};
  const kept = Object.entries(before).filter(([name]) => !Object.hasOwn(output, name));
  return Object.fromEntries([...Object.entries(output).map(([name, value]) => [name, asDocument(value, own(before, name))] as const), ...kept]);
}

/**
 * The items are paired by position, if they are recognisably the same. A schema that sorts, filters or merges items leaves no
 * way to tell which item a property belongs to that it does not know: then such properties, at any depth, are an error, and never get
 * lost.
 */
function listAsDocument(output: readonly unknown[], input: readonly unknown[]): unknown[] {
  if (output.length === input.length && output.every((item, index) => isSameItem(item, input[index]))) {
    return output.map((item, index) => asDocument(item, input[index]));
  }
  const known = shapeOf(output);
  if (input.some((item) => hasUnknown(item, known))) {
    throw new TypeError("The schema rearranges or changes a list whose items have properties that it does not know: declare them in the schema.");
  }
  return output.map((item) => asDocument(item, undefined));
}

/** Whether one item is what the schema made of another, or it does not matter: there is nothing that the schema does not know. */
function isSameItem(output: unknown, input: unknown): boolean {
  return isSame(output, input) || !hasUnknown(input, shapeOf([output]));
}

/** What the schema adds may differ, and the type of what it coerces. */
function isSame(output: unknown, input: unknown): boolean {
  if (isRecord(output) && isRecord(input)) {
    return Object.entries(output).every(([name, value]) => !Object.hasOwn(input, name) || isSame(value, input[name]));
  }
  if (Array.isArray(output) && Array.isArray(input)) {
    return output.length === input.length && output.every((item, index) => isSame(item, input[index]));
  }
  return Object.is(output, input) || (isLeaf(output) && isLeaf(input) && typeof output !== typeof input && String(output) === String(input));
}

/** The names of the properties in all of some values, at each depth. */
interface Shape {
  readonly members: Map<string, Shape>;
  items: Shape | undefined;
}

function shapeOf(values: readonly unknown[]): Shape {
  const shape: Shape = { members: new Map(), items: undefined };
  for (const value of values) addTo(shape, value);
  return shape;
}

function addTo(shape: Shape, value: unknown): void {
  if (Array.isArray(value)) {
    shape.items ??= { members: new Map(), items: undefined };
    for (const item of value) addTo(shape.items, item);
  } else if (isRecord(value)) {
    for (const [name, member] of Object.entries(value)) {
      let inner = shape.members.get(name);
      if (!inner) shape.members.set(name, (inner = { members: new Map(), items: undefined }));
      addTo(inner, member);
    }
  }
}

/** Whether a value has a property, at any depth, that is not part of a shape. */
function hasUnknown(value: unknown, known: Shape | undefined): boolean {
  if (Array.isArray(value)) return value.some((item) => hasUnknown(item, known?.items));
  if (!isRecord(value)) return false;
  return Object.entries(value).some(([name, member]) => {
    const inner = known?.members.get(name);
    return !inner || hasUnknown(member, inner);
  });
}

/** Ignores inherited members: a property may be called `valueOf`. */
function own(record: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

function isLeaf(value: unknown): boolean {
  return typeof value !== "object" || value === null;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
