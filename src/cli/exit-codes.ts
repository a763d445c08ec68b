/** How the command line ends, for scripts that call it. */
export const exitCodes = {
  done: 0,
  /** The service, the network or the command line itself failed. */
  failed: 1,
  /** The command was not understood. */
  usage: 2,
  /** What was named is not there: a container, a queue, a table, a lock that nobody holds. */
  notFound: 3,
  /** What was looked at has changed hands since: nothing was done to its successor. */
  changed: 4,
  /** Nobody said yes. */
  notConfirmed: 5,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Ends a command with a code of its own and a message for people. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.exitCode = exitCode;
  }
}
