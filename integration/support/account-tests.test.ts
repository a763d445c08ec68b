import { expect, it } from "vitest";

import { testsWithServers } from "./account-tests.js";

it("finds the tests that use a proxy or an emulator, also through files that they import, and no others", () => {
  const found = testsWithServers();
  expect(found).toEqual(expect.arrayContaining([
    "integration/update/lost-answers.test.ts",
    "integration/file/lease.test.ts",
    "integration/conformance/smb.test.ts",
    "integration/cli/verify.test.ts",
  ]));
  for (const service of ["blob", "table", "queue", "file"]) expect(found).not.toContain(`integration/conformance/${service}.test.ts`);
  expect(found).not.toContain("integration/lock/semaphore.test.ts");
});
