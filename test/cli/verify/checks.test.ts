import { describe, expect, it } from "vitest";

import { allChecks } from "../../../src/cli/verify/all-checks.js";
import { sources } from "../../../src/cli/verify/row.js";
import { services } from "../../../src/cli/verify/service.js";

describe("the checks of verify", () => {
  it("have names of their own, so that a result can be found", () => {
    const names = allChecks.map(({ service, group, name }) => `${service}, ${group}, ${name}`);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it("say what is expected, how that is known, and what it costs", () => {
    for (const { name, expected, source, requests } of allChecks) {
      expect(expected, name).not.toBe("");
      expect(sources.some((known) => source.startsWith(known)), name).toBe(true);
      expect(requests, name).toBeGreaterThan(0);
    }
  });

  it("name a known difference only where there is one", () => {
    expect(allChecks.filter(({ expected, emulator }) => emulator === expected)).toEqual([]);
  });

  it("cover every service, and wait beside the others", () => {
    for (const service of services) expect(allChecks.filter((check) => check.service === service).length).toBeGreaterThan(20);
    expect(allChecks.filter(({ polls, slow }) => polls !== undefined && slow !== true)).toEqual([]);
  });
});
