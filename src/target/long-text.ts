/** A string property has 32 Ki characters at most. */
const maxCharactersInProperty = 30_000;

/** The properties `name0`, `name1`, ... of an entity that contain a text: as many as it needs, and none if it is empty. */
export function textProperties(name: string, text: string): Record<string, string> {
  const properties: Record<string, string> = {};
  for (let start = 0, index = 0; start < text.length; index++) {
    let end = Math.min(text.length, start + maxCharactersInProperty);
    // Half of a surrogate pair cannot be stored. JSON.stringify escapes lone ones, so only the cut can make one.
    if (end < text.length && /[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end--;
    properties[`${name}${index}`] = text.slice(start, end);
    start = end;
  }
  return properties;
}

/** The text in such properties. Empty if there is none. */
export function textIn(entity: object, name: string): string {
  const properties = entity as Readonly<Record<string, unknown>>;
  let text = "";
  for (let index = 0; typeof properties[`${name}${index}`] === "string"; index++) text += properties[`${name}${index}`] as string;
  return text;
}
