/* `npm run layers`: draws the layers of `eslint.layers.js` in CONTRIBUTING.md. */
import { diagramOf, readLayers, writeDiagram } from "./layers.js";

writeDiagram(diagramOf(await readLayers()));
