import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");

/** What stands for, or in front of, the service: a test that uses one of these needs an emulator, or changes what is sent. */
const servers = /\b(startAzurite|startFaultProxy|startFileShareServer|emulatorAccount|createServer|copyingProxy)\b/;
/** Starts the storage of the run itself. */
const setup = "integration/support/azurite.setup.ts";

/**
 * The test files that cannot run on an account, because they, or files that they import, use a proxy or an emulator of their own.
 * `servers` of `src/` do not count: they are used only by what names them.
 */
export function testsWithServers(): string[] {
  const known = new Map<string, boolean>();
  const uses = (file: string): boolean => {
    const found = known.get(file);
    if (found !== undefined) return found;
    known.set(file, false); // for cycles
    const text = readFileSync(join(root, file), "utf8");
    const used = file !== setup && (servers.test(text) || importsOf(file, text).some(uses));
    known.set(file, used);
    return used;
  };
  return testFiles().filter(uses).sort();
}

function testFiles(): string[] {
  const names = ["integration", "samples"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) => `${folder}/${name.replaceAll("\\", "/")}`));
  return names.filter((name) => name.endsWith(".test.ts") && !/^integration\/(package|types)\//.test(name));
}

/** The files of the tests, samples and fakes that a file imports, or names as a worker. */
function importsOf(file: string, text: string): string[] {
  const named = [...text.matchAll(/["'`](\.{1,2}\/[\w./-]+?)(?:\.js|\.ts)?["'`]/g)].map(([, path = ""]) => `${path}.ts`);
  const paths = named.map((path) => relative(root, resolve(root, dirname(file), path)).replaceAll("\\", "/"));
  return paths.filter((path) => !path.startsWith("src/") && existsSync(join(root, path)));
}
