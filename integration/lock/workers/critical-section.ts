import { appendFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";

import type { BlockBlobClient, ContainerClient } from "@azure/storage-blob";

/** Where critical sections meet: a blob that they change, and a file in which all processes log. */
export interface MeetingPlace {
  readonly container: string;
  readonly log: string;
}

interface Counter {
  n: number;
  inside: string | null;
}

/** To be removed by the caller. */
export async function meetingPlace(container: ContainerClient): Promise<MeetingPlace & { remove: () => Promise<void> }> {
  await write(counterIn(container), { n: 0, inside: null });
  const folder = await mkdtemp(join(tmpdir(), "sections-"));
  const log = join(folder, "log");
  await writeFile(log, "");
  return { container: container.containerName, log, remove: () => rm(folder, { recursive: true }) };
}

/**
 * Reads, checks and writes a counter without any condition, and logs when it enters and leaves: if two of them
 * overlap, one finds the other's name, or its own overwritten, or an increment is lost, or the log is out of order.
 */
export async function criticalSection(container: ContainerClient, log: string, name: string): Promise<void> {
  const counter = counterIn(container);
  // Appended in one go, and there for everybody when the call returns.
  appendFileSync(log, `enter ${name}\n`);
  const { n, inside } = await read(counter);
  if (inside !== null) throw new Error(`${name} has entered, and ${inside} is still inside`);
  await write(counter, { n, inside: name });
  const later = await read(counter);
  if (later.inside !== name) throw new Error(`${name} is inside, and so is ${later.inside ?? "somebody who has left"}`);
  await write(counter, { n: n + 1, inside: null });
  appendFileSync(log, `exit ${name}\n`);
}

/** What the counter says. */
export async function countIn(container: ContainerClient): Promise<number> {
  return (await read(counterIn(container))).n;
}

/** The names in the order in which they entered. Throws if one entered before the other had left. */
export async function entriesOf(log: string): Promise<string[]> {
  const lines = (await readFile(log, "utf8")).trimEnd().split("\n");
  const entries: string[] = [];
  for (let at = 0; at < lines.length; at += 2) {
    const [enter = "", exit = ""] = [lines[at], lines[at + 1]];
    const name = enter.replace("enter ", "");
    if (enter !== `enter ${name}` || exit !== `exit ${name}`) throw new Error(`overlap: ${lines.slice(at, at + 4).join(", ")}`);
    entries.push(name);
  }
  return entries;
}

function counterIn(container: ContainerClient): BlockBlobClient {
  return container.getBlockBlobClient("counter");
}

async function read(blob: BlockBlobClient): Promise<Counter> {
  const answer = await blob.download();
  return JSON.parse(await text(answer.readableStreamBody!)) as Counter;
}

async function write(blob: BlockBlobClient, counter: Counter): Promise<void> {
  const body = JSON.stringify(counter);
  await blob.upload(body, body.length);
}
