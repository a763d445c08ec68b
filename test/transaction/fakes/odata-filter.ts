type Value = string | number | boolean;

/** As much of the language of filters as the library sends: comparisons, `and`, `or`, `not` and parentheses. */
export function matchesFilter(filter: string, valueOf: (name: string) => Value | undefined): boolean {
  const tokens = filter.match(/datetime'[^']*'|'(?:[^']|'')*'|[()]|[^\s()]+/g) ?? [];
  let at = 0;

  function either(): boolean {
    let result = both();
    while (tokens[at] === "or") {
      at++;
      const right = both();
      result ||= right;
    }
    return result;
  }

  function both(): boolean {
    let result = single();
    while (tokens[at] === "and") {
      at++;
      const right = single();
      result &&= right;
    }
    return result;
  }

  function single(): boolean {
    if (tokens[at] === "not") {
      at++;
      return !single();
    }
    if (tokens[at] === "(") {
      at++;
      const result = either();
      at++;
      return result;
    }
    const [name = "", operator = "", literal = ""] = tokens.slice(at, (at += 3));
    return compare(valueOf(name), operator, literalOf(literal));
  }

  return either();
}

function literalOf(text: string): Value {
  if (text === "true" || text === "false") return text === "true";
  if (text.startsWith("datetime'")) return text.slice("datetime'".length, -1);
  return text.startsWith("'") ? text.slice(1, -1).replaceAll("''", "'") : Number(text);
}

function compare(a: Value | undefined, operator: string, b: Value): boolean {
  if (a === undefined) return false;
  const order = a < b ? -1 : a > b ? 1 : 0;
  switch (operator) {
    case "eq":
      return order === 0;
    case "ge":
      return order >= 0;
    case "gt":
      return order > 0;
    case "le":
      return order <= 0;
    case "lt":
      return order < 0;
    default:
      throw new Error(`no operator ${operator}`);
  }
}
