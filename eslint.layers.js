import { readdirSync } from "node:fs";
import { join } from "node:path";

/**
 * What each folder of src/ may import besides itself, `clients.ts` and `errors.ts`. Read it from top to bottom: nothing
 * imports what stands below it, so that an algorithm can be understood (and tested) without those that are built on it.
 */
const mayImport = {
  internal: [],
  table: ["internal"],
  lease: ["internal"],
  update: ["internal", "table", "lease"],
  read: ["internal", "update"],
  append: ["internal", "update"],
  page: ["internal", "update"],
  ids: ["internal", "update"],
  transaction: ["internal", "table", "update"],
  file: ["internal", "lease", "update"],
  queue: ["internal", "table", "update"],
  lock: ["internal", "table", "lease", "update", "transaction"],
  facade: ["internal", "table", "lease", "update", "read", "append", "page", "ids", "transaction", "file", "queue", "lock"],
  // Shipped for other people's tests: servers that know the services, and nothing of this library.
  testing: [],
  cli: ["internal", "table", "lease", "update", "read", "append", "page", "ids", "transaction", "file", "queue", "lock", "facade", "testing"],
};

/** The folders that run in Node only, and may use its modules and start programs. */
const nodeOnly = ["testing", "cli"];

const folders = readdirSync(join(import.meta.dirname, "src"), { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
const homeless = folders.filter((folder) => !(folder in mayImport));
if (homeless.length > 0) throw new Error(`eslint.layers.js does not say what src/${homeless.join(", src/")} may import`);

const webOnly = {
  regex: "^node:",
  message: "src/ outside src/testing/ and src/cli/ uses web standards only: it runs in browsers.",
};

// The clients come from the caller: with an SDK that is imported, it would have to be installed by those who do not use it.
const noSdks = {
  regex: "^@azure/(storage-|data-tables)",
  message: "Describe what is called of an SDK in clients.ts: all SDKs are optional.",
};

const noEntries = {
  regex: "^(\\./|(\\.\\./)+)(index|blob|table|queue|file|testing)\\.js$",
  message: "The entries are for users: import the file that has it.",
};

function onlyBelow(folder, allowed) {
  const others = Object.keys(mayImport).filter((other) => other !== folder && !allowed.includes(other));
  return {
    regex: `^(\\.\\./)+(${others.join("|")})/`,
    message: `src/${folder} may import ${allowed.join(", ") || "nothing but itself"}, clients and errors: dependencies point one way.`,
  };
}

function restricted(files, patterns) {
  return { files, rules: { "no-restricted-imports": ["error", { patterns }] } };
}

/** One rule for each folder, as a later one would replace an earlier one for the same files. */
export default [
  restricted(["src/*.ts"], [webOnly, noSdks]),
  ...Object.entries(mayImport).map(([folder, allowed]) =>
    restricted(
      [`src/${folder}/**/*.ts`],
      [onlyBelow(folder, allowed), ...(nodeOnly.includes(folder) ? [] : [webOnly, noSdks, noEntries])],
    ),
  ),
];
