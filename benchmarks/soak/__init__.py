"""Kill whatever takes part in a run, at random moments and again and again, and count what that costs.

`python -m benchmarks soak --kills 100 --minutes 60`. A round is one search, final run or campaign that is killed
several times on its way and goes on each time with the command for that; at its end it is held against the same run
undisturbed. What is killed, and after how much of the work, is drawn from a seed and the number of the round.
"""
