import { checkLinearizable, type CheckResult, type Model, type Operation } from "./checker.js";

/** The model of an object with this history. */
export type ModelFor<S, I, O> = (history: readonly Operation<I, O>[]) => Model<S, I, O>;

/** The smallest prefix of a history that cannot be explained. */
export interface Counterexample<I, O> {
  readonly operations: readonly Operation<I, O>[];
  /** The operation whose return ends the prefix. */
  readonly last: Operation<I, O>;
  /** The longest order that explains the others, as places in `operations`. */
  readonly order: readonly number[];
}

/**
 * Checks a history, and cuts it after the first return that cannot be explained. What has not returned by then counts as
 * unknown. If a prefix cannot be explained, no longer prefix can, so that a binary search finds the smallest one.
 */
export function findCounterexample<S, I, O>(modelFor: ModelFor<S, I, O>, history: readonly Operation<I, O>[]): Counterexample<I, O> | undefined {
  const check = (part: readonly Operation<I, O>[]): CheckResult => checkLinearizable(modelFor(part), part);
  if (check(history).linearizable) return undefined;
  const returns = history.filter(({ output }) => output !== undefined).sort((a, b) => a.returnedAt - b.returnedAt);
  const upTo = (n: number): Operation<I, O>[] => prefixOf(history, returns[n]?.returnedAt ?? Infinity);
  let low = 0;
  let high = returns.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (check(upTo(middle)).linearizable) low = middle + 1;
    else high = middle;
  }
  const operations = upTo(low);
  const last = returns[low];
  if (!last) throw new Error("a history without a return is always linearizable");
  return { operations, last, order: check(operations).order };
}

function prefixOf<I, O>(history: readonly Operation<I, O>[], end: number): Operation<I, O>[] {
  return history
    .filter(({ invokedAt }) => invokedAt <= end)
    .map((operation) => (operation.returnedAt <= end ? operation : { ...operation, output: undefined, returnedAt: Infinity }));
}

/** How many operations are printed: those before them are explained, and only their result matters. */
const maxLines = 30;

/** For people: one line for each operation, in the order of their invocations. */
export function printCounterexample<S, I, O>(
  modelFor: ModelFor<S, I, O>,
  { operations, last, order }: Counterexample<I, O>,
  describe: (input: I, output: O | undefined) => string,
): string {
  const start = Math.min(...operations.map(({ invokedAt }) => invokedAt));
  const time = (at: number): string => (at === Infinity ? "?" : (at - start).toFixed(3)).padStart(10);
  const isLast = (operation: Operation<I, O>): boolean => operation.invokedAt === last.invokedAt && operation.process === last.process;
  const sorted = [...operations].sort((a, b) => a.invokedAt - b.invokedAt);
  const printed = sorted.filter((operation, i) => i >= sorted.length - maxLines || isLast(operation));
  const lines = printed.map((operation) => {
    const mark = isLast(operation) ? "*" : " ";
    return `${mark}${time(operation.invokedAt)}${time(operation.returnedAt)}  ${operation.process.padEnd(8)}  ${describe(operation.input, operation.output)}`;
  });
  const model = modelFor(operations);
  let state = model.initial;
  for (const index of order) {
    const operation = operations[index];
    if (operation) state = model.step(state, operation.input, operation.output) ?? state;
  }
  const explained = order.slice(-maxLines).map((index) => operations[index]).map((operation) => operation && describe(operation.input, operation.output));
  return [
    `not linearizable: the operation marked with * cannot be explained. ${operations.length} operations up to its return:`,
    ...(operations.length > printed.length ? [`  (${operations.length - printed.length} earlier operations)`] : []),
    " invoked   returned    process   operation",
    ...lines,
    `the longest order that explains the others has ${order.length} operations, and ends with:`,
    ...explained.map((text) => `  ${text ?? ""}`),
    `and leads to: ${model.key(state)}`,
  ].join("\n");
}
