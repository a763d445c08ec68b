import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { describe, it } from "vitest";

import { pages } from "../docs/pages.js";
import { descendantsOf, isAlive, start } from "./started.js";

const root = join(import.meta.dirname, "../..");
const files = readdirSync(join(root, "samples"))
  .filter((file) => file.endsWith(".ts") && file !== "tour.ts")
  .map((file) => file.replace(/\.ts$/, ""));

/** Enough for a machine that does much else; the tour takes less than a minute on one that does not. */
const timeout = 300_000;

describe.concurrent("the tour", () => {
  it("shows each sample and its outcome, readable in a log", { timeout }, async ({ expect }) => {
    await using running = start("samples/tour.ts");
    const { code, stdout, stderr } = await running.ended;
    expect(stderr).toBe("");
    expect(code).toBe(0);
    expect(stdout).not.toMatch(/[\u001b\r\b]/);

    const lines = stdout.split("\n");
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(100);
    // One heading for each, in order, and one outcome for each.
    const places = lines.flatMap((line) => /^(\d+)\/(\d+) {2}\S/.exec(line)?.slice(1, 3).join("/") ?? []);
    expect(places).toEqual(files.map((_, index) => `${index + 1}/${files.length}`));
    expect(lines.filter((line) => line.startsWith("   ok ")).length).toBe(files.length);

    const summary = stdout.slice(stdout.indexOf("What you have seen"));
    for (const name of files) expect(summary).toContain(`   ${name} `);
    const headings = pages.flatMap(({ path, anchors }) => anchors.map((anchor) => `${path}#${anchor}`));
    const sections = Array.from(summary.matchAll(/^ {3}- (.*): /gm), ([, section]) => section);
    expect(sections.length).toBeGreaterThan(5);
    expect(headings).toEqual(expect.arrayContaining(sections));
    const [, heading = ""] = /README\.md, "(.*)"/.exec(summary) ?? [];
    expect(pages.find(({ path }) => path === "README.md")?.text).toContain(`\n## ${heading}\n`);

    // The timelines: what is exclusive has one holder at a time, and a dead leader keeps its lease for a while.
    const turns = rowsOf(lines, ["billing", "shipping", "support"]);
    expect(turns.every((row) => row.includes("#"))).toBe(true);
    expect(holdersAtOnce(turns)).toBe(1);
    const leaders = rowsOf(lines, ["Ada", "Grace", "Edsger"]);
    expect(holdersAtOnce(leaders)).toBe(1);
    expect(leaders.filter((row) => /#x~+$/.test(row)).length).toBe(1);
    const terms = rowsOf(lines, ["jobs"])[0]!.replaceAll(" ", "");
    expect(terms).toMatch(/^1+2+3/);
  });

  it("has every sample, by the name of its file", { timeout }, async ({ expect }) => {
    await using running = start("samples/tour.ts", "--list");
    const { code, stdout } = await running.ended;
    expect(code).toBe(0);
    expect(stdout.trimEnd().split("\n").map((line) => line.split(" ")[0]).sort()).toEqual(files.toSorted());
  });

  it("runs one sample of that name", { timeout }, async ({ expect }) => {
    await using running = start("samples/tour.ts", "transfers");
    const { code, stdout } = await running.ended;
    expect(code).toBe(0);
    expect(stdout).toContain("Money between accounts");
    expect(stdout).toContain("= 400");
    expect(stdout).not.toContain("What you have seen");
  });

  it("refuses what is no sample, and says how to find them", { timeout }, async ({ expect }) => {
    for (const argument of ["cold-counter", "--colour"]) {
      await using running = start("samples/tour.ts", argument);
      const { code, stdout, stderr } = await running.ended;
      expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
      expect(stderr).toContain(argument);
      expect(stderr).toContain("npm start");
    }
  });

  it("ends with the sample that does not keep its promise, and names it", { timeout }, async ({ expect }) => {
    await using running = start("integration/samples/scenes.ts");
    const { code, stdout } = await running.ended;
    expect(code).toBe(1);
    expect(stdout).toContain("ok as promised");
    expect(stdout).toMatch(/^FAILED: 2\/3 {2}breaks: Error: this does not hold: water flows uphill$/m);
    expect(stdout).toContain("npm start -- breaks");
    expect(stdout).not.toContain("never-reached");
  });

  it.skipIf(!existsSync("/proc/self/stat"))("is interrupted in the middle, and leaves no process behind", { timeout }, async ({ expect }) => {
    await using running = start("samples/leader-election.ts");
    const { child, output, ended } = running;
    await expect.poll(output, { timeout: 120_000 }).toContain("leads, and runs");
    const processes = descendantsOf(child.pid!);
    expect(processes.length).toBeGreaterThanOrEqual(4); // Azurite and three schedulers
    // To this process alone: at a terminal, Ctrl-C reaches the others too.
    child.kill("SIGINT");
    try {
      await expect.poll(() => child.exitCode, { timeout: 20_000 }).toBe(130);
      await expect.poll(() => processes.filter(isAlive), { timeout: 20_000 }).toEqual([]);
    } finally {
      for (const pid of processes.filter(isAlive)) process.kill(pid, "SIGKILL");
    }
    const { stdout, stderr } = await ended;
    expect(stdout.trimEnd().endsWith("Interrupted.")).toBe(true);
    expect(stderr).toBe("");
  });
});

describe.concurrent("a sample", () => {
  it("can be started alone, as a file", { timeout }, async ({ expect }) => {
    await using running = start("samples/blob-optimistic.ts");
    const { code, stdout } = await running.ended;
    expect(code).toBe(0);
    expect(stdout).toContain('"Hello from another process! And from this one."');
  });
});

/** The rows of a timeline, without their names: from the beginning of the axis, which is the first line with 0 s above. */
function rowsOf(lines: readonly string[], names: readonly string[]): string[] {
  return names.map((name) => {
    const index = lines.findIndex((line) => line.startsWith(`      ${name} `));
    const axis = lines.slice(0, index).findLast((line) => /^ +0 s /.test(line)) ?? "";
    return lines[index]?.slice(axis.indexOf("0 s")) ?? "";
  });
}

/** In how many rows of a column somebody holds, at the most. */
function holdersAtOnce(rows: readonly string[]): number {
  const columns = Math.max(...rows.map(({ length }) => length));
  return Math.max(...Array.from({ length: columns }, (_, column) => rows.filter((row) => row[column] === "#").length));
}
