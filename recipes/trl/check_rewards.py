"""Whether each step of TRL's GRPO had the rewards of a model that writes no kernel, though the service was away.

python check_rewards.py FOLDER STEPS
"""

import json
import sys
from pathlib import Path

NO_KERNEL = -1.0  # the reward of an answer without code; an answer without a verdict has none


def main(folder: str, steps: str) -> None:
    state = json.loads((Path(folder) / f"checkpoint-{steps}" / "trainer_state.json").read_text(encoding="utf-8"))
    logged = [entry for entry in state["log_history"] if "reward" in entry]
    others = {entry["step"]: entry["reward"] for entry in logged if entry["reward"] != NO_KERNEL}
    longest = max(logged, key=lambda entry: entry["step_time"])
    if len(logged) != int(steps) or others:
        sys.exit(f"{len(logged)} of {steps} steps have rewards, and {others} are not {NO_KERNEL}")
    print(f"{steps} steps, all rewards {NO_KERNEL}; step {longest['step']} waited {longest['step_time']:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
