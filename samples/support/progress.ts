/* For what takes longer: a bar on a terminal; elsewhere a plain line now and then, so that a log shows that it goes on. */
import { isTerminal, paint, pin, print } from "./screen.js";

const redrawInMs = 100;
const plainLineInMs = 5_000;

/** Does something many times, one after the other, and shows how far it is. */
export async function repeat(total: number, what: string, once: () => Promise<unknown>): Promise<void> {
  const pace = startPace();
  try {
    for (let done = 0; done < total; done++) {
      if (pace()) show(what, done, total);
      await once();
    }
  } finally {
    pin([]);
  }
}

/** Waits for a promise; without a terminal, `news` is printed now and then, as nothing else tells that it goes on. */
export async function patiently<T>(promise: Promise<T>, news: () => string): Promise<T> {
  if (isTerminal) return promise;
  const timer = setInterval(() => print(`      ... ${news()}`), plainLineInMs);
  try {
    return await promise;
  } finally {
    clearInterval(timer);
  }
}

function show(what: string, done: number, total: number): void {
  if (!isTerminal) {
    print(`      ... ${done} of ${total} ${what}`);
    return;
  }
  const columns = 30;
  const filled = Math.round((done / total) * columns);
  pin([`      ${paint("cyan", "█".repeat(filled))}${paint("dim", "░".repeat(columns - filled))} ${done} of ${total} ${what}`]);
}

/** Tells whether it is time to show something again. */
function startPace(): () => boolean {
  let shown = performance.now();
  return () => {
    const now = performance.now();
    if (now - shown < (isTerminal ? redrawInMs : plainLineInMs)) return false;
    shown = now;
    return true;
  };
}
