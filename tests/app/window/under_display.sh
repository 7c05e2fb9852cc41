#!/bin/bash
# Runs a command on a virtual display with Mesa's software renderer; exits with 77 (skipped) without Xvfb.
command -v xvfb-run >/dev/null || { echo "skipped: xvfb-run is not installed"; exit 77; }
export LIBGL_ALWAYS_SOFTWARE=1
# A server that its last client leaves would start anew, and refuse the next one meanwhile.
exec xvfb-run -a -s "-screen 0 1280x800x24 -noreset" "$@"
