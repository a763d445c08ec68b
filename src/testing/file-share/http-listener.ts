import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { readAll } from "../http-messages.js";
import { headersOf } from "../request-record.js";
import { parseRequest } from "./request.js";
import { faultResponse, wireResponse } from "./response.js";
import type { FileResponse } from "./response.js";
import { route } from "./router.js";
import type { Account } from "./shared-key.js";
import type { FileShareState } from "./state.js";
import { StorageFault } from "./storage-fault.js";

/** Put Range takes 4 MiB. A body that is a little longer gets the error of the service; a much longer one is not read. */
const maxBody = 16 * 1024 * 1024;

/** The HTTP part of the server: reads a request to its end, handles it atomically, and writes the response. */
export class HttpListener {
  url = "";
  requests = 0;
  readonly #state: FileShareState;
  readonly #account: Account;
  readonly #server: Server;
  #stopping: Promise<void> | undefined;

  constructor(state: FileShareState, account: Account) {
    this.#state = state;
    this.#account = account;
    this.#server = createServer((message, client) => void this.#serve(message, client));
    this.#server.on("connection", (socket) => socket.unref());
    // Idle connections are never closed: after the usual 5 seconds, a client may be about to reuse one.
    this.#server.keepAliveTimeout = 0;
    this.#server.headersTimeout = 0;
    this.#server.requestTimeout = 0;
  }

  async listen(port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject).listen(port, "127.0.0.1", resolve);
    });
    this.#server.unref();
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/${this.#account.name}`;
  }

  stop(): Promise<void> {
    return (this.#stopping ??= this.#close());
  }

  async #serve(message: IncomingMessage, client: ServerResponse): Promise<void> {
    let body: Buffer;
    try {
      body = await readAll(message, maxBody);
    } catch {
      // The client broke the connection: a request that did not arrive completely has no effect. Or the body is too long for any request:
      // it is not kept in memory before it is known who sends it.
      client.destroy();
      return;
    }
    this.requests++;
    const method = message.method ?? "";
    const headers = headersOf(message.rawHeaders);
    // No await from here to the response: that makes every request atomic.
    const response = wireResponse(method, headers, this.#handle(method, message.url ?? "/", headers, body), this.#state.clock.now());
    client.sendDate = false;
    client.writeHead(response.status, response.headers).end(response.body);
  }

  #handle(method: string, url: string, headers: Record<string, string>, body: Buffer): FileResponse {
    try {
      const request = parseRequest(this.#account.name, method, url, headers, body);
      return route({ request, state: this.#state, account: this.#account, url: this.url });
    } catch (error) {
      if (error instanceof StorageFault) return faultResponse(error);
      return faultResponse(new StorageFault("InternalError", { message: `The test server failed: ${String(error)}` }));
    }
  }

  async #close(): Promise<void> {
    // Keeps a process that has nothing else to do alive until the port is closed.
    this.#server.ref();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }
}
