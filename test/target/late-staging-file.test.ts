import { describe, expect, it } from "vitest";
import { createIfNotExists, overwrite, textFile } from "../../src/index.js";
import type { FileLike } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { ghost, hang, loseAnswer, loseAnswerForGood, pass } from "../fakes/faults.js";
import type { Exchange } from "../fakes/fake-service.js";
import type { Fault } from "../fakes/faults.js";
import { blobError } from "../fakes/rest-errors.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

interface Options {
  abortSignal?: unknown;
  replaceIfExists?: boolean;
}

/** The files of one directory: a create empties an existing file, as in Azure Files. */
class Directory extends FakeService {
  readonly files = new Map<string, Uint8Array>();

  get names(): string[] {
    return [...this.files.keys()];
  }

  text(name: string): string | undefined {
    const bytes = this.files.get(name);
    return bytes && new TextDecoder().decode(bytes);
  }
}

/** Constructed by the library for files beside it, with the same pipeline. */
class FakeFile {
  readonly url: string;
  readonly pipeline: { readonly directory: Directory };
  readonly name: string;

  constructor(url: string, pipeline: { readonly directory: Directory }) {
    this.url = url;
    this.pipeline = pipeline;
    this.name = decodeURIComponent(url.slice(url.lastIndexOf("/") + 1));
  }

  get path(): string {
    return this.name;
  }

  create(size: number, options: Options = {}): Promise<{ etag: string }> {
    return this.#request("create", "write", options, (files) => void files.set(this.name, new Uint8Array(size).fill(0x2d)));
  }

  uploadRange(body: Uint8Array, offset: number, _length: number, options: Options = {}): Promise<{ etag: string }> {
    return this.#request("uploadRange", "write", options, (files) => this.#existing(files).set(body, offset));
  }

  async rename(destination: string, options: Options = {}): Promise<{ fileRenameResponse: { etag: string } }> {
    const fileRenameResponse = await this.#request("rename", "write", options, (files) => {
      const bytes = this.#existing(files);
      if (files.has(destination) && !options.replaceIfExists) throw blobError(409, "ResourceAlreadyExists");
      files.delete(this.name);
      files.set(destination, bytes);
    });
    return { fileRenameResponse };
  }

  getProperties(options: Options = {}): Promise<{ etag: string }> {
    return this.#request("getProperties", "read", options, (files) => void this.#existing(files));
  }

  delete(options: Options = {}): Promise<{ etag: string }> {
    return this.#request("delete", "write", options, (files) => {
      this.#existing(files);
      files.delete(this.name);
    });
  }

  #existing(files: Map<string, Uint8Array>): Uint8Array {
    const bytes = files.get(this.name);
    if (!bytes) throw blobError(404, "ResourceNotFound");
    return bytes;
  }

  #request(operation: string, kind: "read" | "write", { abortSignal }: Options, serve: (files: Map<string, Uint8Array>) => void): Promise<{ etag: string }> {
    const { directory } = this.pipeline;
    return directory.request({ operation, kind, resource: this.url }, abortSignal as AbortSignal, blobError, () => {
      serve(directory.files);
      return { etag: `"${directory.newETag()}"` };
    });
  }
}

function setUp(): { directory: Directory; file: FileLike } {
  const directory = new Directory();
  return { directory, file: new FakeFile("https://account.example.net/share/file", { directory }) as unknown as FileLike };
}

const calls: Readonly<Record<string, (file: FileLike) => Promise<unknown>>> = {
  overwrite: (file) => overwrite(textFile(file), "new"),
  createIfNotExists: (file) => createIfNotExists(textFile(file), "new"),
};

/** The SDK takes the first send for lost and sends again; the first one arrives when the test says so. */
function lateFirstSend(): { readonly fault: Fault; arrive(): void } {
  let serve: (() => unknown) | undefined;
  return {
    fault: async <R>(exchange: Exchange<R>) => {
      serve = exchange.serve;
      await exchange.sendIntoTheVoid();
      return exchange.send();
    },
    arrive: () => void serve?.(),
  };
}

describe.each(Object.entries(calls))("%s of a file", (_, call) => {
  describe.each<[string, () => { readonly fault: Fault; arrive(): void }]>([
    ["a client without retries", ghost],
    ["the SDK, which sends again", lateFirstSend],
  ])("by %s", (_client, late) => {
    it("does not publish an empty staging file when the first send of its create arrives after the content", async () => {
      const { directory, file } = setUp();
      const create = late();
      directory.next("create", create.fault);
      directory.next("rename", (exchange) => {
        create.arrive();
        return exchange.send();
      });
      await inFakeTime(call(file));
      expect(directory.text("file")).toBe("new");
    });

    it("is not taken for discarded when that send arrives after the rename, whose answer is lost", async () => {
      const { directory, file } = setUp();
      const create = late();
      directory.next("create", create.fault);
      directory.next("rename", async (exchange) => {
        await exchange.send();
        create.arrive();
        return loseAnswerForGood({ ...exchange, send: () => Promise.resolve() as never });
      });
      await inFakeTime(call(file));
      expect(directory.text("file")).toBe("new");
    });
  });

  it("deletes the staging files that it does not use", async () => {
    const { directory, file } = setUp();
    directory.next("create", loseAnswerForGood, loseAnswer, pass);
    await inFakeTime(call(file));
    expect(directory.names).toEqual(["file"]);
    expect(directory.text("file")).toBe("new");
  });

  it("does not wait for the end of its time if a request for the staging file gets no answer", async () => {
    const { directory, file } = setUp();
    directory.next("create", hang, pass);
    directory.next("uploadRange", hang, pass);
    await inFakeTime(call(file));
    expect(directory.text("file")).toBe("new");
  });
});

it("an overwrite says that it does not know, if the service does not find the staging file, and nothing can be read", async () => {
  const { directory, file } = setUp();
  directory.next("rename", async (exchange) => {
    exchange.serve();
    return exchange.send();
  });
  directory.each("getProperties", loseAnswerForGood);
  expect(await rejection(inFakeTime(overwrite(textFile(file), "new")))).toMatchObject({ code: "COMMIT_UNKNOWN" });
  expect(directory.text("file")).toBe("new");
});
