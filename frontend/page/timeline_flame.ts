// The page of a recording with call paths.

import { mount } from "../flame/flame";
import { showRecording } from "./recording";

showRecording(mount);
