import { checksOf } from "../../src/cli/verify/all-checks.js";
import { testChecks } from "./suite.js";

testChecks(checksOf(["file"]));
