"""What sensors of an H100 SXM in dense pre-training read in each mode: typical levels, not a datasheet.

500 to 690 W in a step, 120 to 250 W spinning in a collective, 1,400 to 1,800 MHz under load and 1,980 MHz without.
"""

import numpy as np

# One row per Mode: IDLE, LOAD, STEP, PAUSE, WAIT.
UTILISATION = np.array([0.0, 0.55, 1.0, 0.06, 1.0])
COMPUTE = np.array([0.0, 0.35, 0.88, 0.02, 0.98])  # spinning kernels of a stuck collective look busy
MATRIX = np.array([0.0, 0.12, 0.48, 0.0, 0.0])
MEMORY = np.array([0.0, 0.2, 0.45, 0.02, 0.01])
POWER = np.array([95.0, 270.0, 615.0, 135.0, 205.0])
CLOCK = np.array([1980.0, 1950.0, 1755.0, 1980.0, 1980.0])
BUS = np.array([2e5, 3e9, 6.5e9, 1.6e10, 2e5])
SCALE_UP = np.array([0.0, 2e10, 2.1e11, 0.0, 0.0])
NETWORK = np.array([2e4, 1e9, 1.9e10, 4e9, 3e4])
HELD = np.array([0.0, 14e9, 68e9, 68e9, 68e9])  # bytes of card memory in use
