/*
 * A plug-in of Stryker: leaves out the text of messages for people, which no guarantee depends on. What follows from an error, its class,
 * code and fields, is mutated.
 */
const text = new Set(["StringLiteral", "TemplateLiteral", "TemplateElement"]);

/** Whether the node is, or is part of, this argument of the call. */
function isArgument(path, call, index) {
  let at = path;
  while (at && at.parentPath !== call) at = at.parentPath;
  return at?.listKey === "arguments" && at.key === index;
}

function shouldIgnore(path) {
  if (path.isCallExpression()) {
    const { object } = path.node.callee;
    return object?.type === "Identifier" && object.name === "logger" ? "a line of the log" : undefined;
  }
  if (!text.has(path.node.type)) return undefined;
  // `const message = ...`, for the constructor in the next line.
  const declared = path.findParent((parent) => parent.isVariableDeclarator());
  if (declared?.node.id.name === "message") return "the message of an error";
  const call = path.findParent((parent) => parent.isCallExpression() || parent.isNewExpression());
  const name = call?.node.callee.name;
  if (call?.node.callee.type === "Super" && isArgument(path, call, 0) && path.findParent((parent) => parent.isClass())?.node.superClass?.name === "Error") return "the message of an error";
  if (name === "AggregateError" && isArgument(path, call, 1)) return "the message of an error";
  if (name === "createError" && isArgument(path, call, 1)) return "the message of an error";
  if (call?.isNewExpression() && /Error$/.test(name ?? "") && isArgument(path, call, 0)) return "the message of an error";
  return undefined;
}

export const strykerPlugins = [{ kind: "Ignore", name: "messages", value: { shouldIgnore } }];
