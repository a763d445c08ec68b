import { afterAll, beforeAll, expect, it } from "vitest";

import { type Codec, encodedFile, leasedUpdate, readTarget, SchemaError } from "../../src/index.js";
import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { freshShare } from "./support.js";

/** Whole numbers, separated by spaces. */
const numbers: Codec<number[]> = {
  contentType: "text/x-numbers",
  decode(content) {
    const values = new TextDecoder().decode(content).split(" ").map(Number);
    if (!values.every(Number.isInteger)) throw new Error(`not whole numbers: ${new TextDecoder().decode(content)}`);
    return values;
  },
  encode: (value) => new TextEncoder().encode(value.join(" ")),
};

let server: FileShareServer;
beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());

it("reads and writes a file in the format of the codec, in place and with another length", async () => {
  const file = (await freshShare(server)).rootDirectoryClient.getFileClient("numbers");
  const target = encodedFile(file, numbers);
  expect(await leasedUpdate(target, (draft) => void draft.push(2), { initial: [1] })).toMatchObject({ outcome: "created", value: [1, 2] });
  expect(await file.getProperties()).toMatchObject({ contentType: "text/x-numbers" });
  expect(await leasedUpdate(target, (draft) => void (draft[0] = 7))).toMatchObject({ outcome: "updated", value: [7, 2] });
  expect(await leasedUpdate(target, (draft) => void draft.push(30))).toMatchObject({ value: [7, 2, 30] });
  expect(await leasedUpdate(target, (draft) => [...draft])).toMatchObject({ outcome: "unchanged" });
  expect((await file.downloadToBuffer()).toString()).toBe("7 2 30");
  expect((await readTarget(target)).value).toEqual([7, 2, 30]);
});

it("rejects content that the codec cannot decode, without quoting it, and leaves the file as it is", async () => {
  const file = (await freshShare(server)).rootDirectoryClient.getFileClient("numbers");
  await file.uploadData(Buffer.from("1 secret"));
  const target = encodedFile(file, numbers);
  for (const call of [readTarget(target), leasedUpdate(target, () => [1])]) {
    const error = await call.catch((e: unknown) => e);
    expect(error).toBeInstanceOf(SchemaError);
    expect((error as Error).message).not.toContain("secret");
  }
  expect((await file.downloadToBuffer()).toString()).toBe("1 secret");
});
