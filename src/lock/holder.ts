interface ProcessLike {
  pid?: number;
  env?: Record<string, string | undefined>;
}

let text: string | undefined;

/** How this process names itself to people who look at a lock: host, process id, and an id in case both recur. */
export function thisProcess(): string {
  if (text === undefined) {
    const { process } = globalThis as { process?: ProcessLike };
    const host = process?.env?.["HOSTNAME"] ?? process?.env?.["COMPUTERNAME"] ?? "host";
    text = `${host}/${process?.pid ?? "browser"}/${crypto.randomUUID().slice(0, 8)}`;
  }
  return text;
}
