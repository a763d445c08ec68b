/** What a fake service answers to one request. */
export interface Answer {
  readonly kind: "ok" | "error" | "hang";
  readonly status?: number;
  readonly code?: string | undefined;
  /** An answer of 200 that tells of another lease. */
  readonly leaseId?: string;
  /** How often the SDK sends the request until it has this answer. */
  readonly sends?: number;
  readonly afterInMs?: number;
  /** Takes no notice of an abort. */
  readonly deaf?: boolean;
}

export const ok: Answer = { kind: "ok" };
export const reset: Answer = { kind: "error" };
export const hang: Answer = { kind: "hang" };
export const deafHang: Answer = { kind: "hang", deaf: true };

export function okAbout(leaseId: string): Answer {
  return { kind: "ok", leaseId };
}

export function status(status: number, code?: string): Answer {
  return { kind: "error", status, code };
}

export function after(afterInMs: number, answer: Answer): Answer {
  return { ...answer, afterInMs };
}

export function deaf(answer: Answer): Answer {
  return { ...answer, deaf: true };
}

export function resent(answer: Answer): Answer {
  return { ...answer, sends: 2 };
}

/** The shape that the SDKs give to errors of the service; one without a status is a broken connection. */
export function restError(answer: Answer): Error {
  const error = new Error(answer.code ?? (answer.status === undefined ? "ECONNRESET" : `status ${answer.status}`));
  const facts = { name: "RestError", statusCode: answer.status, code: answer.code ?? (answer.status === undefined ? "ECONNRESET" : undefined) };
  return Object.assign(error, facts, { details: { errorCode: answer.code } });
}

/** Behaves as an SDK call: one abort listener for each send, an `AbortError` when the signal aborts. */
export async function give<R>(answer: Answer, signal: AbortSignal | undefined, result: () => R): Promise<R> {
  if (signal?.aborted) throw abortError();
  await new Promise<void>((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    for (let send = 0; send < (answer.sends ?? 1); send++) {
      signal?.addEventListener("abort", () => {
        if (answer.deaf) return;
        clearTimeout(timer);
        reject(abortError());
      });
    }
    if (answer.kind === "hang") return;
    if (answer.afterInMs === undefined) resolve();
    else timer = setTimeout(resolve, answer.afterInMs);
  });
  if (answer.kind === "error") throw restError(answer);
  return result();
}

function abortError(): Error {
  return Object.assign(new Error("The operation was aborted."), { name: "AbortError" });
}
