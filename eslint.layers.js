import { readdirSync } from "node:fs";
import { join } from "node:path";

/**
 * What each folder of src/ imports besides itself; `errors` is the file `errors.ts`. The list is exact: the lint rule below
 * rejects an import that is not listed, and `test/architecture/` rejects an entry that is not used. An entry may only name
 * entries above it, so there are no cycles between folders. `npm run layers` draws the list in CONTRIBUTING.md.
 *
 * The entries (`index.ts`, `clients.ts`, `testing.ts`) re-export from all folders, and are not listed.
 */
export const mayImport = {
  clients: [],
  errors: ["clients"],
  core: ["clients", "errors"],
  target: ["clients", "errors", "core"],
  lease: ["clients", "errors", "core"],
  update: ["clients", "errors", "core", "target", "lease"],
  transaction: ["clients", "errors", "core", "target", "update"],
  read: ["clients", "errors", "core", "target", "update"],
  append: ["clients", "errors", "core", "target", "update"],
  ids: ["clients", "errors", "core", "target", "update"],
  page: ["clients", "errors", "core", "target", "update"],
  lock: ["clients", "errors", "core", "target", "lease", "update", "transaction"],
  overflow: ["clients", "core", "target"],
  queue: ["clients", "errors", "core", "target", "transaction", "overflow"],
  once: ["clients", "errors", "core", "target", "lease", "transaction", "overflow", "queue"],
  outbox: ["clients", "errors", "core", "target", "transaction", "lock", "queue"],
  schedule: ["clients", "errors", "core", "target", "lease", "update", "transaction", "lock", "queue"],
  balancer: ["clients", "errors", "core", "lease", "lock"],
  facade: ["clients", "core", "target", "lease", "update", "transaction", "read", "lock", "queue", "once", "outbox", "schedule"],
  // Shipped for the tests of applications: servers that implement the services, and use nothing else of this library.
  testing: ["core"],
  // Of the servers, only the published key of the emulator; all helpers whose permissions are verified.
  cli: ["clients", "errors", "core", "target", "lease", "update", "transaction", "read", "append", "ids", "page", "lock", "queue", "once", "outbox", "schedule", "balancer", "testing"],
};

/** The folders that run in Node only, and may use its modules and start programs. */
const nodeOnly = ["testing", "cli"];

const folders = readdirSync(join(import.meta.dirname, "src"), { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
const unlisted = folders.filter((folder) => !(folder in mayImport));
if (unlisted.length > 0) throw new Error(`eslint.layers.js does not list what src/${unlisted.join(", src/")} may import`);

const webOnly = {
  regex: "^node:",
  message: "src/ outside src/testing/ and src/cli/ uses web standards only: it runs in browsers.",
};

// The caller passes the clients in. An SDK that is imported here would have to be installed by applications that do not use it.
const noSdks = {
  regex: "^@azure/(storage-|data-tables)",
  message: "Describe the members of an SDK that are called in src/clients/: all SDKs are optional.",
};

const noEntries = {
  regex: "^(\\.\\./)+(index|clients|testing)\\.js$",
  message: "The entries are for applications: import the file that defines it.",
};

function onlyListed(name, allowed) {
  const others = Object.keys(mayImport).filter((other) => other !== name && !allowed.includes(other));
  return {
    regex: `^${name === "errors" ? "\\./" : "(\\.\\./)+"}(${others.map((other) => (other === "errors" ? "errors\\.js$" : `${other}/`)).join("|")})`,
    message: `src/${name} may import ${allowed.join(", ") || "nothing but itself"} (eslint.layers.js): dependencies point one way.`,
  };
}

function restricted(files, patterns) {
  return { files, rules: { "no-restricted-imports": ["error", { patterns }] } };
}

/** One rule for each folder: a later rule for the same files replaces an earlier one. */
export default [
  restricted(["src/*.ts"], [webOnly, noSdks]),
  ...Object.entries(mayImport).map(([name, allowed]) =>
    restricted(
      [name === "errors" ? "src/errors.ts" : `src/${name}/**/*.{ts,tsx}`],
      [onlyListed(name, allowed), ...(nodeOnly.includes(name) ? [] : [webOnly, noSdks, noEntries])],
    ),
  ),
];
