#!/bin/sh
# A worker with a child in a session of its own, which no signal to the worker's group reaches.
setsid sleep 1000 &
exec sleep 1000
