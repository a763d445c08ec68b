import { useEffect, useRef, useState } from "preact/hooks";
import type { Snapshot } from "../snapshot.js";

/** Until the server has said how often it looks, and after a failure. */
const retryInMs = 3_000;

export interface Live {
  readonly snapshot: Snapshot | undefined;
  /** Why there is no newer one. */
  readonly error: string | undefined;
  readonly isPaused: boolean;
  readonly setPaused: (isPaused: boolean) => void;
  /** Asks now. */
  readonly refresh: () => void;
}

/** The state of the account, asked for again and again while the page can be seen: the server looks only when it is asked. */
export function useLive(): Live {
  const [snapshot, setSnapshot] = useState<Snapshot>();
  const [error, setError] = useState<string>();
  const [isPaused, setPaused] = useState(false);
  const [round, setRound] = useState(0);
  const intervalInMs = useRef(retryInMs);
  useEffect(() => {
    if (isPaused) return;
    let timer: number | undefined;
    const ended = new AbortController();
    const poll = async (): Promise<void> => {
      try {
        const next = await getJson<Snapshot>("snapshot", ended.signal);
        intervalInMs.current = next.intervalInMs;
        setSnapshot(next);
        setError(undefined);
      } catch (failure) {
        if (ended.signal.aborted) return;
        setError(messageOf(failure));
      }
      timer = window.setTimeout(next, intervalInMs.current);
    };
    const next = (): void => {
      timer = undefined;
      // Goes on when it can be seen again.
      if (!document.hidden) void poll();
    };
    const onVisible = (): void => {
      if (!document.hidden && timer === undefined) void poll();
    };
    document.addEventListener("visibilitychange", onVisible);
    void poll();
    return () => {
      document.removeEventListener("visibilitychange", onVisible);
      window.clearTimeout(timer);
      ended.abort();
    };
  }, [isPaused, round]);
  return { snapshot, error, isPaused, setPaused, refresh: () => setRound((count) => count + 1) };
}

/** The time, every second, for what says how long something has lasted. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 1_000);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return answerOf(await fetch(path, { ...(signal && { signal }) }));
}

export async function postJson<T>(path: string, body: unknown): Promise<T> {
  return answerOf(await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));
}

async function answerOf<T>(response: Response): Promise<T> {
  const text = await response.text();
  if (response.ok) return JSON.parse(text) as T;
  throw new Error(response.headers.get("content-type")?.startsWith("application/json") ? (JSON.parse(text) as { error: string }).error : text);
}

export function messageOf(error: unknown): string {
  // What browsers say of a server that does not run is of no use.
  if (error instanceof TypeError) return "The command that serves this page does not respond. Has it ended?";
  return error instanceof Error ? error.message : String(error);
}
