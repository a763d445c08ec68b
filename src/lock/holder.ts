interface ProcessLike {
  pid?: number;
  env?: Record<string, string | undefined>;
  getBuiltinModule?: (id: string) => { hostname?: () => string } | undefined;
}

let text: string | undefined;

/** How this process names itself to people who look at a lock: host, process id, and an id in case both recur. */
export function thisProcess(): string {
  if (text === undefined) {
    const { process } = globalThis as { process?: ProcessLike };
    const host = process?.env?.["HOSTNAME"] ?? process?.env?.["COMPUTERNAME"] ?? process?.getBuiltinModule?.("node:os")?.hostname?.() ?? "host";
    text = `${host}/${process?.pid ?? "browser"}/${crypto.randomUUID().slice(0, 8)}`;
  }
  return text;
}

/** It goes into the metadata of a blob, percent-encoded: these hold 8 KiB at most, and half a character not at all. */
export function checkHolder(holder: string): string {
  try {
    if (typeof holder === "string" && encodeURIComponent(holder).length <= 1_024) return holder;
  } catch {
    // half of a surrogate pair
  }
  throw new RangeError("holder must be a well-formed string of at most 1,024 characters when percent-encoded");
}
