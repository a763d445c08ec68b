import { runWorker } from "../worker-process.js";

/** What the tests of the workers themselves have a worker do. */
export type Example =
  | { readonly do: "return"; readonly value: unknown }
  | { readonly do: "throw"; readonly message: string }
  | { readonly do: "echo" }
  | { readonly do: "tick" }
  | { readonly do: "hang" };

runWorker(async (example: Example, parent) => {
  switch (example.do) {
    case "return":
      console.log("what a worker prints before its result does no harm");
      return example.value;
    case "throw":
      throw new Error(example.message);
    case "echo":
      for (;;) {
        const message = await parent.receive<string>();
        if (message === "end") return "ended";
        parent.send(`you said ${message}`);
      }
    case "tick":
      setInterval(() => parent.send(Date.now()), 10);
      return new Promise(() => undefined);
    case "hang":
      parent.send("hanging");
      return new Promise(() => undefined);
  }
});
