// What every page has: keys, live events, toasts, the theme as it is chosen. Pages work without it.
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startTheme } from "./theme.js";
import { startToasts } from "./toasts.js";

startKeys();
startLive();
startTheme();
startToasts();
