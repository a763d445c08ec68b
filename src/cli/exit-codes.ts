/** The exit codes, for scripts that run commands. */
export const exitCodes = {
  done: 0,
  /** The service, the network or the command line itself failed. */
  failed: 1,
  /** Usage error. */
  usage: 2,
  /** The target does not exist: a container, a queue, a table, a lock that is not held. */
  notFound: 3,
  /** The holder has changed since it was inspected: nothing was done to the new one. */
  changed: 4,
  /** The user did not confirm. */
  notConfirmed: 5,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Ends a command with this exit code, and a message for the user. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.exitCode = exitCode;
  }
}
