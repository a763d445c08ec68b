import { checksOf } from "../../src/cli/verify/all-checks.js";
import { accountSettingChecks } from "../../src/cli/verify/checks/queues.js";
import { isEmulator } from "../support/clients.js";
import { testChecks } from "./suite.js";

// An account has settings of its own.
testChecks([...checksOf(["queue"]), ...(isEmulator() ? accountSettingChecks : [])]);
