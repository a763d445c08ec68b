import { describe, expect, it } from "vitest";

import { emulatorConnectionString, replaceEndpoints } from "../../src/testing.js";

const emulator = emulatorConnectionString({ blobUrl: "http://h/1", queueUrl: "http://h/2", tableUrl: "http://h/3" });

function endpointsOf(connectionString: string): string[] {
  return connectionString.split(";").filter((part) => part.includes("Endpoint="));
}

describe("replaceEndpoints", () => {
  it("replaces what is given, and keeps the rest, the account and its key", () => {
    const replaced = replaceEndpoints(emulator, { tableUrl: "http://proxy/3" });
    expect(endpointsOf(replaced)).toEqual(["BlobEndpoint=http://h/1", "QueueEndpoint=http://h/2", "TableEndpoint=http://proxy/3"]);
    expect(replaced.replace("http://proxy/3", "http://h/3")).toBe(emulator);
  });

  it("adds the endpoint of files, which Azurite does not have", () => {
    const replaced = replaceEndpoints(emulator, { fileUrl: "http://files" });
    expect(replaced).toBe(`${emulator}FileEndpoint=http://files;`);
    expect(replaceEndpoints(replaced, { fileUrl: "http://proxy" })).toBe(`${emulator}FileEndpoint=http://proxy;`);
  });

  it("leaves an endpoint alone that is given as undefined", () => {
    expect(replaceEndpoints(emulator, { fileUrl: undefined })).toBe(emulator);
  });
});
