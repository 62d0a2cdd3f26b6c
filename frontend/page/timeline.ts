// The page of a recording without call paths.

import { showRecording } from "./recording";

showRecording();
