/**
 * Thrown by an adapter whose write takes several requests: one that came before the deciding one was refused for good,
 * so that nothing has changed for anybody else.
 */
export class NotSentError extends Error {
  override readonly name = "NotSentError";
  /** Somebody else was first: read again. */
  readonly race: boolean;

  constructor(cause: unknown, race = false) {
    super("the write was not sent", { cause });
    this.race = race;
  }
}
