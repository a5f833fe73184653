"""What runs on a cluster.

`run` (a synchronous job, second by second), `job` (as its owner wrote it), `levels` (what cards read in each mode). Of
jobs with a `plan`: `groups` (which ranks form which parallel groups), `cycle` (phases of a step), `shares` (work that
differs between ranks), `coupling` (how one absent rank stops all), `told` (what the training hook of each rank tells).
"""
